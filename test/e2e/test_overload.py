"""More than fits: thousands of pods at once, a slurmctld that has no room, an API server that is busy or slow.

slurmctld's table is small here (MaxJobCount=200, so that half of it, 100, are the most placeholders), and the flood has 2,000 pods.
BERTH_FLOOD=20000 test/e2e/run --jobs 1 --filter overload.a_ is the long form: MaxJobCount=10000, 20,000 pods, and 4,000 jobs of theirs.
"""

import bisect
import contextlib
import datetime
import os
import re
import signal
import threading
import time

from flood import COUNT, Flood, Native, rss_mb
from handover import slurm_conf, temporary
from lab import holds_for, wait_for
from witness import audit, bindings, fill, placeholders, pod_reads, wait_job, wait_unschedulable

LONG = COUNT > 2000
SLOWER = max(1, COUNT // 2000)  # how much longer the long form may take
MAX_JOB_COUNT = COUNT // 2 if LONG else 200
PLACES = MAX_JOB_COUNT // 2
SHARE = PLACES * 4 // 5  # one namespace's, when it is alone
LAB = ["--nodes", "3", "--slurm-conf", temporary(f"MaxJobCount={MAX_JOB_COUNT}\nMinJobAge=10\n", ".conf")]
MOST_MB = 150
HALF_A_MINUTE = 32  # and a little more: the agents' requests wait 30 s
LIVE = ("PENDING", "RUNNING", "SUSPENDED", "CONFIGURING")


def live_jobs(lab):
    """Pod uid -> ids of its placeholders that live."""
    found = {uid: [job["JobId"] for job in jobs if job["JobState"] in LIVE] for uid, jobs in placeholders(lab).items()}
    return {uid: jobs for uid, jobs in found.items() if jobs}


def started(pods):
    return [pod for pod in pods if pod["spec"].get("nodeName")]


def test_a_flood_waits_its_turn_while_others_and_native_jobs_do_not(lab):
    with Native(lab, PLACES) as native:
        flood = Flood(lab, run_for="1h")
        flood.wait_made(COUNT // 2)
        # In the middle of it: nothing is doubled, and nothing forgotten.
        lab.daemon("kill", "berthd:controller")
        lab.daemon("start", "berthd:controller")
        flood.join()
        wait_for(lambda: len(live_jobs(lab)) >= SHARE, 120 * SLOWER, "the flood has its share of Slurm's queue", 0.5)
        last = next(pod for pod in flood.pods() if pod["metadata"]["name"] == f"flood-{COUNT - 1}")
        waits = last if not lab.get(last)["spec"].get("nodeName") else flood.pods()[-1]
        text = wait_unschedulable(lab, waits, "this pod waits its turn in the controller", deadline=120 * SLOWER)
        assert re.search(f"namespace team-b has its share of the {PLACES} places .*controller.max_placeholders", text), text
        # Its nodes are full of the flood's pods, which run for an hour: it is queued in Slurm at once, and starts when there is room.
        other = lab.create(ns="team-a", run_for="0s")
        job = wait_job(lab, other, 60)
        assert all(len(jobs) == 1 for jobs in live_jobs(lab).values()), "a pod has two live placeholders"
        lab.slurm.update(f"JobId={job['JobId']}", "Priority=4294967290")  # first in Slurm's queue, before there is room
        for pod in started(flood.pods())[:2]:
            lab.delete(pod, grace=1)
        lab.wait_phase(other, "Succeeded", 60)
        assert len(started(flood.pods())) < COUNT // 10, "most of the flood came first"
        now, most = rss_mb(lab, "berthd:controller")
        print(f"         {COUNT} pods: the controller has {now} MB, at most {most} MB")
        assert most < MOST_MB
        flood.delete_all(300 * SLOWER)
        wait_for(lambda: not live_jobs(lab), 180 * SLOWER, "no placeholder is left", 0.2)
        native.verify()


test_a_flood_waits_its_turn_while_others_and_native_jobs_do_not.timeout = 240 + COUNT // 10


def test_a_controller_that_starts_among_thousands_writes_and_submits_nothing_again(lab):
    count = COUNT if LONG else COUNT // 2
    filler = fill(lab)
    flood = Flood(lab, count)
    flood.join()
    wait_for(lambda: len(live_jobs(lab)) == SHARE, 120 * SLOWER, "the flood has its share of Slurm's queue", 0.5)

    def all_told():
        return all(c.get("message") for pod in flood.pods() for c in [scheduled_of(pod)])
    wait_for(all_told, 180 * SLOWER, "each pod is told why it waits", SLOWER)
    before = live_jobs(lab)
    assert all(len(jobs) == 1 for jobs in before.values()), "a pod has two live placeholders"
    versions = {pod["metadata"]["uid"]: pod["metadata"]["resourceVersion"] for pod in flood.pods()}
    lab.daemon("kill", "berthd:controller")
    new = lab.create(ns="team-a")
    began = time.monotonic()
    lab.daemon("start", "berthd:controller")
    # Its first pod has its job, so it is at work.
    job = wait_for(lambda: next((job["id"] for job in lab.slurm.jobs() if job["name"] == f"team-a/{new['metadata']['name']}"), None), 60 * SLOWER,
                   "the controller submits")
    print(f"         among {count} pods and {len(before)} jobs it is at work after {time.monotonic() - began:.1f} s, "
          f"with {rss_mb(lab, 'berthd:controller')[1]} MB")
    # Slurm counts its jobs: none was submitted before this one, nor after it, not even one that was taken back at once.
    assert job == max(int(job) for jobs in before.values() for job in jobs) + 1
    rewritten = [pod for pod in flood.pods() if versions[pod["metadata"]["uid"]] != pod["metadata"]["resourceVersion"]]
    assert len(rewritten) <= PLACES, f"{len(rewritten)} conditions were written again"
    holds_for(lambda: max(job["id"] for job in lab.slurm.jobs()) == job, 6, "nothing more is submitted, for longer than controller.reconcile", 0.5)
    after = live_jobs(lab)
    after.pop(new["metadata"]["uid"])
    assert after == before
    assert rss_mb(lab, "berthd:controller")[1] < MOST_MB
    marker = lab.slurm.sbatch("-H")
    assert marker == job + 1
    lab.slurm.scancel(marker)
    lab.delete(new, grace=0)
    flood.delete_all(300 * SLOWER)
    lab.slurm.scancel(str(filler))
    wait_for(lambda: not live_jobs(lab), 180 * SLOWER, "no placeholder is left", 0.2)


test_a_controller_that_starts_among_thousands_writes_and_submits_nothing_again.timeout = 240 + COUNT // 10


def scheduled_of(pod):
    return next((c for c in pod["status"].get("conditions", []) if c["type"] == "PodScheduled"), {})


def test_a_full_table_of_jobs_is_waited_out(lab):
    """Full to the last record with native jobs; an array counts as many as it has tasks. The controller may have looked, or be told by slurmctld."""
    natives = [lab.slurm.sbatch("-H", f"--array=1-{min(1000, MAX_JOB_COUNT - 1 - taken)}") for taken in range(0, MAX_JOB_COUNT - 1, 1000)]
    pod = lab.create(run_for="0s")
    text = wait_unschedulable(lab, pod, "this pod waits its turn in the controller")
    assert f"MaxJobCount {MAX_JOB_COUNT}" in text or "MaxJobCount allows" in text, text
    assert not placeholders(lab).get(pod["metadata"]["uid"])
    lab.slurm.scancel(*natives)
    lab.wait_phase(pod, "Succeeded", 120)


@contextlib.contextmanager
def stuttering(lab, name):
    """The daemon stands still for most of every second."""
    pid, over = int(lab.daemon("pid", name)), threading.Event()

    def stutter():
        while not over.is_set():
            os.kill(pid, signal.SIGSTOP)
            over.wait(0.7)
            os.kill(pid, signal.SIGCONT)
            over.wait(0.3)
    thread = threading.Thread(target=stutter)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_slurmctld_that_is_slow_and_defers_gets_one_job_for_each_pod(lab):
    count = 60
    with slurm_conf(lab, "SchedulerParameters=disable_job_shrink,defer,sched_interval=2"):
        first = lab.slurm.sbatch("-H")
        with stuttering(lab, "slurmctld"):
            made = Flood(lab, count, "default", run_for="0s")
            made.join()
            wait_for(lambda: sum(pod["status"]["phase"] == "Succeeded" for pod in made.pods()) == count, 180, "all pods succeed", 0.5)
        last = lab.slurm.sbatch("-H")
        lab.slurm.scancel(first, last)
    assert last - first - 1 == count, f"{last - first - 1} jobs for {count} pods"
    bound = bindings(lab)
    assert all(bound[pod["metadata"]["uid"]] == 1 for pod in made.pods())


def with_flags(lab, name, *flags):
    """Restarts a daemon with these words at the end of its command line; what was there before."""
    path = f"{lab.dir}/daemons/{name}/run"
    with open(path, encoding="utf-8") as file:
        before = file.read()
    lines = before.rstrip("\n").split("\n")
    lines[-1] += " " + " ".join(flags)
    rewrite(lab, name, "\n".join(lines) + "\n")
    return before


def rewrite(lab, name, text):
    lab.daemon("stop", name)
    with open(f"{lab.dir}/daemons/{name}/run", "w", encoding="utf-8") as file:
        file.write(text)
    lab.daemon("start", name)
    wait_for(lambda: lab.kube.get("/readyz") == "ok", 60, "the API server answers")


def at(entry):
    """When the server was asked, in seconds of its clock, which is ours."""
    return datetime.datetime.fromisoformat(entry["at"].replace("Z", "+00:00")).timestamp()


def refused_writes(lab):
    """(who, what) -> when the server answered 429 to it, in seconds. Events are all without a name before they are made, so they have one for all."""
    out = {}
    for entry in audit(lab):
        if entry["code"] == 429:
            what = (entry["user"], entry["verb"], entry["resource"], entry["namespace"], entry["name"])
            out.setdefault(what, []).append(at(entry))
    return out


def most_within(seconds, times):
    """The most of these times that lie so close together."""
    times = sorted(times)
    return max(bisect.bisect_left(times, first + seconds) - number for number, first in enumerate(times))


def test_an_api_server_that_turns_requests_away_gets_all_of_them_in_the_end(lab):
    before = with_flags(lab, "kube-apiserver", "--enable-priority-and-fairness=false", "--max-requests-inflight=2", "--max-mutating-requests-inflight=1")
    try:
        filler = fill(lab)
        made = Flood(lab, 200, "default", run_for="0s")
        made.join()
        wait_for(lambda: sum("Slurm job" in scheduled_of(pod).get("message", "") for pod in made.pods()) >= 70, 120, "pods are told of their jobs", 0.5)
        wait_for(lambda: refused_writes(lab), 60, "the server has answered 429")
        lab.slurm.scancel(str(filler))
        wait_for(lambda: sum(pod["status"]["phase"] == "Succeeded" for pod in made.pods()) == 200, 180, "all pods succeed", 0.5)
        # The server says Retry-After: 1, and each agent has at most 64 requests on their way. So whoever listens is turned away once a second for
        # each of them; and once more where a request's time is over and its sender begins anew.
        refused = refused_writes(lab)
        named = {what: most_within(0.9, times) for what, times in refused.items() if what[-1]}
        everybody = {user: most_within(0.9, [when for what, times in refused.items() if what[0] == user for when in times]) for user, *_ in refused}
        print(f"         {sum(map(len, refused.values()))} writes were answered 429; within a second at most {max(named.values())} of one, "
              f"{max(everybody.values())} of one agent")
        assert max(named.values()) <= 3, max(named, key=named.get)
        assert max(everybody.values()) <= 2 * 64, everybody
    finally:
        rewrite(lab, "kube-apiserver", before)


def test_an_api_server_that_does_not_answer_for_half_a_minute_costs_nothing_but_time(lab):
    """Longer than anybody waits for one answer. All jobs that fit start meanwhile, and none of their pods can be bound."""
    count = 100
    filler = fill(lab)
    made = Flood(lab, count, "default", run_for="0s")
    made.join()
    wait_for(lambda: len(live_jobs(lab)) >= min(SHARE, count), 60, "the flood has its share of Slurm's queue", 0.5)
    agents = {name: lab.daemon("pid", name) for name in lab.daemons() if name.startswith("berthd:")}
    reads = pod_reads(lab)
    with Native(lab, PLACES) as native:
        lab.daemon("pause", "etcd")
        began, paused = time.time(), time.monotonic()
        try:
            lab.slurm.scancel(filler)
            wait_for(lambda: time.monotonic() > paused + HALF_A_MINUTE, 2 * HALF_A_MINUTE, "half a minute is over", 0.2)
        finally:
            over = time.time()
            lab.daemon("resume", "etcd")
        wait_for(lambda: sum(pod["status"]["phase"] == "Succeeded" for pod in made.pods()) == count, 120, "all pods succeed", 0.5)
    native.verify()
    # One job for each pod, by Slurm's own count; one Binding; and the same agents.
    last = lab.slurm.sbatch("-H")
    lab.slurm.scancel(last)
    assert last - filler - 1 == count + native.submitted, f"{last - filler - 1 - native.submitted} jobs for {count} pods"
    bound = bindings(lab)
    assert all(bound.get(pod["metadata"]["uid"], 0) <= 1 for pod in made.pods())
    assert agents == {name: lab.daemon("pid", name) for name in agents}
    # No storm, neither of those that got no answer nor when all are answered at once.
    writes = [(at(entry), entry) for entry in audit(lab) if at(entry) >= began]
    meanwhile = sum(when < over for when, _ in writes)
    print(f"         {meanwhile} writes in {over - began:.0f} s without an answer, {len(writes) - meanwhile} afterwards; {pod_reads(lab) - reads} reads of pods")
    assert not any(entry["resource"] == "pods/binding" and entry["code"] == 201 and when < over - 1 for when, entry in writes), "nobody was answered"
    assert meanwhile < count and len(writes) < 10 * count and pod_reads(lab) - reads < 5 * count
    assert rss_mb(lab, "berthd:controller")[1] < MOST_MB
