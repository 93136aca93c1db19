"""Boots Faultline or Linux under the metronome, and yields what happens in it as it happens."""
import json, os, re, selectors, shutil, signal, subprocess, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.join(ROOT, "build", "bench")
TESTS = os.path.join(ROOT, "tests")
# The same in every run, as far as QEMU can make it so: random numbers of the CPU, time of day.
REPEATABLE = ["-seed", "1", "-rtc", "base=2024-01-01,clock=vm"]
# Fair settings for Linux; docs/metronome.md says why each.
LINUX_ARGS = ("console=ttyS0 quiet panic=-1 nokaslr norandmaps tsc=unstable clocksource=hpet lpj=4000000 "
              "mitigations=off init_on_alloc=0 transparent_hugepage=never")


UNSUPPORTED = 77        # exit status of a program whose kernel lacks what is to be measured


class GuestFailed(Exception):
    pass


def linux_kernel():
    return os.path.join(ROOT, "build", "linux", "vmlinuz")


def initramfs(script, name):
    """All user programs, and the list of what to run as /bench.list."""
    with tempfile.TemporaryDirectory(dir=BUILD) as extra:
        with open(os.path.join(extra, "bench.list"), "w") as f:
            f.write(script)
        built = os.path.join(ROOT, "build", "user", "root")
        programs = [os.path.join(d, f) for d, _, files in os.walk(built) for f in files if "/tests" not in d]
        out = os.path.join(BUILD, name + ".cpio")
        subprocess.run([os.path.join(ROOT, "user", "mkinitramfs.sh"), out, built, extra, *sorted(programs)],
                       check=True)
    return out


def machine_arguments(machine):
    environment = dict(os.environ, CPUS=str(machine.cpus), NODES=str(machine.nodes), MEM=machine.memory,
                       CPU="max,la57=off")
    environment.pop("TOPO", None)
    return environment, subprocess.run([os.path.join(TESTS, "machine.sh")], env=environment, check=True,
                                       capture_output=True, text=True).stdout.split("\n")[:-1]


def command_line(boot, archive, command):
    """(environment, arguments) that start the guest."""
    environment, machine = machine_arguments(boot.machine)
    if boot.kernel == "linux":
        if "'" in command or len(LINUX_ARGS) + len(command) > 1900:
            raise GuestFailed("Linux's command line cannot hold: " + command)
        return environment, [os.path.join(TESTS, "metronome", "qemu.sh"), *machine, *REPEATABLE,
                             "-accel", "tcg,thread=multi", "-nodefaults", "-no-user-config", "-display", "none",
                             "-no-reboot", "-serial", "stdio",
                             "-device", "isa-debug-exit,iobase=0x501,iosize=2",
                             "-kernel", linux_kernel(), "-initrd", archive,
                             "-append", f'{LINUX_ARGS} {boot.kargs} run="{command}"']
    environment.update(KERNEL=os.environ.get("KERNEL", os.path.join(ROOT, "build", "release", "faultline.elf")),
                       INITRAMFS=archive, ISO="", BOOT="pvh", CMD=command, KARGS=boot.kargs, TIMEOUT="0",
                       ACCEL="tcg,thread=multi",
                       QEMU=os.path.join(TESTS, "metronome", "qemu.sh"), QEMU_ARGS=" ".join(REPEATABLE), LOG="")
    return environment, [os.path.join(TESTS, "qemu.sh")]


class Guest:
    """A running guest. Iterate over it for its lines; `regions()` at each @end gives that program's reports."""

    def __init__(self, boot, script, log, quiet_limit=600, command="benchrun /bench.list", options=""):
        os.makedirs(BUILD, exist_ok=True)
        name = os.path.splitext(os.path.basename(log))[0]
        self.report_path = os.path.join(BUILD, name + ".json")
        self.seen = 0
        self.quiet_limit = quiet_limit
        self.log = open(log, "w")
        open(self.report_path, "w").close()
        environment, arguments = command_line(boot, initramfs(script, name), command)
        # Faultline boots so fast that turns can be taken from power-on, and a run repeats to the instruction.
        whole = "region=all" if boot.kernel == "faultline" else ""
        environment["METRONOME"] = ",".join(filter(None, [f"report={self.report_path}", whole, boot.metronome,
                                                          options]))
        self.process = subprocess.Popen(arguments, env=environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        start_new_session=True)

    def __iter__(self):
        rest = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while True:
                if not selector.select(self.quiet_limit):
                    raise GuestFailed(f"no output for {self.quiet_limit} s (log: {self.log.name})")
                data = os.read(self.process.stdout.fileno(), 65536)
                if not data:
                    break
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    text = line.decode(errors="replace").rstrip("\r")
                    self.log.write(text + "\n")
                    self.log.flush()
                    yield text
        self.log.write(rest.decode(errors="replace") + "\n")

    def regions(self):
        """The reports of the program that has just ended: up to benchrun's separator, an empty region."""
        with open(self.report_path) as f:
            reports = [json.loads(line) for line in f if line.endswith("\n")]
        first = self.seen
        while self.seen < len(reports):
            self.seen += 1
            if reports[self.seen - 1]["total"]["user"] == 0:
                return reports[first:self.seen - 1]
        raise GuestFailed(f"no separator in {self.report_path}")

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        """Ends only what this object started: the process group of its own session."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
        self.status = self.process.wait()
        self.log.close()


END = re.compile(r"@end (\S+) status (\d+) task_us (\d+) switches (\d+) faults (\d+) migrations (\S+)")


def measure(boot, runs, script, log, options="", on_begin=lambda key: None):
    """Yields (run, warm-up's @end fields, regions, host seconds) for each run; regions is None where unsupported."""
    by_key = {run.key: run for run in runs}
    counted, began, seen_end, note = {}, time.monotonic(), 0, ""
    lacks = False                        # the kernel has not got what the boot parameters choose
    with Guest(boot, script, log, options=options) as guest:
        for line in guest:
            if line.startswith("@begin "):
                on_begin(line.split()[1])
                note = ""
            elif "warning: unknown parameter" in line or "warning: parameter" in line:
                lacks = True
            elif line.startswith("@note "):
                note = line[6:]
            end = END.search(line)
            if not end:
                continue
            key, status = end[1], int(end[2])
            regions, took = guest.regions(), time.monotonic() - began
            began = time.monotonic()
            if key not in counted:       # the warm-up, which is thrown away
                counted[key] = dict(status=status, task_us=int(end[3]), switches=int(end[4]),
                                    faults=int(end[5]), migrations=end[6])
                continue
            seen_end += 1
            if lacks:
                status = UNSUPPORTED
            good = status == 0 and len(regions) == by_key[key].reps
            yield by_key[key], dict(counted[key], status=status, note=note), regions if good else None, took
    if seen_end < len(runs):
        raise GuestFailed(f"the guest ended after {seen_end} of {len(runs)} runs (log: {log})")
