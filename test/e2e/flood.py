"""Thousands of pods at once, for tests of overload: made and deleted by several connections."""

import os
import threading

from kube import ApiError
from lab import SCHEDULER, wait_for

# The short form for every run; BERTH_FLOOD=20000 is the long one.
COUNT = int(os.environ.get("BERTH_FLOOD", "2000"))
CONNECTIONS = 8


class Flood:
    """`count` pods in one namespace, created in the background."""

    def __init__(self, lab, count=COUNT, ns="team-b", **words):
        self.lab, self.count, self.ns = lab, count, ns
        self.created, self.trouble = [0] * CONNECTIONS, []
        self.threads = [threading.Thread(target=self._create, args=(number, words)) for number in range(CONNECTIONS)]
        for thread in self.threads:
            thread.start()

    def _create(self, number, words):
        try:
            for index in range(number, self.count, CONNECTIONS):
                wait_for(lambda: self._taken(f"flood-{index}", words), 120, interval=0.2)
                self.created[number] += 1
        except Exception as error:  # pylint: disable=broad-except
            self.trouble.append(error)

    def _taken(self, name, words):
        try:
            return self.lab.create(name=name, ns=self.ns, **words)
        except ApiError as error:
            if error.status != 429:  # too busy: it has done nothing
                self.trouble.append(error)
            return error.status != 429

    def made(self):
        return sum(self.created)

    def wait_made(self, count=None, deadline=600):
        wait_for(lambda: self.trouble or self.made() >= (count or self.count), deadline, "the flood's pods are created", 0.05)
        assert not self.trouble, self.trouble[0]

    def join(self):
        for thread in self.threads:
            thread.join()
        assert not self.trouble, self.trouble[0]

    def pods(self):
        """All that the API has of it, page by page: one answer of 20,000 pods would be 60 MB."""
        out, more = [], ""
        while True:
            page = self.lab.kube.get(f"/api/v1/namespaces/{self.ns}/pods?fieldSelector=spec.schedulerName%3D{SCHEDULER}&limit=1000{more}")
            out += page["items"]
            token = page["metadata"].get("continue")
            if not token:
                return out
            more = "&continue=" + token

    def delete_all(self, deadline=300):
        path = f"/api/v1/namespaces/{self.ns}/pods"

        def gone():  # the server may need longer for all of them than a client waits
            if not self.lab.kube.get(path + "?limit=1")["items"]:
                return True
            self.lab.kube.delete(path, {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 1})
            return False
        wait_for(gone, deadline, "the flood is gone", 1)


class Native:
    """Somebody who submits native jobs all the time, and must never be told to wait; and watches Slurm's queue meanwhile."""

    def __init__(self, lab, most):
        self.lab, self.most, self.submitted, self.trouble = lab, most, 0, []
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._submit, daemon=True)
        self.thread.start()

    def _submit(self):
        while not self.stop.wait(0.5):
            # sbatch waits and tries again by itself where slurmctld has no room, and says so.
            done = self.lab.slurm.run("sh", "-c", "sbatch --parsable -o /dev/null -p main -n1 --mem=1 -H --wrap true 2>&1 || echo failed", check=False)
            if not done.strip().isdigit():
                self.trouble.append(f"sbatch: {done}")
                continue
            self.submitted += 1
            self.lab.slurm.run("scancel", "-Q", done.strip(), check=False)
            live = len([job for job in self.lab.slurm.jobs() if job["user"] != "root" and job["state"] != "COMPLETING"])
            if live > self.most:
                self.trouble.append(f"{live} placeholders of at most {self.most}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()

    def verify(self):
        assert not self.trouble, f"{len(self.trouble)} of {self.submitted}: {self.trouble[:3]}"
        assert self.submitted > 5


def rss_mb(lab, name):
    """What the daemon has in memory, and the most that it ever had."""
    with open(f"/proc/{lab.daemon('pid', name)}/status", encoding="ascii") as file:
        status = dict(line.split(":", 1) for line in file)
    return int(status["VmRSS"].split()[0]) // 1024, int(status["VmHWM"].split()[0]) // 1024
