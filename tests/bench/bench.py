#!/usr/bin/env python3
"""
The measurements: run experiments on Faultline or Linux, compare them, write the document.

usage: bench.py run KERNEL [-e NAME] [-p POLICY] [-f] [-s SEED] [-o OPTIONS] [-d KEY=VALUE]...
       bench.py profile KERNEL [the same] which functions of the kernel the instructions went to; folded stacks
       bench.py compare [-e NAME]         both kernels' latest results, with ratios
       bench.py publish                   docs/results.md, its plots and CSV files, from the latest results
       bench.py list

KERNEL is faultline or linux. -f takes the historic thread counts; -d changes a key of every chosen experiment (a list has
commas: threads=1,4); -s is the metronome's seed, -o more options of it. Results: build/bench/KERNEL/EXPERIMENT.csv.
Exit status: 0, or 1 if a program failed, 2 for wrong usage.
"""
import argparse, glob, os, shutil, signal, subprocess, sys, time

import experiments, guest, results

DOCS = os.path.join(guest.ROOT, "docs")


def folder(kernel):
    return os.path.join(guest.BUILD, kernel)


def say(text, end="\n"):
    print(text, end=end, flush=True)


class Progress:
    def __init__(self, total):
        self.total, self.done, self.began = total, 0, time.monotonic()

    def begin(self, key):
        if sys.stdout.isatty():
            say(f"\r\033[K[{self.done + 1}/{self.total}] {key} ...", end="")

    def end(self, boot, run, text, seconds):
        self.done += 1
        clear = "\r\033[K" if sys.stdout.isatty() else ""
        say(f"{clear}[{self.done}/{self.total}] {boot.kernel} {boot.policy} {run.experiment} "
            f"threads={run.threads}: {text} ({seconds:.0f} s of {time.monotonic() - self.began:.0f})")


def text_of(figure):
    if figure.failed:
        return f"FAILED, status {figure.rows[0]['status']}"
    if not figure.supported:
        return "not supported"
    cost = figure.mean("fault_p50")
    more = "" if cost != cost else f", {cost:.0f} kernel instructions a fault (median)"
    more += f"; {figure.note}" if figure.note else ""
    return f"{figure.latency:,.0f} ns a {figure.unit} ±{figure.deviation * 100:.1f} %{more}"


def print_top(region):
    total = sum(region["total"][k] for k in ("user", "kernel", "user_spin", "kernel_spin"))
    for name, count in region.get("top", []):
        say(f"    {count / total * 100:5.1f} %  {count:12,}  {name}")
    total = region["total"]["transfers"] + region["total"]["far_transfers"]
    for name, count in region.get("top_transfers", []):
        say(f"    {count / total * 100:5.1f} %  {count:12,}  cache lines moved for {name}")


def run_boot(boot, runs, progress, options, label):
    """Measures the runs of one boot, in more boots if a guest dies. Returns the rows."""
    rows, left, attempt = [], list(runs), 0
    while left:
        attempt += 1
        log = os.path.join(guest.BUILD, f"{label}-{attempt}.log")
        try:
            for run, warm_up, regions, seconds in guest.measure(boot, left, experiments.script(left), log, options,
                                                                progress.begin):
                new = results.rows_of(boot, run, warm_up, regions)
                rows += new
                left = [r for r in left if r is not run]
                progress.end(boot, run, text_of(results.figures(as_text(new))[0]), seconds)
                if regions:
                    print_top(regions[-1])
        except guest.GuestFailed as e:
            say(f"bench: {e}")
        if left:                # the first of them has killed the guest
            dead = left.pop(0)
            new = results.rows_of(boot, dead, dict(status=255, switches="", migrations="", faults=""), None)
            rows += new
            progress.end(boot, dead, "FAILED, the guest died", 0)
    return rows


def as_text(rows):
    return [{c: str(row.get(c, "")) for c in results.COLUMNS} for row in rows]


def save(kernel, rows, replaced):
    """One file an experiment. Of an old file, results of policies that were not run again stay."""
    for name in sorted({row["experiment"] for row in rows}):
        path = os.path.join(folder(kernel), name + ".csv")
        old = [row for row in results.read(folder(kernel)) if row["experiment"] == name
               and (row["policy"], row["threads"]) not in replaced]
        results.write(path, old + [row for row in as_text(rows) if row["experiment"] == name])


def symbols_of(kernel):
    """A file with the kernel's symbols; Linux is booted once to tell its own."""
    path = os.path.join(folder(kernel), "symbols")
    if kernel == "faultline":
        with open(path, "w") as f:
            subprocess.run(["nm", os.environ["KERNEL"]], stdout=f, check=True)
    elif not os.path.exists(path):
        boot = experiments.Boot("linux", experiments.Machine(1, 1, "1G"), "linux", "", "region=all")
        log = os.path.join(guest.BUILD, "linux-symbols.log")
        say("Booting Linux to read its symbols")
        with guest.Guest(boot, "", log, command="cat /proc/kallsyms") as running:
            lines = [line for line in running if " t " in line or " T " in line]
        with open(path, "w") as f:
            f.writelines(line + "\n" for line in lines if "[" not in line)
    return path


def command_profile(args):
    os.makedirs(folder(args.kernel), exist_ok=True)
    stacks = os.path.join(guest.BUILD, f"{args.kernel}.folded")
    if os.path.exists(stacks):
        os.unlink(stacks)
    args.options = ",".join(filter(None, [args.options, f"symbols={symbols_of(args.kernel)}", f"folded={stacks}"]))
    args.policy = args.policy or ("linux" if args.kernel == "linux" else "default")
    args.keep = False
    status = command_run(args)
    say(f"Stacks of all regions, for a flame graph: {stacks}")
    return status


def command_run(args):
    chosen = experiments.selected(experiments.load(), args.experiment)
    for change in args.changes:
        key, _, value = change.replace(",", " ").partition("=")
        for experiment in chosen.values():
            if key in experiment:
                experiment[key] = experiment["full_" + key] = value
    if args.kernel == "linux" and not os.path.exists(guest.linux_kernel()):
        sys.exit("bench: no Linux kernel yet: make build/linux/vmlinuz")
    boots = experiments.plan(chosen, args.kernel, args.full, args.policy)
    progress = Progress(sum(len(runs) for runs in boots.values()))
    options = ",".join(filter(None, [f"seed={args.seed}" if args.seed is not None else "", args.options]))
    os.makedirs(folder(args.kernel), exist_ok=True)
    rows = []
    for i, (boot, runs) in enumerate(boots.items()):
        m = boot.machine
        say(f"Booting {args.kernel}: {m.cpus} CPUs, {m.nodes} nodes, {m.memory}"
            + (f", {boot.kargs}" if boot.kargs else "") + (f", {boot.metronome}" if boot.metronome else ""))
        new = run_boot(boot, runs, progress, options, f"{args.kernel}-{i}")
        rows += new
        if not args.keep:
            continue
        save(args.kernel, new, {(row["policy"], str(row["threads"])) for row in new})
    return 1 if any(f.failed for f in results.figures(as_text(rows))) else 0


def both(name):
    figures = results.figures(results.read(folder("faultline"))) + results.figures(results.read(folder("linux")))
    chosen = experiments.selected(experiments.load(), name)
    return {n: (e, [f for f in figures if f.experiment == n]) for n, e in chosen.items()}


def command_compare(args):
    found = False
    for name, (experiment, figures) in both(args.experiment).items():
        text = results.compare_table([f for f in figures if f.kernel == "faultline"],
                                     [f for f in figures if f.kernel == "linux"])
        if text:
            say(f"{name}: {experiment['title']}\n\n{text}\n")
            found = True
    if not found:
        sys.exit("bench: no results of both kernels yet: make bench bench-linux")
    return 0


INTRODUCTION = """# Results

Measured by the metronome ([metronome.md](metronome.md)): every time is virtual, one instruction a nanosecond and CPU,
eight bytes a nanosecond for string stores and copies. Both kernels ran the same static programs in the same emulator, with
the settings in metronome.md; what they spent is counted, not sampled. The first run of each program is thrown away; shown
are mean and standard deviation of the repetitions. Context switches and migrations are those of the thrown-away run,
of the whole program. "ns a unit" is what one thread waits for one unit of work; a ratio above 1 means that Faultline takes less.
Linux is {linux}.

Written by `make results` from the latest `make bench` and `make bench-linux`; every section names the command
that repeats it. The CSV files beside the plots have every repetition.
"""


def linux_version():
    path = os.path.join(os.path.dirname(guest.linux_kernel()), "version")
    if not os.path.exists(path):
        return "Debian's 6.12"
    with open(path) as f:
        words = dict(line.split(": ", 1) for line in f.read().splitlines())
    return f"Debian's package {words['Package']}, version {words['Version']}"


def command_publish(args):
    out = os.path.join(DOCS, "results")
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    found = {name: (e, results.in_order(figures)) for name, (e, figures) in both(None).items() if figures}
    parts = [INTRODUCTION.format(linux=linux_version()), "## Summary\n", results.summary_table(found) + "\n"]
    for name, (experiment, figures) in found.items():
        title = experiment["title"][0].upper() + experiment["title"][1:]
        parts.append(f"## {name}\n\n{title}. After: {experiment['source']}. "
                     f"A unit is one {experiment['unit']}. Program: `{figures[0].command}`.\n\n"
                     + "".join(f"    make {target} EXP={name}{'' if experiment['threads'] else ' FULL=1'}\n"
                               for kernel, target in (("faultline", "bench"), ("linux", "bench-linux"))
                               if kernel in experiment["kernels"].split()))
        if results.plot(os.path.join(out, name + ".svg"), experiment["title"], experiment["unit"], figures):
            parts.append(f"![{experiment['title']}](results/{name}.svg)\n")
        base = found.get(experiment.get("base"), (None, figures))[1]
        parts.append(results.run_table(figures, base) + "\n")
        if results.notes(figures):
            parts.append(results.notes(figures) + "\n")
        costs = [f for f in figures if f.mean("fault_p50") == f.mean("fault_p50")]
        if costs:
            parts.append(results.table(
                ["kernel", "kernel instructions a fault, mean", "median"],
                [[results.name_of(f), results.number(f.mean("fault_mean")), results.number(f.mean("fault_p50"))]
                 for f in costs]) + "\n")
        text = results.compare_table([f for f in figures if f.kernel == "faultline"],
                                     [f for f in figures if f.kernel == "linux"])
        if text:
            parts.append(text + "\n")
        for kernel in ("faultline", "linux"):
            source = os.path.join(folder(kernel), name + ".csv")
            if os.path.exists(source):
                shutil.copy(source, os.path.join(out, f"{name}-{kernel}.csv"))
    with open(os.path.join(DOCS, "results.md"), "w") as f:
        f.write("\n".join(parts))
    say(f"docs/results.md and {len(glob.glob(os.path.join(out, '*.svg')))} plots in docs/results/")
    return 0


def command_list(args):
    for name, experiment in experiments.load().items():
        say(f"{name:24} {experiment['title']}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True)
    run, profile = commands.add_parser("run"), commands.add_parser("profile")
    for p in (run, profile):
        p.add_argument("kernel", choices=["faultline", "linux"])
        p.add_argument("-p", dest="policy")
        p.add_argument("-f", dest="full", action="store_true")
        p.add_argument("-s", dest="seed", type=int)
        p.add_argument("-o", dest="options", default="")
        p.add_argument("-d", dest="changes", metavar="KEY=VALUE", action="append", default=[])
        p.set_defaults(keep=True)
    compare = commands.add_parser("compare")
    for p in (run, profile, compare):
        p.add_argument("-e", dest="experiment", default="")
    commands.add_parser("publish")
    commands.add_parser("list")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *unused: sys.exit(143))    # through the guest's clean-up
    try:
        return globals()["command_" + args.what](args)
    except experiments.BadExperiment as e:
        print(f"bench: {e}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
