/* What QEMU loads: checks its version, reads the options, registers the callbacks. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "metronome.h"

EXPORT const int qemu_plugin_version = API_VERSION;

struct qemu_plugin_scoreboard *scoreboard;
int vcpu_count;
__thread int self = -1;

static void on_init(qemu_plugin_id_t id, unsigned int vcpu)
{
	self = (int)vcpu;
	translate_find_registers();
	vcpu_started(vcpu);
	(void)id;
}

static void on_idle(qemu_plugin_id_t id, unsigned int vcpu)
{
	self = (int)vcpu;
	vcpu_halted(vcpu);
	(void)id;
}

static void on_resume(qemu_plugin_id_t id, unsigned int vcpu)
{
	self = (int)vcpu;
	vcpu_resumed(vcpu);
	(void)id;
}

/*
 * QEMU is about to exit. A run without a region measured nothing, which must not look like success.
 */
static void on_exit_of_qemu(qemu_plugin_id_t id, void *unused)
{
	region_abandon();
	if (!region_was_marked() && !options.whole_run) {
		fprintf(stderr, "metronome: the guest never marked a region (xchg %%r15,%%r15)\n");
		fflush(NULL);
		_exit(NO_REGION);
	}
	(void)id, (void)unused;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	if (info->version.cur < API_VERSION) {
		fprintf(stderr,
			"metronome: QEMU 9.0 or newer is needed (plugin interface %d, not %d)\n",
			API_VERSION, info->version.cur);
		exit(BAD_USE);
	}
	if (!info->system_emulation || strcmp(info->target_name, "x86_64")) {
		fprintf(stderr, "metronome: only qemu-system-x86_64 is supported\n");
		exit(BAD_USE);
	}
	if (info->system.smp_vcpus > MAX_VCPUS) {
		fprintf(stderr, "metronome: at most %d CPUs\n", MAX_VCPUS);
		exit(BAD_USE);
	}
	if (!options_read(argc, argv) || !report_open() || !profile_start())
		exit(BAD_USE);
	vcpu_count = info->system.smp_vcpus;
	scoreboard = qemu_plugin_scoreboard_new(sizeof(struct score));
	coherence_start();
	host_start();
	turns_start();
	qemu_plugin_register_vcpu_init_cb(id, on_init);
	qemu_plugin_register_vcpu_idle_cb(id, on_idle);
	qemu_plugin_register_vcpu_resume_cb(id, on_resume);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
	qemu_plugin_register_atexit_cb(id, on_exit_of_qemu, NULL);
	return 0;
}
