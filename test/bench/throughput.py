"""Pods bound per second from a backlog. Single pods against raw step-less allocations of the same slurmctld, each counted when it has reached its node
(an empty prolog), and against as many allocations and Binding POSTs at the same time: on one machine the two servers share its cores, so that is the most that
pods can have. Gangs against raw Binding POSTs. Kubelets stand still meanwhile."""

from concurrent.futures import ThreadPoolExecutor

from bench import RAW, Paused
from driver import Driver
from figure import Figure
from lab import wait_for

NAMES = ["single pods", "single pods, both servers", "gangs"]
THREADS = 4  # controller.submit_threads


def raw_allocations(bench, count):
    bench.hooks("raw")
    calls = bench.allocate(count, threads=THREADS)
    prologs = bench.wait_stamps("prolog", calls["job"])
    rate = count / (max(min(prologs[job].values()) for job in calls["job"]) - min(calls["sent"]))
    bench.kill_and_wait(calls["job"])
    return rate, count / (max(calls["answered"]) - min(calls["sent"]))


def single_pods(bench, count):
    """The pods are there before the controller hears of them: creating them is not timed."""
    bench.hooks("berth")
    with bench.quiet_kubelet():
        with Paused(bench.lab, "berthd:controller"):
            bench.driver.create(bench.lab.pod(run_for="1h"), bench.names(count))
            began = bench.now()
        bound = bench.wait_bindings(count)
        rate = count / (max(entry["answered"] for entry in bound.values()) - began)
    bench.empty()
    return rate


def raw_pods(bench, count):
    """What driver.bind() wants for so many new pods."""
    names = bench.names(count, "raw")
    created = bench.driver.create(bench.lab.pod(scheduler=RAW, run_for="1h"), names)
    return names, created["uid"], [bench.lab.nodes[i % len(bench.lab.nodes)] for i in range(count)]


def raw_bindings(bench, count):
    with bench.quiet_kubelet():
        calls = bench.driver.bind(*raw_pods(bench, count))
        rate = count / (max(calls["answered"]) - min(calls["sent"]))
    bench.empty()
    return rate


def raw_both(bench, count):
    bench.hooks("raw")
    second = Driver(bench.lab, bench.driver.program)
    try:
        with bench.quiet_kubelet(), ThreadPoolExecutor(1) as beside:
            bindings = beside.submit(second.bind, *raw_pods(bench, count))
            calls = bench.allocate(count, threads=THREADS)
            bound, prologs = bindings.result(), bench.wait_stamps("prolog", calls["job"])
            ended = max(max(bound["answered"]), max(min(prologs[job].values()) for job in calls["job"]))
            rate = count / (ended - min(calls["sent"] + bound["sent"]))
    finally:
        second.close()
    bench.kill_and_wait(calls["job"])
    bench.empty()
    return rate


def gangs(bench, groups, members):
    """All gangs wait in Slurm; then their partition opens. Timed from the first prolog on."""
    bench.hooks("berth")
    before = set(bench.stamps("prolog"))
    with bench.quiet_kubelet():
        bench.partition("DOWN")
        for group in bench.names(groups, "gang"):
            bench.group(group, members)
            pod = bench.lab.pod(run_for="1h")
            pod["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": group}
            bench.driver.create(pod, [f"{group}-{i}" for i in range(members)])
        wait_for(lambda: len(bench.lab.slurm.jobs()) == groups, 120, "all gangs have a job")
        bench.partition("UP")
        bound = bench.wait_bindings(groups * members)
        prologs = [when for job, nodes in bench.stamps("prolog").items() if job not in before for when in nodes.values()]
        rate = groups * members / (max(entry["answered"] for entry in bound.values()) - min(prologs))
    bench.empty()
    return rate


def measure(bench):
    count, groups, members = bench.size(400, 30), bench.size(20, 2), bench.size(50, 10)
    single = Figure(NAMES[0], "pods/s", f"raw allocations to their prolog; {count}", (">=", 0.9))
    both = Figure(NAMES[1], "pods/s", f"raw allocations and Binding POSTs at the same time; {count}")
    gang = Figure(NAMES[2], "pods/s", f"raw Binding POSTs; {groups} gangs of {members}", (">=", 0.8))
    answered = []
    for _ in range(bench.rounds):
        limit, answers = raw_allocations(bench, count)
        answered.append(answers)
        own = single_pods(bench, count)
        single.add(own, limit)
        both.add(own, raw_both(bench, count))
        limit = raw_bindings(bench, groups * members)
        gang.add(gangs(bench, groups, members), limit)
    single.note(pods_per_round=count, raw_answers_per_second=answered)
    gang.note(gangs=groups, pods_per_gang=members)
    yield from (single, both, gang)
