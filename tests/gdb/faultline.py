"""
gdb commands for Faultline; `make gdb` loads them. A gdb thread is a CPU.

    fl cpus              what each CPU runs, and where it is
    fl percpu VAR [CPU]  a per-CPU variable, of all CPUs or one
    fl pt ADDRESS        the page-table entries on the way to an address, from this CPU's CR3
    fl ptdump [START [END]]  what is mapped there, runs of equal pages in one line
    fl tasks             all tasks
    fl areas [TASK]      areas of a task's address space; TASK is a tid, default the current one
    fl frame PFN         the descriptor of a frame

Page tables are read by physical address (a mode of QEMU's stub), so pt works
before the kernel has its own tables and when these are broken.
"""
import gdb

ADDR = 0x000FFFFFFFFFF000
FLAGS = [(1 << 1, "W"), (1 << 2, "U"), (1 << 5, "A"), (1 << 6, "D"), (1 << 8, "G"), (1 << 9, "special"), (1 << 63, "NX")]
LEVELS = {4: "root", 3: "PUD", 2: "PMD", 1: "PTE"}


def value(expression):
    return gdb.parse_and_eval(expression)


def number(expression):
    return int(value(expression)) & (1 << 64) - 1


def register(name):
    """A register as a plain number; QEMU gives control registers as flags of unknown type."""
    text = gdb.execute(f"info registers {name}", to_string=True).split()
    return int(text[1], 16)


def physical(address, size):
    """Bytes at a physical address."""
    gdb.execute("maintenance packet Qqemu.PhyMemMode:1", to_string=True)
    try:
        gdb.execute("maintenance flush register-cache", to_string=True)
        return bytes(gdb.selected_inferior().read_memory(address, size))
    finally:
        gdb.execute("maintenance packet Qqemu.PhyMemMode:0", to_string=True)


def table(address):
    data = physical(address, 4096)
    return [int.from_bytes(data[i:i + 8], "little") for i in range(0, 4096, 8)]


def flags(entry):
    return " ".join(name for bit, name in FLAGS if entry & bit)


def canonical(address):
    return address | 0xFFFF000000000000 if address >> 47 & 1 else address


def walk(root, address):
    """Yields (level, address of the entry, entry) downwards, to where the walk ends."""
    at = root & ADDR
    for level in (4, 3, 2, 1):
        where = at + (address >> 12 + 9 * (level - 1) & 511) * 8
        entry = int.from_bytes(physical(where, 8), "little")
        yield level, where, entry
        if not entry & 1 or level == 1 or (level < 4 and entry & 0x80):
            return
        at = entry & ADDR


def leaves(root, start, end):
    """Yields (virtual address, size, entry) of all that is mapped in [start, end)."""
    def below(at, level, base):
        shift = 12 + 9 * (level - 1)
        for i, entry in enumerate(table(at & ADDR)):
            address = canonical(base + (i << shift))
            if address + (1 << shift) <= start or address >= end or not entry & 1:
                continue
            if level == 1 or (level < 4 and entry & 0x80):
                yield address, 1 << shift, entry
            else:
                yield from below(entry, level - 1, base + (i << shift))
    yield from below(root, 4, 0)


def per_cpu(variable, cpu):
    """The instance of a per-CPU variable that belongs to a CPU, as a gdb value."""
    symbol = value(variable)
    address = int(symbol.address) + number(f"percpu_offset[{cpu}]") & (1 << 64) - 1
    return gdb.Value(address).cast(symbol.type.pointer()).dereference()


def cpus():
    return number("num_cpus")


def tasks():
    """Every thread that has a number: kernel/process.c keeps them in a table of chunks."""
    chunks = value("'kernel/process.c'::chunks")
    for i in range(chunks.type.range()[1] + 1):
        if int(chunks[i]):
            entries = chunks[i]["entries"]
            for j in range(entries.type.range()[1] + 1):
                task = entries[j]["task"]
                if int(task):
                    yield task


class Prefix(gdb.Command):
    """Commands for Faultline's structures."""
    def __init__(self):
        super().__init__("fl", gdb.COMMAND_DATA, prefix=True)


Prefix()


def command(usage):
    """Make a gdb command of a function that takes the words of its line."""
    def wrap(function):
        class Command(gdb.Command):
            __doc__ = f"fl {usage}\n{function.__doc__}"

            def invoke(self, line, tty):
                try:
                    function(*gdb.string_to_argv(line))
                except TypeError:
                    raise gdb.GdbError(f"usage: fl {usage}")

        Command("fl " + usage.split()[0], gdb.COMMAND_DATA)
        return function
    return wrap


@command("cpus")
def fl_cpus():
    """What each CPU runs, and where it is."""
    for thread in sorted(gdb.selected_inferior().threads(), key=lambda t: t.num):
        cpu = thread.num - 1
        before = gdb.selected_thread()
        thread.switch()
        place = gdb.execute("info symbol $pc", to_string=True).split(" in section")[0].strip()
        pc = number("$pc")
        before.switch()
        try:
            task = per_cpu("current_task", cpu)
            who = f"{int(task['tid'])} {task['comm'].string()}" if int(task) else "-"
        except gdb.error:
            who = "-"
        print(f"CPU {cpu:3}  {who:24} {pc:#018x} {place if not place.startswith('No symbol') else ''}")


@command("percpu VAR [CPU]")
def fl_percpu(variable, cpu=None):
    """A per-CPU variable, of all CPUs or one."""
    for n in [int(cpu)] if cpu else range(cpus()):
        print(f"CPU {n:3}  {per_cpu(variable, n)}")


@command("pt ADDRESS")
def fl_pt(address):
    """The page-table entries on the way to an address, from this CPU's CR3."""
    address = number(address)
    if not register("cr0") >> 31:
        print("paging is off on this CPU")
        return
    for level, where, entry in walk(register("cr3"), address):
        if not entry & 1:
            print(f"{LEVELS[level]:5}{where:#014x}: {entry:#018x}  not present")
            return
        print(f"{LEVELS[level]:5}{where:#014x}: {entry:#018x}  {flags(entry)}")
    size = 1 << 12 + 9 * (level - 1)
    print(f"maps {address & -size:#x}, {size >> 10} KB, to physical {entry & ADDR & -size | address & size - 1:#x}")


@command("ptdump [START [END]]")
def fl_ptdump(start="0", end="0xffffffffffffffff"):
    """What is mapped, runs of pages with equal size and rights in one line."""
    run = None  # first address, after, physical, size, flags
    def show():
        if run:
            print(f"{run[0]:#018x}-{run[1]:#018x} {run[1] - run[0] >> 10:10} KB  to {run[2]:#014x}  "
                  f"{run[3] >> 10:7} KB pages  {run[4]}")
    for address, size, entry in leaves(register("cr3"), number(start), number(end)):
        to, bits = entry & ADDR & -size, flags(entry & ~0x60)
        if run and run[1] == address and run[3:] == (size, bits) and run[2] + (address - run[0]) == to:
            run = (run[0], address + size) + run[2:]
        else:
            show()
            run = (address, address + size, to, size, bits)
    show()


@command("tasks")
def fl_tasks():
    """All tasks."""
    print(f"{'tid':>6} {'pid':>6} {'cpu':>3} {'state':20} comm             task")
    for task in tasks():
        pid = int(task["process"]["pid"]) if int(task["process"]) else 0
        state = str(value(f"(enum task_state){int(task['state'])}"))
        print(f"{int(task['tid']):6} {pid:6} {int(task['cpu']):3} "
              f"{state:20} {task['comm'].string():16} {int(task):#x}")


@command("areas [TASK]")
def fl_areas(tid=None):
    """Areas of a task's address space; TASK is a tid, default the current one."""
    if tid is None:
        task = per_cpu("current_task", gdb.selected_thread().num - 1)
    else:
        task = next((t for t in tasks() if int(t["tid"]) == int(tid)), None)
        if task is None:
            raise gdb.GdbError(f"no task {tid}")
    mm = task["mm"]
    if not int(mm):
        print("a kernel thread, without an address space")
        return
    area = mm["areas"][0]
    while int(area):
        bits = int(area["flags"])
        rights = "".join(c if bits >> i & 1 else "-" for i, c in enumerate("rwxs"))
        print(f"{int(area['start']):#018x}-{int(area['end']):#018x} {rights} flags {bits:#x}  "
              f"(struct area *){int(area):#x}")
        area = area["next"][0]


@command("frame PFN")
def fl_frame(pfn):
    """The descriptor of a frame."""
    kind = gdb.lookup_type("struct page")
    at = 0xFFFFEA0000000000 + number(pfn) * kind.sizeof
    print(gdb.Value(at).cast(kind.pointer()).dereference())
