"""What a gang that waits costs: writes, Slurm's RPCs and the agents' CPU while nothing happens, against the same time with no gang at all."""

import time

from figure import Figure
from lab import wait_for
from watchers import cpu_seconds, difference, rpcs

NAMES = ["waiting gang: API writes", "waiting gang: Slurm RPCs", "waiting gang: controller CPU", "waiting gang: node agent CPU"]
PODS = 64


def window(bench):
    """(writes, RPCs by type, CPU of the controller, CPU of the busiest node's agent) of so many seconds."""
    agents = {name: bench.pid(f"berthd:{name}") for name in ["controller"] + bench.lab.nodes}
    bench.audit.skip()
    calls, cpu = rpcs(bench.lab), {name: cpu_seconds(pid) for name, pid in agents.items()}
    time.sleep(bench.window)  # the measured thing is what happens in this time
    cpu = {name: cpu_seconds(pid) - cpu[name] for name, pid in agents.items()}
    calls = difference(rpcs(bench.lab), calls)
    return list(bench.audit.new()), calls, cpu["controller"], max(cpu[name] for name in bench.lab.nodes)


def wait_quiet(bench):
    """Until nothing was written for three seconds: everybody was told why he waits."""
    last = [bench.now()]

    def quiet():
        if list(bench.audit.new()):
            last[0] = bench.now()
        return bench.now() - last[0] > 3
    wait_for(quiet, 120, "Berth has no more to say", 0.2)


def measure(bench):
    unit = f"in {bench.window:g} s"
    writes, calls = (Figure(name, unit, "the same time without a gang", ("<=", 1)) for name in NAMES[:2])
    controller, node = (Figure(name, "s " + unit, "the same time without a gang") for name in NAMES[2:])
    bench.hooks("berth")
    for _ in range(bench.rounds):
        wait_quiet(bench)
        idle = window(bench)
        bench.partition("DOWN")
        group = bench.names(1, "waits")[0]
        bench.group(group, PODS)
        pod = bench.lab.pod()
        pod["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": group}
        bench.driver.create(pod, [f"{group}-{i}" for i in range(PODS)])
        wait_for(lambda: len(bench.lab.slurm.jobs()) == 1, what="the gang has a job")
        wait_quiet(bench)
        waits = window(bench)
        bench.partition("UP")
        bench.empty()
        writes.add(len(waits[0]), len(idle[0]))
        calls.add(sum(waits[1].values()), sum(idle[1].values()))
        controller.add(waits[2], idle[2])
        node.add(waits[3], idle[3])
        calls.note(by_type={"waiting": waits[1], "idle": idle[1]})
    yield from (writes, calls, controller, node)
