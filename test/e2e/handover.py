"""How a node's room passes from a pod to the next job, as the kernel saw it: for tests of holds and faults.

A NativeJob looks for pods' processes itself, at the moment it starts; a Sampler has watched them from outside all the time. Neither
asks Berth.
"""

import atexit
import contextlib
import http.client
import os
import re
import shlex
import subprocess
import tempfile
import threading
import time

from kube import ApiError
from lab import TOOLS, NotYet, wait_for
from slurm import CommandError

MAX_GRACE, LIMIT, KILL_WAIT = 8, 10, 4


def temporary(text, suffix):
    """The name of a file with this text, for as long as this process runs."""
    with tempfile.NamedTemporaryFile("w", prefix="berth-e2e-", suffix=suffix, delete=False) as file:
        file.write(text)
    atexit.register(os.unlink, file.name)
    return file.name


def short_hold(slurm_conf="", api_down=60):
    """Options of test/lab/up for a lab whose holds are over within seconds, and whose scheduler looks at waiting jobs often."""
    with open(TOOLS + "/berth.yaml.in", encoding="ascii") as file:
        text = file.read()
    for key, seconds in (("max_grace", MAX_GRACE), ("limit", LIMIT), ("kill_wait", KILL_WAIT), ("api_down", api_down)):
        text = re.sub(rf"^  {key}: .*$", f"  {key}: {seconds}s", text, flags=re.M)
    slurm_conf += "SchedulerParameters=disable_job_shrink,bf_interval=2,sched_interval=2\n"
    return ["--nodes", "3", "--berth-yaml", temporary(text, ".yaml"), "--slurm-conf", temporary(slurm_conf, ".conf")]


SHORT_HOLD = short_hold()
# And nobody waits long for an answer: neither Slurm's daemons for slurmctld, nor a hold for an API server that is away.
MESSAGE_TIMEOUT, API_DOWN = 5, 4
IMPATIENT = short_hold(f"MessageTimeout={MESSAGE_TIMEOUT}\n", API_DOWN)


class Sampler(threading.Thread):
    """Looks at the pod's processes as often as it can until stop()."""

    def __init__(self, lab, pod):
        super().__init__(daemon=True)
        self._lab, self._pod, self._over = lab, pod, threading.Event()
        self.alive_at = None  # when the last look began that found a process
        self.looks = 0
        assert lab.processes(pod), "the pod lives when it is first looked at"
        self.start()

    def run(self):
        while not self._over.is_set():
            now = time.time()
            if self._lab.processes(self._pod):
                self.alive_at = now
            self.looks += 1
            time.sleep(0.005)

    def stop(self):
        self._over.set()
        self.join()


class NeverStarted(Exception):
    """Slurm has ended a native job that did not start."""


class NativeJob:
    """A native job that wants all of the pod's node, as a batch job or as an srun. verify() waits for its start and compares."""

    def __init__(self, lab, pod, user="lab_bob", srun=False, whole=True, partition=None):
        self._lab, self._pod, self._sampler = lab, pod, Sampler(lab, pod)
        self.node = pod["spec"]["nodeName"]
        self._dir = tempfile.mkdtemp(prefix="berth-handover-")
        os.chmod(self._dir, 0o1777)
        self._file = os.path.join(self._dir, "started")
        # Its first act is to look for processes in any pod's cgroup on this node.
        look = f"find /sys/fs/cgroup/*/{lab.name}/{self.node} /sys/fs/cgroup/{lab.name}/{self.node} -path '*pod*' -name cgroup.procs"
        script = f"{{ date +%s.%N; {look} -exec cat {{}} + 2> /dev/null; }} > {self._file}.new; mv {self._file}.new {self._file}"
        options = ["-w", self.node, "--exclusive" if whole else "--mem=64", *(["-p", partition] if partition else [])]
        self._srun = None
        self.job = None
        if srun:
            self._srun = subprocess.Popen(["srun", *options, "sh", "-c", script], env={**os.environ, **lab.env}, cwd="/tmp",
                                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                          user=user, group=user, extra_groups=[])
            self.job = wait_for(lambda: next((j["id"] for j in lab.slurm.jobs("-u", user) if j["name"] == "sh"), None), what="srun has a job")
        else:
            self.job = lab.slurm.sbatch(*options, wrap=script, user=user)

    def started(self):
        return os.path.exists(self._file)

    def started_or_over(self):
        state = self._lab.slurm.job_state(self.job)  # asked first: a job that has ended can start no more
        if self.started():
            return True
        if state in ("FAILED", "CANCELLED", "NODE_FAIL"):
            raise NeverStarted(f"native job {self.job} is {state}")
        return False

    def verify(self, deadline=60, others=()):
        """Waits until it has started, and holds its own look and the sampler's against each other. `others`: pods that may live."""
        try:
            wait_for(self.started_or_over, deadline, f"native job {self.job} starts")
        finally:
            self._sampler.stop()
            if self._srun:
                try:
                    _, trouble = self._srun.communicate(timeout=30 if self.started() else 0.1)
                except subprocess.TimeoutExpired:
                    self._srun.kill()
                    _, trouble = self._srun.communicate()
                print(end=trouble)
        with open(self._file, encoding="ascii") as file:
            when, *pids = file.read().split()
        allowed = {str(pid) for other in others for pid in self._lab.processes(other)}
        subprocess.run(["rm", "-r", self._dir], check=True)
        assert set(pids) <= allowed, f"native job {self.job} started beside processes {pids} of pods"
        assert self._sampler.looks > 10 and self._sampler.alive_at, "somebody looked"
        assert self._sampler.alive_at < float(when), f"native job {self.job} started {self._sampler.alive_at - float(when):.3f} s too early"


class Observer(threading.Thread):
    """Watches the invariants from outside during a test: once Slurm has let go of a pod's job, the pod has no process and is not bound
    any more later. verify() fails with what it saw."""

    def __init__(self, lab):
        super().__init__(daemon=True)
        self._lab, self._over = lab, threading.Event()
        self._seen, self._unbound = set(), {}
        self.wrong, self.looks, self.missed = [], 0, 0
        self.start()

    def run(self):
        while not self._over.is_set():
            try:
                self.look()
            except (OSError, ApiError, CommandError, http.client.HTTPException):
                self.missed += 1
            time.sleep(0.01)

    def look(self):
        queued = {job["name"] for job in self._lab.slurm.jobs()}
        pods = {f"{p['metadata']['namespace']}/{p['metadata']['name']}": p for p in self._lab.pods()}
        self._seen |= queued
        for name, pod in pods.items():
            if name in queued or name not in self._seen:
                continue
            if self._lab.processes(pod):
                self.wrong.append(f"pod {name} lives after its job")
            if not pod["spec"].get("nodeName"):
                self._unbound[name] = True
            elif name in self._unbound:
                self.wrong.append(f"pod {name} was bound after its job")
        self.looks += 1

    def verify(self):
        died = not self.is_alive() and not self._over.is_set()
        self._over.set()
        self.join()
        assert not self.wrong, self.wrong
        assert not died, "the observer looked to the end"
        assert self.looks > 10 * self.missed and self.looks > 3, f"{self.looks} looks, {self.missed} failed"


@contextlib.contextmanager
def slurm_conf(lab, *lines):
    """slurm.conf ends with these lines meanwhile, and slurmctld and slurmd's know."""
    path = lab.env["SLURM_CONF"]
    with open(path, encoding="utf-8") as file:
        before = file.read()

    def put(text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        lab.slurm.run("scontrol", "reconfigure")
    put(before + "".join(line + "\n" for line in lines))
    try:
        yield
    finally:
        put(before)


def agents(lab):
    """All node agents, for lab.daemon()."""
    return [f"berthd:{node}" for node in lab.nodes]


def terminal(pod):
    return pod["status"]["phase"] in ("Succeeded", "Failed")


def settled(lab, deadline=60):
    """Waits until nothing is under way any more: no job, no record, every pod finished or gone, every node idle."""
    def nothing_left():
        left = [f"job {job}" for job in lab.slurm.jobs()] + [f"record {record}" for record in lab.held()]
        left += [f"pod {pod['metadata']['name']}" for pod in lab.pods() if not terminal(pod)]
        left += [f"node {name} {state}: {lab.slurm.node(name).get('Reason')}" for name, state in lab.slurm.nodes().items() if state != "idle"]
        if left:
            raise NotYet("; ".join(left))
        return True
    wait_for(nothing_left, deadline, "everything settles", 0.1)


def completing(lab, pod):
    return "completing" in lab.slurm.nodes()[pod["spec"]["nodeName"]]


def wait_prolog(lab, job):
    """The job's node, once its prolog has returned."""
    def through():
        record = lab.slurm.job(job)
        return record["JobState"] == "RUNNING" and record["Reason"] != "Prolog" and record["NodeList"]
    return wait_for(through, what=f"the prolog of job {job} returns")
