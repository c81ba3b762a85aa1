"""What happens in a storm, and when: a pure function of the seed. Nothing here looks at a clock or at a server.

    schedule(seed, faults, nodes) -> [Step], by time

A step says its kind, its target and its numbers. Where a target can only be known when the time comes (the third of the jobs that run
then), the step has a number to choose by. So the same seed asks the same of every run; what the daemons make of it is theirs.
"""

import random
from dataclasses import dataclass, field

FAULT_GAP = (0.5, 2.5)    # seconds from one fault to the next
LOAD_GAP = (0.3, 1.3)     # from one piece of work to the next
NUISANCE_GAP = (2.0, 6.0)  # from one thing that users and operators do to the next
MESSAGE_TIMEOUT = 5       # what the storm's lab has in slurm.conf
LEAD = 5.0                # work that is under way before the first fault
LEASE = {"duration": 6, "renew_deadline": 4, "retry": 1}  # seconds, in the storm's berth.yaml
CONTROLLERS = ["controller", "controller2"]  # one leads, and which one is theirs to say
LONGEST_PAUSE = 12.0      # no fault lasts longer

# (weight, kind, class of targets, (shortest, longest) duration in seconds)
FAULTS = (
    (6, "kill", "controller", (0, 4)), (4, "kill", "controller", (LEASE["duration"] + 1, LONGEST_PAUSE)),
    (12, "kill", "agent", (0, 4)), (8, "kill", "slurmctld", (0, 3)), (10, "kill", "slurmd", (0, 4)),
    (4, "kill", "kube-apiserver", (0, 2)), (3, "kill", "etcd", (0, 2)), (3, "kill", "munged", (0, 2)), (2, "kill", "hollow-kubelet", (0, 2)),
    (1, "kill", "kube-controller-manager", (0, 3)),
    (3, "stop", "controller", (0.2, LEASE["duration"])), (5, "stop", "controller", (LEASE["duration"] + 1, LONGEST_PAUSE)),
    (6, "stop", "agent", (0.2, 8)), (4, "stop", "slurmctld", (0.2, 3)),
    (2, "stop", "slurmctld", (MESSAGE_TIMEOUT + 1, MESSAGE_TIMEOUT + 4)), (5, "stop", "slurmd", (0.2, 8)),
    (3, "stop", "kube-apiserver", (0.2, 6)), (2, "stop", "etcd", (0.2, 5)), (3, "stop", "munged", (0.2, 4)),
    (1, "stop", "hollow-kubelet", (0.2, 4)),
    (6, "restart", "controller", (0, 0)), (3, "restart", "agent", (0, 0)), (3, "restart", "slurmctld", (0, 0)), (3, "restart", "slurmd", (0, 0)),
    (1, "restart", "kube-apiserver", (0, 0)),
    (4, "refuse", "api-link", (0.5, 8)), (5, "silence", "api-link", (0.5, 12)), (3, "refuse", "slurm-link", (0.5, 6)),
    (4, "silence", "slurm-link", (0.5, 9)), (4, "refuse", "doorbell", (1, LONGEST_PAUSE)), (4, "silence", "doorbell", (1, LONGEST_PAUSE)),
    (4, "cut-streams", "api-link", (0, 0)), (4, "slow", "api-link", (1, 8)), (4, "deaf", "api-link", (1, 10)), (3, "compact", "etcd", (0, 0)),
    (6, "fill", "run-dir", (0.5, 6)),
)
# (weight, kind)
WORK = ((50, "pod"), (9, "endless pod"), (4, "pod past its time"), (3, "greedy pod"), (9, "gang"), (7, "group"), (14, "batch"), (5, "wide batch"), (6, "srun"))
NUISANCES = ((5, "scancel"), (5, "delete"), (1, "force delete"), (2, "node down"), (2, "drain"), (1, "suspend"), (1, "reconfigure"),
             (3, "meddle"))


@dataclass
class Step:
    at: float
    sort: str              # fault, work, nuisance
    kind: str
    target: str = ""
    seconds: float = 0.0   # how long a fault lasts, how long a pod runs
    words: dict = field(default_factory=dict)

    def __str__(self):
        words = "".join(f" {key}={value}" for key, value in self.words.items())
        lasts = f" for {self.seconds:.1f} s" if self.seconds else ""
        return f"{self.kind} {self.target}".strip() + lasts + words


def pick(dice, table):
    return dice.choices(table, [row[0] for row in table])[0]


def targets(kind, nodes):
    agents = CONTROLLERS + nodes
    return {"controller": [f"berthd:{name}" for name in CONTROLLERS], "agent": [f"berthd:{node}" for node in nodes], "slurmd": [f"slurmd:{node}" for node in nodes],
            "api-link": [f"api:{agent}" for agent in agents], "slurm-link": [f"slurm:{agent}" for agent in agents],
            "doorbell": [f"doorbell:{name}" for name in CONTROLLERS], "run-dir": [f"run:{agent}" for agent in agents]}.get(kind, [kind])


def faults_of(dice, count, nodes):
    out, at, busy = [], LEAD, {}
    while len(out) < count:
        _, kind, sort, (least, most) = pick(dice, FAULTS)
        target = dice.choice(targets(sort, nodes))
        seconds = round(dice.uniform(least, most), 2)
        # One thing at a time for each target, and it gets a moment to live in between.
        if busy.get(target, 0) > at:
            continue
        busy[target] = at + seconds + 2
        out.append(Step(round(at, 2), "fault", kind, target, seconds))
        at += dice.uniform(*FAULT_GAP)
    return out, at


def work_of(dice, until):
    out, at, number = [], 0.0, 0
    while at < until:
        _, kind = pick(dice, WORK)
        number += 1
        words = {"ns": dice.choice(("default", "team-a", "team-b")), "cpu": dice.choice(("500m", "1", "1", "1", "2", "3")),
                 "exit_code": dice.choice((0, 0, 0, 0, 3)), "die_after": dice.choice((0, 0, 0, 1.5, 4)), "deaf": dice.random() < 0.05,
                 "size": dice.randint(2, 4), "start_delay": dice.choice((0, 0, 0, 0.5))}
        out.append(Step(round(at, 2), "work", kind, f"w{number}", round(dice.uniform(0.5, 6), 2), words))
        at += dice.uniform(*LOAD_GAP)
    return out


def nuisances_of(dice, until, nodes):
    out, at = [], LEAD
    while at < until:
        _, kind = pick(dice, NUISANCES)
        out.append(Step(round(at, 2), "nuisance", kind, dice.choice(nodes) if kind in ("node down", "drain") else "",
                        round(dice.uniform(0, 4), 2), {"which": dice.randrange(1000)}))
        at += dice.uniform(*NUISANCE_GAP)
    return out


def schedule(seed, faults, nodes):
    # A generator for each sort: another kind of work does not change the faults.
    storm, end = faults_of(random.Random(f"faults {seed}"), faults, nodes)
    steps = storm + work_of(random.Random(f"work {seed}"), end) + nuisances_of(random.Random(f"nuisances {seed}"), end, nodes)
    return sorted(steps, key=lambda step: step.at)
