"""Experiments as data: reads experiments.ini and turns it into boots, each with a list of commands."""
import configparser, dataclasses, os

HERE = os.path.dirname(os.path.abspath(__file__))


class BadExperiment(Exception):
    pass


@dataclasses.dataclass(frozen=True)
class Machine:
    cpus: int
    nodes: int
    memory: str


@dataclasses.dataclass(frozen=True)
class Boot:
    """What has to be the same for experiments to run in one boot."""
    kernel: str
    machine: Machine
    policy: str
    kargs: str
    metronome: str


@dataclasses.dataclass
class Run:
    """One program with one number of threads on one boot."""
    experiment: str
    threads: int
    warm_up: str
    command: str
    reps: int
    work: float
    unit: str
    settings: list

    @property
    def key(self):
        return f"{self.experiment}/{self.threads}"


def load(path=os.path.join(HERE, "experiments.ini")):
    config = configparser.ConfigParser(interpolation=None)
    with open(path) as f:
        config.read_file(f)
    return {name: dict(config[name]) for name in config.sections()}


def selected(all_experiments, name):
    """Those called `name` or `name.something`."""
    if not name:
        return dict(all_experiments)
    chosen = {k: v for k, v in all_experiments.items() if k == name or k.startswith(name + ".")}
    if not chosen:
        raise BadExperiment(f"no experiment '{name}'; there are: {', '.join(all_experiments)}")
    return chosen


def in_full(experiment):
    """The experiment with the historic counts: each full_KEY takes KEY's place."""
    return {**experiment, **{k[5:]: v for k, v in experiment.items() if k.startswith("full_")}}


def machine_of(experiment):
    cpus, nodes, memory = experiment["machine"].split()
    return Machine(int(cpus), int(nodes), memory)


def policies_of(experiment, kernel):
    """(name, kernel parameters) pairs; Linux has only its own."""
    if kernel == "linux":
        return [("linux", "")]
    pairs = []
    for line in experiment["policies"].split("\n"):
        words = line.split()
        if words:
            pairs.append((words[0], " ".join(words[1:])))
    return pairs


def fill(template, values, what):
    try:
        return template.format(**values)
    except (KeyError, ValueError) as e:
        raise BadExperiment(f"{what}: {e} in '{template}'")


def run_of(name, experiment, threads, machine):
    numbers = {k: int(v) for k, v in experiment.items() if v.isdigit()}
    numbers.update(threads=threads, cpus=machine.cpus, nodes=machine.nodes)
    program = experiment["program"]
    try:
        work = float(eval(experiment["work"], {"__builtins__": {}}, numbers))
    except Exception as e:
        raise BadExperiment(f"{name}: work: {e}")
    return Run(experiment=name, threads=threads,
               warm_up=fill(program, {**numbers, "reps": 1}, name),
               command=fill(program, numbers, name),
               reps=numbers["reps"], work=work, unit=experiment["unit"],
               settings=[fill(line.strip(), numbers, name) for line in experiment["set"].split("\n")
                         if line.strip()])


def plan(experiments, kernel, full=False, policy=None):
    """{Boot: [Run]}, in the order of the file."""
    boots = {}
    for name, experiment in experiments.items():
        if kernel not in experiment["kernels"].split():
            continue
        experiment = in_full(experiment) if full else experiment
        counts = [int(n) for n in experiment["threads"].split()]
        if not counts:
            continue
        machine = machine_of(experiment)
        metronome = fill(experiment["metronome"], {"nodes": machine.nodes, "cpus": machine.cpus}, name)
        for policy_name, kargs in policies_of(experiment, kernel):
            if policy and policy_name != policy:
                continue
            boot = Boot(kernel, machine, policy_name, kargs, metronome)
            runs = boots.setdefault(boot, [])
            runs += [run_of(name, experiment, threads, machine) for threads in counts]
    return boots


def script(runs):
    """The list for benchrun, in the guest."""
    lines = []
    for run in runs:
        lines += [f"set {setting}" for setting in run.settings]
        lines += [f"count {run.key} {run.warm_up}", f"run {run.key} {run.command}"]
    return "\n".join(lines) + "\n"
