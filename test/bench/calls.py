"""How many calls a pod costs that starts at once and ends by itself: writes by the API server's audit log, RPCs by sdiag. One pod at a time, which is
the dearest way: nothing can be shared."""

from collections import Counter

from figure import Figure
from lab import wait_for
from watchers import difference, rpcs
from witness import pod_reads

NAMES = ["writes to bind a pod", "writes in all", "Slurm RPCs of a placeholder"]
# All jobs at once: what the reconcile asks every 30 s, and a look after the doorbell rang.
LOOK = "REQUEST_JOB_INFO"


def measure(bench):
    bind, every, calls = Figure(NAMES[0], "writes/pod", "one", ("<=", 1)), Figure(NAMES[1], "writes/pod", "three", ("<=", 1)), \
        Figure(NAMES[2], "RPCs/job", "three", ("<=", 1))
    bench.hooks("berth")
    count = bench.size(20, 5)
    for _ in range(bench.rounds):
        bench.audit.skip()
        before, reads, began = rpcs(bench.lab), pod_reads(bench.lab), bench.now()
        jobs, written = [], []
        for name in bench.names(count):
            bench.driver.create(bench.lab.pod(run_for="100ms"), [name])
            bench.driver.wait("ended", len(jobs) + 1)
            written += list(bench.audit.new())
            jobs += [entry["job"] for entry in written if entry["name"] == name and entry["resource"] == "pods/binding"]
            bench.wait_stamps("epilog", [jobs[-1]])
        after, took = rpcs(bench.lab), bench.now() - began
        reads = pod_reads(bench.lab) - reads
        bench.driver.ask("forget")

        def all_told():  # events come when nothing more urgent does
            written.extend(bench.audit.new())
            return sum(entry["resource"] == "events" for entry in written) >= count
        wait_for(all_told, 10, "each pod has its event", 0.05)
        kinds = Counter(f"{entry['verb']} {entry['resource']}" for entry in written)
        spent = difference(after, before)
        spent[LOOK] = max(0, spent.get(LOOK, 0) - round(took / 30))
        bind.add(kinds["create pods/binding"] / count, 1)
        every.add(len(written) / count, 3)
        calls.add(sum(spent.values()) / count, 3)
        every.note(per_pod={kind: n / count for kind, n in kinds.items()}, reads_per_pod=reads / count)
        calls.note(per_job={kind: n / count for kind, n in spent.items()})
        bench.empty()
    yield from (bind, every, calls)
