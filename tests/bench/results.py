"""Results: CSV files, statistics over repetitions, tables in Markdown, plots by gnuplot."""
import csv, dataclasses, glob, math, os, subprocess

import guest

COLUMNS = ["experiment", "kernel", "policy", "cpus", "nodes", "threads", "rep", "status", "unit", "work",
           "virtual_ns", "task_ns", "user", "kernel_insns", "user_spin", "kernel_spin", "idle_ns", "rep_bytes",
           "faults", "irqs", "ipis", "syscalls", "cr3_loads", "invlpgs", "atomics", "halts", "transfers",
           "far_transfers", "fault_mean", "fault_p50", "switches", "migrations", "program_faults", "turn", "seed",
           "host_ms", "note", "command"]


def rows_of(boot, run, warm_up, regions):
    """One row a repetition; one without figures if the program did not do it."""
    common = dict(experiment=run.experiment, kernel=boot.kernel, policy=boot.policy, cpus=boot.machine.cpus,
                  nodes=boot.machine.nodes, threads=run.threads, unit=run.unit, work=run.work,
                  status=warm_up["status"], switches=warm_up["switches"], migrations=warm_up["migrations"],
                  program_faults=warm_up["faults"], note=warm_up.get("note", ""), command=run.command)
    if not regions:
        return [dict(common, rep=0)]
    rows = []
    for rep, region in enumerate(regions, 1):
        total, faults = region["total"], region.get("fault_insns", {})
        events = {k: total[k] for k in ("user", "user_spin", "kernel_spin", "idle_ns", "faults", "irqs", "ipis",
                                        "syscalls", "cr3_loads", "invlpgs", "atomics", "halts", "transfers",
                                        "far_transfers")}
        rows.append(dict(common, rep=rep, virtual_ns=region["virtual_ns"],
                         task_ns=region["virtual_ns"] * region["cpus"] - total["idle_ns"],
                         kernel_insns=total["kernel"],
                         rep_bytes=total["rep_bytes_user"] + total["rep_bytes_kernel"],
                         fault_mean=faults.get("mean", ""), fault_p50=faults.get("p50", ""),
                         turn=region["turn"], seed=region.get("seed", ""), host_ms=region["host_ms"], **events))
    return rows


def write(path, rows):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", newline="") as f:
        writer = csv.DictWriter(f, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read(folder):
    rows = []
    for path in sorted(glob.glob(os.path.join(folder, "*.csv"))):
        with open(path, newline="") as f:
            rows += list(csv.DictReader(f))
    return rows


@dataclasses.dataclass
class Figure:
    """Mean and deviation over the repetitions of one run."""
    experiment: str
    kernel: str
    policy: str
    threads: int
    unit: str
    command: str
    rows: list

    @property
    def note(self):
        """What the program said of itself (@note)."""
        return self.rows[0].get("note") or ""

    def column(self, name):
        return [float(row[name]) for row in self.rows if row[name] not in ("", "-")]

    def mean(self, name):
        values = self.column(name)
        return sum(values) / len(values) if values else math.nan

    @property
    def supported(self):
        return bool(self.column("virtual_ns"))

    @property
    def failed(self):
        return not self.supported and self.rows[0]["status"] != str(guest.UNSUPPORTED)

    @property
    def deviation(self):
        """Standard deviation of the elapsed time, as a part of its mean."""
        values, mean = self.column("virtual_ns"), self.mean("virtual_ns")
        if len(values) < 2 or not mean:
            return 0.0
        return math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1)) / mean

    @property
    def work(self):
        return float(self.rows[0]["work"])

    @property
    def rate(self):
        """Units a second of all threads together."""
        return self.work / self.mean("virtual_ns") * 1e9

    @property
    def latency(self):
        """ns that one thread takes for a unit."""
        return self.mean("virtual_ns") * self.threads / self.work

    @property
    def task_rate(self):
        """Units per second of CPU time."""
        return self.work / self.mean("task_ns") * 1e9


def figures(rows):
    groups = {}
    for row in rows:
        key = (row["experiment"], row["kernel"], row["policy"], int(row["threads"]))
        groups.setdefault(key, []).append(row)
    return [Figure(*key, unit=group[0]["unit"], command=group[0]["command"], rows=group)
            for key, group in groups.items()]


def table(header, lines):
    """A Markdown table, its numbers to the right."""
    out = ["| " + " | ".join(header) + " |", "|" + "---|" + "---:|" * (len(header) - 1)]
    return "\n".join(out + ["| " + " | ".join(str(cell) for cell in line) + " |" for line in lines])


def number(value, digits=0):
    return "-" if math.isnan(value) else f"{value:,.{digits}f}"


def name_of(figure):
    return "Linux" if figure.kernel == "linux" else f"Faultline {figure.policy}".replace(" default", "")


def run_table(chosen, base):
    """Per run: what the mails of 2013 reported; efficiency against one thread, whose figures are in `base`."""
    alone = {(f.kernel, f.policy): f.latency for f in base if f.threads == 1 and f.supported}
    lines = []
    for f in chosen:
        if not f.supported:
            why = "failed" if f.failed else "not supported"
            lines.append([name_of(f), f.threads, why] + ["-"] * 10)
            continue
        instructions = sum(f.mean(c) for c in ("user", "kernel_insns", "user_spin", "kernel_spin"))
        efficiency = alone.get((f.kernel, f.policy), math.nan) / f.latency * 100
        lines.append([name_of(f), f.threads, number(f.mean("virtual_ns") / 1e6, 3),
                      f"{f.deviation * 100:.1f} %", number(f.latency), number(efficiency), number(f.rate), number(f.task_rate),
                      number(f.mean("task_ns") / 1e6, 2), number(f.mean("switches")), number(f.mean("migrations")),
                      number(f.mean("faults")), number(instructions / 1e6, 2)])
    return table(["kernel", "threads", "elapsed, ms", "deviation", "ns a unit", "efficiency, %", "units/s", "units/CPU s",
                  "task-clock, ms", "context switches", "migrations", "page faults", "instructions, millions"], lines)


def notes(chosen):
    """What programs have said."""
    return "\n".join(f"- {name_of(f)}, threads {f.threads}: {f.note}" for f in chosen if f.note)


def compare_table(ours, linux):
    """Faultline against Linux, run by run; a ratio above 1 means that Faultline is faster."""
    by_threads = {f.threads: f for f in linux if f.supported}
    lines = []
    for f in ours:
        other = by_threads.get(f.threads)
        if f.supported and other:
            lines.append([f.policy, f.threads, number(other.latency), number(f.latency),
                          f"{other.latency / f.latency:.2f}"])
    return table(["policy", "threads", "Linux, ns a unit", "Faultline, ns a unit", "ratio"], lines) if lines else ""


def summary_table(by_experiment):
    """Per experiment the fewest and the most threads that both kernels ran; Faultline as it is by default."""
    lines = []
    for name, (experiment, chosen) in by_experiment.items():
        linux = {f.threads: f for f in chosen if f.kernel == "linux" and f.supported}
        ours = {f.threads: f for f in chosen if f.policy == "default" and f.supported}
        common = sorted(set(linux) & set(ours))
        for threads in dict.fromkeys(common[:1] + common[-1:]):
            a, b = linux[threads].latency, ours[threads].latency
            lines.append([f"[{name}](#{name.replace('.', '')}): {experiment['title']}", threads, number(a), number(b),
                          f"{a / b:.2f}"])
    return table(["experiment", "threads", "Linux, ns a unit", "Faultline, ns a unit", "ratio"], lines)


def in_order(chosen):
    """Linux first, then policies in the order in which they were run, each by threads."""
    policies = list(dict.fromkeys(f.policy for f in chosen))
    return sorted(chosen, key=lambda f: (f.kernel != "linux", policies.index(f.policy), f.threads))


def plot(path, title, unit, chosen):
    """Units a second over threads, one line a kernel and policy, as SVG."""
    series = {}
    for f in chosen:
        if f.supported:
            series.setdefault(name_of(f), []).append((f.threads, f.rate, f.rate * f.deviation))
    if not series or max(len(points) for points in series.values()) < 2:
        return False
    script = [f'set terminal svg size 760,460 dynamic background "white" font "sans,13"', f'set output "{path}"',
              f'set title "{title}"', 'set xlabel "threads"', f'set ylabel "{unit}s per virtual second"',
              "set logscale xy 2", 'set format y "%.1s%c"', "set grid", "set key left top",
              "set xtics (1,2,4,8,16,32,64,128,256,512)"]
    for i, (name, points) in enumerate(series.items()):
        script += [f"$d{i} << EOD", *(f"{x} {y} {e}" for x, y, e in sorted(points)), "EOD"]
    script.append("plot " + ", ".join(f'$d{i} using 1:2:3 with yerrorlines lw 2 title "{name}"'
                                      for i, name in enumerate(series)))
    subprocess.run(["gnuplot"], input="\n".join(script) + "\n", text=True, check=True)
    return True
