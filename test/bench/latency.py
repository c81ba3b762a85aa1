"""Create -> bound of one pod, with room and nothing queued ahead, against the sum of the parts that nobody can do without: the watch tells of the
pod, slurm_allocate_resources() reaches a prolog, and a Binding is posted. One pod at a time."""

import statistics

from bench import RAW
from figure import Figure, quantile
from lab import wait_for

NAMES = ["latency p50", "latency p99"]
LIMIT = "watch event + allocation to prolog + Binding POST"


def raw(bench, count):
    """The sum of the parts for each of so many pods, and the parts' medians."""
    bench.hooks("raw")
    sums, parts = [], {"watch": [], "allocation": [], "binding": []}
    for name in bench.names(count, "raw"):
        created = bench.driver.create(bench.lab.pod(scheduler=RAW, run_for="1h"), [name])
        bench.driver.wait("added", len(sums) + 1)
        seen = bench.driver.ask("pods")[name]["added"]
        allocated = bench.allocate(1)
        prolog = next(iter(bench.wait_stamps("prolog", allocated["job"])[allocated["job"][0]].values()))
        bound = bench.driver.bind([name], created["uid"], [bench.lab.nodes[0]])
        parts["watch"].append(seen - created["sent"][0])
        parts["allocation"].append(prolog - allocated["sent"][0])
        parts["binding"].append(bound["answered"][0] - bound["sent"][0])
        sums.append(sum(part[-1] for part in parts.values()))
        running(bench, name)
    bench.empty()
    return sums, {key: statistics.median(values) for key, values in parts.items()}


def ours(bench, count):
    bench.hooks("berth")
    out = []
    for name in bench.names(count):
        created = bench.driver.create(bench.lab.pod(run_for="1h"), [name])
        bound = bench.wait_bindings(1)[name]
        out.append(bound["answered"] - created["sent"][0])
        running(bench, name)
    bench.empty()
    return out


def running(bench, name):
    """The next one begins when this one runs: what a kubelet does is not timed, neither here nor there."""
    pod = {"metadata": {"name": name, "namespace": "default"}}
    wait_for(lambda: bench.lab.kube.get(bench.lab.path(pod))["status"]["phase"] == "Running", what="the pod runs")


def measure(bench):
    count = bench.size(40, 5)
    limit = f"{LIMIT}; {count} pods a round"
    p50, p99 = Figure(NAMES[0], "s", limit, ("<=", 1.3)), Figure(NAMES[1], "s", limit, ("<=", 2))
    for _ in range(bench.rounds):
        limits, parts = raw(bench, count)
        times = ours(bench, count)
        p50.add(quantile(times, 0.5), quantile(limits, 0.5))
        p99.add(quantile(times, 0.99), quantile(limits, 0.99))
        p50.note(parts=parts, pods_per_round=count)
    yield from (p50, p99)
