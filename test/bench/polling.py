"""Berth against the poll method (poll.h): the same pods, the same slurmctld, one after the other. Two cases that users of polling schedulers report:
pods that start while many jobs are queued, and jobs and pods that drain through a full cluster."""

import json
import os
import shutil
import statistics
import subprocess

from bench import USER
from figure import Figure, ratio
from lab import SCHEDULER, wait_for
from watchers import difference, rpcs
from witness import pod_reads

NAMES = ["queue: allocation -> bound", "queue: calls per pod", "drain: allocation -> bound", "drain: calls per pod"]
POLLED = "bench-poll"
JOB = {SCHEDULER: ("annotations", "scheduler.slinky.slurm.net/slurm-jobid"), POLLED: ("labels", "bench.berth.dev/job")}


class PollMethod:
    """with PollMethod(bench) as it: pods of the scheduler POLLED are started; it.calls at the end says what that took."""

    def __init__(self, bench):
        self.bench, self.calls, self.rest = bench, {}, None
        self.socket = f"{bench.lab.run_dir}/rest/slurmrestd.sock"

    def start_rest(self):
        """slurmrestd, if this machine has one; else the poll method asks through libslurm, which is quicker."""
        if not shutil.which("slurmrestd"):
            return []
        directory = os.path.dirname(self.socket)
        os.makedirs(directory, exist_ok=True)
        shutil.chown(directory, USER, USER)
        if os.path.exists(self.socket):
            os.unlink(self.socket)
        with open(f"{self.bench.lab.dir}/log/slurmrestd.log", "ab") as log:
            self.rest = subprocess.Popen(["slurmrestd", "-a", "rest_auth/local", "-s", "openapi/v0.0.38", "-t", "8", "unix:" + self.socket],
                                         env={**self.bench.lab.env, "SLURMRESTD_SECURITY": "disable_user_check"}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                         cwd="/tmp")
        wait_for(lambda: os.path.exists(self.socket) or self.rest.poll() is not None, what="slurmrestd listens")
        return ["--rest", self.socket] if self.rest.poll() is None else []

    def __enter__(self):
        lab = self.bench.lab
        rest = self.start_rest()
        self.through = "slurmrestd" if rest else "libslurm"
        self.process = subprocess.Popen([self.bench.build + "/bench_driver", "--kubeconfig", lab.env["KUBECONFIG"], "--method=poll", "--scheduler", POLLED,
                                         "--user", str(self.bench.user)] + rest, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**lab.env, "HOME": "/tmp"})
        return self

    def __exit__(self, *_):
        output, _ = self.process.communicate(timeout=120)
        self.calls = json.loads(output.strip().splitlines()[-1])
        if self.rest and self.rest.poll() is None:
            self.rest.terminate()
            self.rest.wait(30)


def jobs_of_pods(bench, scheduler):
    """Pod name -> job"""
    kind, key = JOB[scheduler]
    out, more = {}, ""
    while True:
        page = bench.lab.kube.get(f"/api/v1/namespaces/default/pods?fieldSelector=spec.schedulerName%3D{scheduler}&limit=1000{more}")
        out.update({pod["metadata"]["name"]: int(pod["metadata"].get(kind, {}).get(key, 0)) for pod in page["items"]})
        token = page["metadata"].get("continue")
        if not token:
            return out
        more = "&continue=" + token


def start_pods(bench, scheduler, pods, deadline, **words):
    """Seconds from allocation to bound of each pod, as a watch saw it; and how many were not bound in time."""
    names = bench.names(pods, "p")
    bench.driver.create(bench.lab.pod(scheduler=scheduler, **words), names)
    end = bench.now() + deadline
    wait_for(lambda: bench.driver.ask("count")["bound"] >= pods or bench.now() > end, deadline + 60, "the pods are bound", 0.1)
    seen, jobs, prologs = bench.driver.ask("pods"), jobs_of_pods(bench, scheduler), bench.stamps("prolog")
    out = [seen[name]["bound"] - min(prologs[jobs[name]].values()) for name in names if seen[name]["bound"] and jobs.get(name) in prologs]
    return out, pods - len(out)


def with_berth(bench, pods, deadline, **words):
    bench.hooks("berth")
    bench.audit.skip()
    before, reads = rpcs(bench.lab), pod_reads(bench.lab)
    times, late = start_pods(bench, SCHEDULER, pods, deadline, **words)
    calls = sum(difference(rpcs(bench.lab), before).values()) + pod_reads(bench.lab) - reads + len(list(bench.audit.new()))
    return times, late, calls / max(1, len(times))


def with_poll(bench, pods, deadline, **words):
    bench.hooks("raw")
    with PollMethod(bench) as method:
        times, late = start_pods(bench, POLLED, pods, deadline, **words)
    return times, late, (method.calls["slurm"] + method.calls["writes"]) / max(1, len(times)), method


def queued(bench, jobs):
    """So many native jobs that wait and will not start."""
    return bench.driver.calls("batch", count=jobs, user=bench.user, held=True, name="native")


def draining(bench, jobs, cpus):
    """So many short native jobs, each as large as a pod, in front of the pods."""
    return bench.driver.calls("batch", count=jobs, user=bench.user, cpus=cpus, name="native")


def compare(bench, sooner, fewer, prepare, pods, deadline, **words):
    for _ in range(bench.rounds):
        prepare()
        times, late, calls = with_berth(bench, pods, deadline, **words)
        bench.empty()
        prepare()
        polled, polled_late, polled_calls, method = with_poll(bench, pods, deadline, **words)
        bench.empty()
        sooner.add(statistics.median(times), statistics.median(polled))
        fewer.add(calls, polled_calls)
        sooner.note(pods=pods, not_bound={"ours": late, "poll method": polled_late}, poll_method_asks=method.through)


def measure(bench):
    # The sizes are in the table: a share of them says less.
    sizes = [(bench.size(900, 60), bench.size(50, 8)), (bench.size(800, 20), bench.size(1201, 40))]
    # 50 times sooner is at most a 50th of the time.
    figures = [Figure(NAMES[i], "s" if i % 2 == 0 else "calls", "poll method; {} jobs, {} pods".format(*sizes[i // 2]),
                      ("<=", 0.02 if i % 2 == 0 else 0.1)) for i in range(4)]
    compare(bench, figures[0], figures[1], lambda: queued(bench, sizes[0][0]), sizes[0][1], 600, run_for="1h")
    # A full cluster: each pod and job takes a thirty-second of it.
    cpus = bench.cpus * len(bench.lab.nodes) // 32
    compare(bench, figures[2], figures[3], lambda: draining(bench, sizes[1][0], cpus), sizes[1][1], bench.size(1500, 120), cpu=cpus, run_for=bench.size("1s", "200ms"))
    for figure in figures:
        figure.note(times_less=[ratio(limit, ours) for ours, limit in zip(figure.ours, figure.limit)])
    yield from figures
