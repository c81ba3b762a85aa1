"""What the checker sees, and how it looks: Slurm by scontrol, Kubernetes by a watch of its own and the server's audit log, the kernel by
cgroups and /proc. None of Berth's code, records, logs or test code is used, so that a mistake there cannot hide itself here.

Every observation carries the times between which it was made (seconds since the epoch, one machine, one clock): what rules may
conclude is a matter of order, and order is only known where intervals do not overlap.
"""

import glob
import http.client
import json
import os
import re
import ssl
import subprocess
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone

JOB, NONCE, SLOT = "scheduler.slinky.slurm.net/slurm-jobid", "berth.dev/nonce", "berth.dev/slot"
TERM = "berth.dev/term"
SCHEDULER = "slurm-bridge-scheduler"
OVER = ("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT")


# --- values

@dataclass
class Job:
    id: int
    name: str
    user: str
    account: str
    partition: str
    state: str
    nodes: dict = field(default_factory=dict)   # node -> (set of CPU ids, MiB); only while it has an allocation
    node_names: tuple = ()                      # NodeList, also after the end
    ticket: dict | None = None                  # AdminComment, where it is a placeholder's

    @property
    def key(self):
        return (self.id, self.ticket["nonce"] if self.ticket else None)

    @property
    def over(self):
        return self.state in OVER


@dataclass
class SlurmView:
    began: float
    ended: float
    boot: object                                # another one: slurmctld was started again, and may have forgotten
    jobs: dict = field(default_factory=dict)    # id -> Job
    nodes: dict = field(default_factory=dict)   # name -> (state, CPUs, reason)


@dataclass
class Pod:
    uid: str
    ns: str
    name: str
    node: str = ""
    job: tuple = (0, None)                      # (job id, nonce) as its annotations have them
    slot: str = ""
    phase: str = "Pending"
    deleting: bool = False
    milli_cpu: int = 0
    memory: int = 0                             # MiB
    scheduler: str = SCHEDULER
    owners: tuple = ()                          # uids of owners, names of PodGroups

    @property
    def over(self):
        return self.phase in ("Succeeded", "Failed")


@dataclass
class Bind:
    """A Binding that Berth asked for, as the API server wrote it down."""
    uid: str
    name: str
    job: tuple
    node: str
    received: float
    answered: float
    code: int
    who: str


@dataclass
class Write:
    """Anything else that a controller wrote, as the API server wrote it down."""
    agent: str                                  # which of them, by its own word
    what: str
    received: float
    answered: float
    code: int
    holder: str | None = None                   # whom the controllers' lease names since; None: it is no write of the lease
    term: str = ""                              # and of which leadership
    sent: float = 0.0                           # not before then, by how long the wire kept what it carried


@dataclass
class KernelLook:
    """Processes that lived all the time from began to ended (for pods), or at one moment in between (native jobs)."""
    began: float
    ended: float
    pods: dict = field(default_factory=dict)     # (uid, node) -> pids
    natives: list = field(default_factory=list)  # (job name, job id, node, pid)


# --- Slurm

class SlurmEye:
    def __init__(self, directory):
        self._environment = {**os.environ, "SLURM_CONF": f"{directory}/etc/slurm.conf"}
        self._pid_file = f"{directory}/daemons/slurmctld/pid"

    def _scontrol(self, *words):
        done = subprocess.run(["scontrol", *words], env=self._environment, capture_output=True, text=True, timeout=40, check=False)
        if done.returncode != 0:
            raise OSError(f"scontrol {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def _boot(self):
        with open(self._pid_file, encoding="ascii") as file:
            return file.read()

    def look(self):
        """All jobs at one moment (slurmctld answers under its lock), and all nodes."""
        boot, began = self._boot(), time.time()
        jobs = self._scontrol("show", "job", "-d")
        ended = time.time()
        nodes = self._scontrol("show", "node", "-o")
        if self._boot() != boot:
            raise OSError("slurmctld was started while it answered")
        return SlurmView(began, ended, boot, parse_jobs(jobs), parse_nodes(nodes))


def expand(hosts):
    """n1,n[3-4] -> [n1, n3, n4]; the lab's names have no leading zeros."""
    out = []
    for prefix, ranges, plain in re.findall(r"([\w-]+)\[([\d,-]+)\]|([\w-]+)", hosts if hosts != "(null)" else ""):
        if plain:
            out.append(plain)
        else:
            out += [f"{prefix}{number}" for number in sorted(numbers(ranges))]
    return out


def numbers(ranges):
    """0-2,5 -> {0, 1, 2, 5}"""
    out = set()
    for part in filter(None, ranges.split(",")):
        first, _, last = part.partition("-")
        out.update(range(int(first), int(last or first) + 1))
    return out


def parse_jobs(text):
    out = {}
    for record in text.split("\n\n"):
        lines = [line.strip() for line in record.splitlines() if "=" in line]
        if not lines or not lines[0].startswith("JobId="):
            continue
        words, free, nodes = {}, {}, {}
        for line in lines:
            key, _, value = line.partition("=")
            if key in ("AdminComment", "Comment", "Command", "SystemComment"):
                free[key] = value
            elif key == "Nodes":
                detail = dict(word.partition("=")[::2] for word in line.split())
                for node in expand(detail["Nodes"]):
                    cpus, memory = nodes.get(node, (set(), 0))
                    nodes[node] = (cpus | numbers(detail["CPU_IDs"]), memory + int(re.sub(r"\D.*", "", detail["Mem"]) or 0))
            else:
                for word in line.split():
                    name, _, own = word.partition("=")
                    words.setdefault(name, own)
        ticket = None
        if free.get("AdminComment", "").startswith('{"berth"'):
            ticket = json.loads(free["AdminComment"])
        number = int(words["JobId"])
        out[number] = Job(number, words.get("JobName", ""), words.get("UserId", "").partition("(")[0], words.get("Account", ""),
                          words.get("Partition", ""), words["JobState"], nodes, tuple(expand(words.get("NodeList", ""))), ticket)
    return out


def parse_nodes(text):
    out = {}
    for line in text.splitlines():
        found = re.search(r"NodeName=(\S+).* CPUTot=(\d+).* State=(\S+)", line)
        if found:
            reason = re.search(r" Reason=(.*?)(?: \[\S+@\S+\])?\s*$", line)
            out[found[1]] = (found[3], int(found[2]), reason[1] if reason else "")
    return out


# --- Kubernetes

def milli(text):
    return int(text[:-1]) if text.endswith("m") else int(float(text) * 1000)


def mebibytes(text):
    for suffix, factor in (("Mi", 1), ("Gi", 1024)):
        if text.endswith(suffix):
            return int(text[:-2]) * factor
    return int(text) >> 20


def read_pod(item):
    meta, spec = item["metadata"], item["spec"]
    notes, labels = meta.get("annotations", {}), meta.get("labels", {})
    requests = [container.get("resources", {}).get("requests", {}) for container in spec["containers"]]
    owners = tuple(owner["uid"] for owner in meta.get("ownerReferences", [])) + tuple(
        filter(None, (labels.get("scheduling.x-k8s.io/pod-group"),)))
    job = (int(notes[JOB]) if notes.get(JOB, "").isdigit() else 0, notes.get(NONCE))
    return Pod(meta["uid"], meta["namespace"], meta["name"], spec.get("nodeName", ""), job, notes.get(SLOT, ""),
               item.get("status", {}).get("phase", "Pending"), "deletionTimestamp" in meta, sum(milli(r.get("cpu", "0")) for r in requests),
               sum(mebibytes(r.get("memory", "0")) for r in requests), spec.get("schedulerName", ""), owners)


class PodEye(threading.Thread):
    """Follows all pods. Calls change(time, pod) for each version it sees, and change(time, pod, gone=True) at the end; each version of a
    pod comes once and in order, and what a broken stream hid comes as the difference of two lists."""

    def __init__(self, directory, port, change):
        super().__init__(daemon=True, name="pod eye")
        with open(f"{directory}/kubernetes/admin.token", encoding="ascii") as file:
            self._token = file.read().strip()
        self._context = ssl.create_default_context(cafile=f"{directory}/kubernetes/ca.crt")
        self._port, self._change = port, change
        self._known, self._over = {}, threading.Event()
        self.events = self.lists = 0
        self.synced = threading.Event()

    def stop(self):
        self._over.set()

    def _get(self, path, timeout=30):
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=timeout, context=self._context)
        connection.request("GET", path, headers={"Authorization": "Bearer " + self._token})
        answer = connection.getresponse()
        if answer.status != 200:
            raise OSError(f"GET {path}: {answer.status}")
        return answer

    def run(self):
        version = None
        while not self._over.is_set():
            try:
                version = self._watch(version or self._list())
            except (OSError, ValueError, http.client.HTTPException):
                self._over.wait(0.2)
            except Relist:
                version = None

    def _list(self):
        with self._get("/api/v1/pods") as answer:
            value = json.load(answer)
        now, there = time.time(), {}
        for item in value["items"]:
            there[item["metadata"]["uid"]] = read_pod(item)
        for uid, pod in list(self._known.items()):
            if uid not in there:
                self._gone(now, pod)
        for pod in there.values():
            self._seen(now, pod)
        self.lists += 1
        self.synced.set()
        return value["metadata"]["resourceVersion"]

    def _watch(self, version):
        with self._get(f"/api/v1/pods?watch=1&resourceVersion={version}&timeoutSeconds=20&allowWatchBookmarks=true", 25) as answer:
            try:
                for line in answer:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise Relist
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] == "DELETED":
                        self._gone(time.time(), read_pod(event["object"]))
                    elif event["type"] != "BOOKMARK":
                        self._seen(time.time(), read_pod(event["object"]))
                    if self._over.is_set():
                        break
            except (OSError, ValueError, http.client.HTTPException):
                pass  # cut in the middle of a line: from the last whole one
        return version

    def _seen(self, now, pod):
        if self._known.get(pod.uid) != pod:
            self._known[pod.uid] = pod
            self.events += 1
            self._change(now, pod)

    def _gone(self, now, pod):
        if self._known.pop(pod.uid, None):
            self.events += 1
            self._change(now, pod, gone=True)


class Relist(Exception):
    """The server does not remember where we were."""


def moment(text):
    return datetime.strptime(text.rstrip("Z")[:26], "%Y-%m-%dT%H:%M:%S.%f").replace(tzinfo=timezone.utc).timestamp()


CONTROLLER = "system:serviceaccount:berth-system:berth-controller"


class AuditEye:
    """The Bindings and the controllers' writes in the audit log, in its order."""

    def __init__(self, directory):
        self._path, self._at = f"{directory}/kubernetes/audit.log", 0

    def look(self):
        with open(self._path, "rb") as file:
            file.seek(self._at)
            text = file.read()
        whole = text.rfind(b"\n") + 1
        self._at += whole
        out = []
        for line in text[:whole].splitlines():
            entry = json.loads(line)
            ref = entry.get("objectRef", {})
            if entry["stage"] != "ResponseComplete":
                continue
            if (ref.get("resource"), ref.get("subresource")) != ("pods", "binding"):
                if entry["user"]["username"] == CONTROLLER:
                    out.append(read_write(entry, ref))
                continue
            body = entry.get("requestObject", {})
            notes = body.get("metadata", {}).get("annotations", {})
            job = (int(notes[JOB]) if notes.get(JOB, "").isdigit() else 0, notes.get(NONCE))
            out.append(Bind(body.get("metadata", {}).get("uid") or ref.get("uid", ""), f"{ref.get('namespace')}/{ref.get('name')}", job,
                            body.get("target", {}).get("name", ""), moment(entry["requestReceivedTimestamp"]), moment(entry["stageTimestamp"]),
                            entry.get("responseStatus", {}).get("code", 0), entry["user"]["username"]))
        return out


def read_write(entry, ref):
    holder, term = None, ""
    if ref.get("resource") == "leases":
        body = entry.get("requestObject", {})
        holder, term = body.get("spec", {}).get("holderIdentity", ""), body.get("metadata", {}).get("annotations", {}).get(TERM, "")
    received = moment(entry["requestReceivedTimestamp"])
    return Write(entry.get("userAgent", "").removeprefix("berthd/"), f"{entry['verb']} {entry['requestURI'].partition('?')[0]}", received,
                 moment(entry["stageTimestamp"]), entry.get("responseStatus", {}).get("code", 0), holder, term, received)


# --- the kernel

class KernelEye:
    def __init__(self, name):
        hierarchies = [root for root in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup/unified", "/sys/fs/cgroup") if os.path.isdir(f"{root}/{name}")]
        self._roots = [f"{root}/{name}" for root in hierarchies]
        self._mark = f"chaos-native:{name}:"

    def _pods(self):
        """(uid, node) -> {(pid, start time)}"""
        out = {}
        for root in self._roots:
            for directory in glob.glob(f"{root}/*/kubepods/**/pod*", recursive=True):
                uid, node = os.path.basename(directory)[3:], os.path.relpath(directory, root).split("/")[0]
                pids = set()
                for path in glob.glob(directory + "/**/cgroup.procs", recursive=True):
                    try:
                        with open(path, encoding="ascii") as file:
                            pids.update(int(line) for line in file)
                    except OSError:
                        pass  # the cgroup went while we looked
                born = {(pid, start) for pid in pids if pid and (start := start_time(pid))}
                if born:
                    out.setdefault((uid, node), set()).update(born)
        return out

    def _natives(self):
        out = []
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit():
                continue
            try:
                with open(f"/proc/{entry.name}/cmdline", "rb") as file:
                    word = file.read(200).split(b"\0")[0].decode(errors="replace")
            except OSError:
                continue
            if word.startswith(self._mark):
                _, _, name, job, node = word.split(":")
                out.append((name, int(job), node, int(entry.name)))
        return out

    def look(self):
        """Pods' processes before and after the look at native ones: who is in both lived in between."""
        began = time.time()
        before, natives = self._pods(), self._natives()
        after, ended = self._pods(), time.time()
        pods = {key: sorted(pid for pid, _ in born & after.get(key, set())) for key, born in before.items()}
        return KernelLook(began, ended, {key: pids for key, pids in pods.items() if pids}, natives)


def start_time(pid):
    """In clock ticks since boot; None for a process that is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])
