"""Many pods: 50,000 that the controller knows, 10,000 of them with a placeholder that waits in Slurm. It leaves them there: the lab is of no use afterwards."""

from driver import Driver
from figure import Figure
from lab import SCHEDULER, wait_for
from waiting import wait_quiet
from watchers import cpu_seconds, rss_mib

NAMES = ["controller RSS", "placeholders pending", "time to list and be ready", "CPU per watch event", "node agent RSS"]


def fill(bench, have, wanted):
    """More pods, until there are so many, each told why it waits; and as many placeholders as there may be."""
    pod = bench.lab.pod()
    for start in range(have, wanted, 5000):
        bench.driver.create(pod, [f"known-{i}" for i in range(start, min(wanted, start + 5000))])
    places = min(wanted, 10000)
    wait_for(lambda: pending(bench) >= places, 1800, f"{places} placeholders wait in Slurm", 1)
    wait_quiet(bench)


def pending(bench):
    return len(bench.lab.slurm.run("squeue", "-h", "-t", "PENDING", "-o", "%A").split())


def cpu_per_event(bench, count):
    """Of as many changes that mean nothing to Berth."""
    pid = bench.pid("berthd:controller")
    wait_quiet(bench)
    before, began = cpu_seconds(pid), bench.now()
    bench.driver.calls("send", method="PATCH", path="/api/v1/namespaces/default/pods/@NAME@", type="application/merge-patch+json",
                       body=f'{{"metadata": {{"annotations": {{"example.org/turn": "{began}"}}}}}}', values=[{"NAME": f"known-{i}"} for i in range(count)])
    # It has heard of all of them when it has heard of a pod that came later.
    late = bench.lab.create(ns="team-a")
    wait_for(lambda: any(job["name"] == f"team-a/{late['metadata']['name']}" for job in bench.lab.slurm.jobs("-t", "PENDING", "-u", "lab_alice", "-S", "-i")),
             600, "the later pod has a job")
    spent = cpu_seconds(pid) - before
    bench.lab.delete(late, grace=0)
    return spent / count


def raw_list(bench):
    """What it takes to list the same pods and begin to watch them, for a program that does nothing else."""
    driver = Driver(bench.lab, bench.build + "/bench_driver")
    began = bench.now()
    driver.ask("watch", scheduler=SCHEDULER)
    took = bench.now() - began
    driver.close()
    return took


def ready_again(bench):
    """From the start of a controller to the first placeholder that it submits."""
    bench.lab.daemon("stop", "berthd:controller")
    pod = bench.lab.create(ns="team-a")
    name = f"team-a/{pod['metadata']['name']}"
    began = bench.now()
    bench.lab.daemon("start", "berthd:controller")
    wait_for(lambda: any(job["name"] == name for job in bench.lab.slurm.jobs("-t", "PENDING", "-S", "-i")), 600, "the pod has a job", 0.05)
    took = bench.now() - began
    bench.lab.delete(pod, grace=0)
    return took


def measure(bench):
    few, many = bench.size(1000, 60), bench.size(50000, 300)
    # Fewer pods reach these two goals without showing anything.
    whole = many == 50000
    rss = Figure(NAMES[0], "MiB", f"100 MB; {many} pods known", ("<=", 1) if whole else None)
    places = Figure(NAMES[1], "jobs", "as many as there may be", (">=", 1) if whole else None)
    ready = Figure(NAMES[2], "s", f"a bare list of {many} pods")
    event = Figure(NAMES[3], "s", f"the same with {few} pods known; {many} here", ("<=", 1.2))
    node = Figure(NAMES[4], "MiB", "12 MB", ("<=", 1))
    bench.partition("DOWN")
    fill(bench, 0, few)
    small = [cpu_per_event(bench, few) for _ in range(bench.rounds)]
    fill(bench, few, many)
    for limit in small:
        event.add(cpu_per_event(bench, few), limit)
    rss.add(rss_mib(bench.pid("berthd:controller")), 100e6 / 2**20)
    places.add(pending(bench), min(many, 10000))
    for _ in range(bench.rounds):
        limit = raw_list(bench)
        ready.add(ready_again(bench), limit)
    node.add(max(rss_mib(bench.pid(f"berthd:{name}")) for name in bench.lab.nodes), 12e6 / 2**20)
    rss.note(after_restart=rss_mib(bench.pid("berthd:controller")))
    yield from (rss, places, ready, event, node)
