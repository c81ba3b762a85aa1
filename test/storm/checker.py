"""The checker: looks at a lab all the time (observe.py) and has what it sees judged (rules.py). It knows nothing of the faults."""

import http.client
import json
import subprocess
import threading
import time

from observe import AuditEye, Bind, KernelEye, PodEye, SlurmEye
from rules import Judge

TENANTS = {"default": "lab_alice", "team-a": "lab_alice", "team-b": "lab_bob"}  # as the lab's berth.yaml maps them
SLURM_INTERVAL, KERNEL_INTERVAL, AUDIT_INTERVAL = 0.4, 0.15, 0.5


class Checker:
    def __init__(self, directory, name, port, say, sent=lambda agent, received: received):
        """sent(controller, time): since when what the API server received then may have been on its way."""
        self._sent = sent
        self._say, self._guard, self._over = say, threading.Lock(), threading.Event()
        self.judge = Judge(TENANTS)
        self.trouble = []
        self.missed = {"slurm": 0, "audit": 0}
        self._told = 0
        self._slurm, self._audit, self._kernel = SlurmEye(directory), AuditEye(directory), KernelEye(name)
        self._pods = PodEye(directory, port, self._pod)
        self._threads = [self._pods] + [threading.Thread(target=self._repeat, args=words, daemon=True, name=words[0]) for words in (
            ("slurm", self._look_at_slurm, SLURM_INTERVAL), ("kernel", self._look_at_kernel, KERNEL_INTERVAL),
            ("audit", self._look_at_audit, AUDIT_INTERVAL))]

    def start(self):
        """Returns when it sees; what was bound or written before is not judged."""
        self.judge.awake, self.judge.since = False, time.time()
        self._pods.start()
        if not self._pods.synced.wait(60):
            raise OSError("the checker cannot list pods")
        self.judge.awake = True
        for thread in self._threads[1:]:
            thread.start()

    def stop(self):
        self._over.set()
        self._pods.stop()
        for thread in self._threads:
            thread.join(60)

    def _repeat(self, name, look, interval):
        while not self._over.is_set():
            try:
                look()
            except (OSError, subprocess.TimeoutExpired, http.client.HTTPException, json.JSONDecodeError):
                self.missed[name] = self.missed.get(name, 0) + 1
            except Exception as error:  # pylint: disable=broad-except
                self.trouble.append(f"{name}: {error!r}")  # a checker that cannot look must not pass
                raise
            self._over.wait(interval)

    def _tell(self):
        for violation in self.judge.violations[self._told:]:
            self._say(f"VIOLATION {violation.rule}: {violation.text} (at {stamp(violation.time)})")
        self._told = len(self.judge.violations)

    def _pod(self, now, pod, gone=False):
        with self._guard:
            self.judge.pod(now, pod, gone)

    def _look_at_slurm(self):
        view = self._slurm.look()
        with self._guard:
            self.judge.slurm(view)
            self._tell()

    def _look_at_kernel(self):
        with self._guard:
            known = self.judge.known()
        look = self._kernel.look()
        with self._guard:
            self.judge.kernel(look, known)
            self._tell()

    def _look_at_audit(self):
        entries = self._audit.look()
        with self._guard:
            for entry in entries:
                if isinstance(entry, Bind):
                    self.judge.bind(entry)
                else:
                    entry.sent = self._sent(entry.agent, entry.received)
                    self.judge.write(entry)
            self._tell()

    # --- the end of a storm

    def unsettled(self):
        """What is not as it should be when nothing is under way any more, as sentences."""
        view, look, out = self._slurm.look(), self._kernel.look(), []
        with self._guard:
            pods = list(self.judge.pods.values())
        for job in view.jobs.values():
            if not job.over:
                out.append(f"job {job.id} ({job.name}) is {job.state}")
        for name, (state, _, reason) in view.nodes.items():
            if state != "IDLE":
                out.append(f"node {name} is {state}" + (f": {reason}" if reason else ""))
        out += [f"pod {pod.ns}/{pod.name} is {pod.phase}{' on ' + pod.node if pod.node else ''}" for pod in pods if not pod.over]
        out += [f"pod {uid} has processes {pids} on {node}" for (uid, node), pids in look.pods.items()]
        out += [f"native job {job} ({name}) has process {pid} on {node}" for name, job, node, pid in look.natives]
        return out


def stamp(when):
    return time.strftime("%H:%M:%S", time.gmtime(when)) + f".{int(when % 1 * 1000):03}"
