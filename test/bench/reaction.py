"""How soon an end on one side is acted upon on the other, against what Slurm itself takes from scancel to the epilog, of a job that runs as long as a pod's
does: with its extern step, which slurmd ends before the epilog."""

import glob
import statistics

from figure import Figure
from lab import wait_for

NAMES = ["scancel of a running pod", "scancel of a pending pod", "pod finished"]


def contained(job):
    """Whether the job's extern step runs: its slurmstepd has started what it waits for."""
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                if not file.read().startswith(f"slurmstepd: [{job}.extern]".encode()):
                    continue
            with open(glob.glob(path.replace("cmdline", "task/[0-9]*/children"))[0], encoding="ascii") as file:
                return bool(file.read())
        except (OSError, IndexError):
            pass  # it has ended
    return False


def raw(bench, count):
    bench.hooks("raw")
    out = []
    for _ in range(count):
        job = bench.allocate(1)["job"]
        bench.wait_stamps("prolog", job)
        wait_for(lambda: contained(job[0]), what="the job's extern step runs", interval=0.01)
        sent = bench.kill(job)["sent"][0]
        out.append(min(bench.wait_stamps("epilog", job)[job[0]].values()) - sent)
    bench.wait_idle()
    return statistics.median(out)


def deleted_after(bench, name, job):
    """Seconds from scancel to the moment at which the API server was asked to delete the pod."""
    sent = bench.kill([job])["sent"][0]
    found = {}
    wait_for(lambda: found.update(bench.audit.deletes()) or name in found, what=f"pod {name} is deleted", interval=0.005)
    return found[name]["received"] - sent


def running(bench, count):
    bench.hooks("berth")
    out = []
    for name in bench.names(count):
        pod = bench.lab.create(name=name, run_for="1h", grace=1)
        job = bench.wait_bindings(1)[name]["job"]
        bench.lab.wait_phase(pod, "Running")
        out.append(deleted_after(bench, name, job))
        bench.lab.wait_gone(pod)
    bench.empty()
    return statistics.median(out)


def pending(bench, count):
    bench.hooks("berth")
    bench.partition("DOWN")
    out = []
    try:
        for name in bench.names(count):
            pod = bench.lab.create(name=name)
            job = wait_for(lambda: [job["id"] for job in bench.lab.slurm.jobs("-t", "PENDING") if job["name"].endswith(name)], what="the job is there")[0]
            wait_for(lambda: bench.lab.condition(pod, "PodScheduled").get("message"), what="the pod is told why it waits")
            out.append(deleted_after(bench, name, job))
            bench.lab.wait_gone(pod)
    finally:
        bench.partition("UP")
    bench.empty()
    return statistics.median(out)


def finished(bench, count):
    """From the moment at which a watch tells that the pod has ended to its job's epilog."""
    bench.hooks("berth")
    out = []
    for name in bench.names(count):
        bench.lab.create(name=name, run_for="100ms")
        job = bench.wait_bindings(1)[name]["job"]
        epilog = min(bench.wait_stamps("epilog", [job])[job].values())
        wait_for(lambda: bench.driver.ask("pods")[name]["ended"], what="the pod has ended")
        out.append(epilog - bench.driver.ask("pods")[name]["ended"])
    bench.empty()
    return statistics.median(out)


def measure(bench):
    figures = [Figure(name, "s", "Slurm's own scancel to epilog", ("<=", 1.3)) for name in NAMES]
    count = bench.size(10, 3)
    for _ in range(bench.rounds):
        limit = raw(bench, count)
        for figure, way in zip(figures, (running, pending, finished)):
            figure.add(way(bench, count), limit)
    yield from figures
