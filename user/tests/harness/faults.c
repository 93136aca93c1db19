/* Faults: caught where a test expects them. */
#include "internal.h"

__thread struct hit hit;
__thread sigjmp_buf *volatile try_here;

static void on_fault(int sig, siginfo_t *info, void *uc)
{
	(void)uc;
	hit.sig = sig;
	hit.code = info->si_code;
	hit.addr = (uintptr_t)info->si_addr;
	if (!try_here) {
		diag("stray signal %d code %d at 0x%lx", hit.sig, hit.code, hit.addr);
		_exit(2);
	}
	siglongjmp(*try_here, 1);
}

void catch_faults(void)
{
	static volatile bool installed;
	static const int signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP };

	if (installed)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		struct sigaction sa = { .sa_sigaction = on_fault,
					.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK };

		NEED(sigaction(signals[i], &sa, NULL) == 0);
	}
	installed = true;
}

bool loads(const volatile void *p)
{
	return TRY((void)*(const volatile char *)p);
}

bool stores(volatile void *p, int byte)
{
	return TRY(*(volatile char *)p = byte);
}

bool jumps(const volatile void *p)
{
	return TRY(((void (*)(void))(uintptr_t)p)());
}

void crash(void)
{
	char *volatile nowhere = (char *)8;

	*(volatile char *)nowhere = 1;
}
