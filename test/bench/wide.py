"""One gang over many nodes, a pod on each: allocation -> last pod bound, against allocation -> last prolog of a raw allocation of the same nodes."""

import datetime
import re

from figure import Figure
from lab import wait_for
from watchers import rss_mib

NAMES = ["one gang over all nodes", "node agent RSS, many nodes"]


def allocated(bench, job):
    """When slurmctld gave the job its nodes, by its log."""
    with open(f"{bench.lab.dir}/log/slurmctld.log", encoding="utf-8", errors="replace") as file:
        found = re.search(rf"^\[(\S+)\] .*JobId={job} NodeList=n", file.read(), re.M)
    return datetime.datetime.fromisoformat(found.group(1)).timestamp()


def raw(bench, nodes):
    bench.hooks("raw")
    job = bench.allocate(1, tasks=nodes, cpus=bench.cpus, nodes=nodes)["job"][0]
    prologs = wait_prologs(bench, job, nodes)
    took = max(prologs.values()) - allocated(bench, job)
    bench.kill_and_wait([job])
    return took


def wait_prologs(bench, job, nodes):
    wait_for(lambda: len(bench.stamps("prolog").get(job, {})) == nodes, 300, f"{nodes} prologs of job {job}", 0.1)
    return bench.stamps("prolog")[job]


def ours(bench, nodes):
    bench.hooks("berth")
    group = bench.names(1, "wide")[0]
    with bench.quiet_kubelet():
        bench.group(group, nodes)
        pod = bench.lab.pod(cpu=bench.cpus, run_for="1h")
        pod["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": group}
        bench.driver.create(pod, [f"{group}-{i}" for i in range(nodes)])
        bound = bench.wait_bindings(nodes)
        job = next(iter(bound.values()))["job"]
        began = allocated(bench, job)
        took = max(entry["answered"] for entry in bound.values()) - began
        prolog = max(wait_prologs(bench, job, nodes).values()) - began
    bench.empty()
    return took, prolog


def measure(bench):
    nodes = len(bench.lab.nodes)
    wide = Figure(NAMES[0], "s", f"allocation -> last of {nodes} raw prologs", ("<=", 1.3))
    rss = Figure(NAMES[1], "MiB", "12 MB", ("<=", 1))
    own = []
    for _ in range(bench.rounds):
        limit = raw(bench, nodes)
        took, prolog = ours(bench, nodes)
        wide.add(took, limit)
        own.append(prolog)
    rss.add(max(rss_mib(bench.pid(f"berthd:{name}")) for name in bench.lab.nodes), 12e6 / 2**20)
    wide.note(nodes=nodes, own_last_prolog=own)
    yield from (wide, rss)
