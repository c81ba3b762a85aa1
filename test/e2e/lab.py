"""Lab: one lab of test/lab as an object. Tests get it as their argument.

    lab.slurm   Slurm's commands (slurm.py)
    lab.kube    the Kubernetes API as admin (kube.py)
    lab.pod(..) builds a pod, lab.create(..) creates it, lab.wait_pod(..) waits for it

Nothing here asks Berth: what a test believes it reads from Slurm, from Kubernetes, and from the kernel.
"""

import glob
import http.client
import json
import os
import signal
import subprocess
import time
import uuid

from kube import ApiError, Kube
from slurm import CommandError, Slurm

HERE = os.path.dirname(os.path.abspath(__file__))
TOOLS = os.path.join(os.path.dirname(HERE), "lab")
NAMESPACES = ("default", "team-a", "team-b")
SCHEDULER = "slurm-bridge-scheduler"
JOB_ID = "scheduler.slinky.slurm.net/slurm-jobid"
CORDONED = "berth.dev/cordoned"
HOLLOW = "hollow.berth.dev/"
# Where the kinds that own or group pods are in the API; outermost first, for an owner that lives makes new pods.
OWNERS = {"JobSet": "/apis/jobset.x-k8s.io/v1alpha2/{}jobsets", "LeaderWorkerSet": "/apis/leaderworkerset.x-k8s.io/v1/{}leaderworkersets",
          "Deployment": "/apis/apps/v1/{}deployments", "ReplicaSet": "/apis/apps/v1/{}replicasets",
          "StatefulSet": "/apis/apps/v1/{}statefulsets", "Job": "/apis/batch/v1/{}jobs",
          "PodGroup": "/apis/scheduling.x-k8s.io/v1alpha1/{}podgroups"}


class Skip(Exception):
    """Raised by a test that cannot run here, with the reason."""


class NotYet(Exception):
    """Raised by a condition of wait_for() that can say what is missing."""


def wait_for(condition, deadline=60, what=None, interval=0.02):
    """Calls condition() until it returns something true, and returns that. Trouble with a server that is just away is waited out
    like a condition not yet met. Deadlines are there to end a test that has failed, not to measure: be generous."""
    end = time.monotonic() + deadline
    trouble = None
    while True:
        try:
            trouble = None
            value = condition()
            if value:
                return value
        except (NotYet, OSError, http.client.HTTPException, ApiError, CommandError, subprocess.TimeoutExpired) as error:
            trouble = error
        if time.monotonic() > end:
            name = what or getattr(condition, "__name__", "condition")
            raise AssertionError(f"not within {deadline} s: {name}" + (f" (last: {trouble})" if trouble else ""))
        time.sleep(interval)


def holds_for(condition, seconds, what=None, interval=0.05):
    """Fails as soon as condition() is false during these seconds: for what must not happen."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert condition(), f"stopped being true: {what or condition.__name__}"
        time.sleep(interval)


class Lab:
    def __init__(self, directory):
        self.dir = directory
        self.settings = {}
        shell = f". {directory}/env && . {directory}/settings && env -0 && set | sed -n 's/^lab_//p' >&2"
        done = subprocess.run(["env", "-i", "PATH=" + os.environ["PATH"], "bash", "-c", shell], capture_output=True, text=True, check=True)
        environment = dict(item.split("=", 1) for item in done.stdout.split("\0") if "=" in item)
        self.settings = dict(line.split("=", 1) for line in done.stderr.splitlines())
        self.env = {k: v for k, v in environment.items() if k in ("KUBECONFIG", "SLURM_CONF", "PATH") or k.startswith("BERTH_")}
        self.run_dir, self.name = self.env["BERTH_LAB_RUN"], self.env["BERTH_LAB_NAME"]
        self.berth = self.settings["berth"] == "1"
        self.kube_minor = int(self.settings["kube_minor"])
        self.nodes = [f"n{i}" for i in range(1, int(self.settings["nodes"]) + 1)]
        if self.settings["real"] == "1":
            self.nodes.append("real")
        self.slurm = Slurm(self.env)
        with open(f"{directory}/kubernetes/admin.token", encoding="ascii") as file:
            token = file.read().strip()
        self.kube = Kube(int(self.env["BERTH_LAB_PORT"]), f"{directory}/kubernetes/ca.crt", token)

    @staticmethod
    def up(directory, options=()):
        done = subprocess.run([TOOLS + "/up", directory, *options], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"test/lab/up {directory} {' '.join(options)} failed:\n{done.stdout}{done.stderr}")
        return Lab(directory)

    @staticmethod
    def take_down(directory, wipe):
        subprocess.run([TOOLS + "/down", directory] + ["--wipe"] * wipe, check=True)

    def down(self, wipe=True):
        Lab.take_down(self.dir, wipe)

    def needs_kubernetes(self, minor):
        """Skips the test where the lab's API server is older than 1.`minor`."""
        if self.kube_minor < minor:
            raise Skip(f"needs Kubernetes 1.{minor} or later, and this lab has 1.{self.kube_minor}; test/lab/README.md says how to give it a newer one")

    def kube_as(self, identity):
        """The Kubernetes API with the token of one of the lab's identities, e.g. "berth-node-n1"."""
        with open(f"{self.dir}/kubernetes/identities/{identity}.token", encoding="ascii") as file:
            return self.kube.with_token(file.read().strip())

    def account_token(self, ns, account, **spec):
        """A token of a service account, from the server."""
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600, **spec}}
        return self.kube.post(f"/api/v1/namespaces/{ns}/serviceaccounts/{account}/token", request)["status"]["token"]

    def takes_pods(self, ns):
        """Whether the namespace is there, with a service account whose pods the server accepts; before 1.24 that needs a token in a Secret."""
        account = self.kube.find(f"/api/v1/namespaces/{ns}/serviceaccounts/default")
        return account and (self.kube_minor >= 24 or account.get("secrets"))

    # --- daemons

    def daemon(self, verb, *names):
        """start, stop, kill, pause, resume, restart or pid of e.g. "slurmctld", "slurmd:n1", "berthd:n1",
        "berthd:controller", "kube-apiserver", "etcd", "hollow-kubelet"."""
        done = subprocess.run([TOOLS + "/daemon", self.dir, verb, *names], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CommandError(["daemon", verb, *names], done.returncode, done.stderr)
        return done.stdout.strip()

    def daemons(self):
        """Name -> running, paused or stopped."""
        return dict(line.split() for line in self.daemon("status").splitlines())

    def log(self, name):
        with open(f"{self.dir}/log/{name}.log", encoding="utf-8", errors="replace") as file:
            return file.read()

    # --- pods

    def pod(self, name=None, ns="default", cpu="1", memory="64Mi", gpus=0, annotations=None, scheduler=SCHEDULER, grace=30,
            command=None, restart="Never", **hollow):
        """A Pod object. Words like run_for="1s", exit_code=3, die_after="2s" become annotations for the hollow kubelet; `command` is
        for a real one."""
        hollow = {HOLLOW + key.replace("_", "-"): str(value).lower() if isinstance(value, bool) else str(value)
                  for key, value in hollow.items()}
        requests = {"cpu": str(cpu), "memory": str(memory)}
        if gpus:
            requests["nvidia.com/gpu"] = str(gpus)
        container = {"name": "main", "image": "docker.io/library/busybox:1", "imagePullPolicy": "Never",
                     "resources": {"requests": requests, "limits": {k: v for k, v in requests.items() if "/" in k}}}
        if command:
            container["command"] = command
        return {"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": name or "p-" + uuid.uuid4().hex[:8], "namespace": ns, "annotations": {**hollow, **(annotations or {})}},
                "spec": {"schedulerName": scheduler, "restartPolicy": restart, "terminationGracePeriodSeconds": grace,
                         "containers": [container]}}

    @staticmethod
    def path(pod, rest=""):
        return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}{rest}"

    def create(self, pod=None, **words):
        """Creates the pod (built from the words where none is given) and returns it as the server has it."""
        pod = pod or self.pod(**words)
        return self.kube.post(f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods", pod)

    def get(self, pod):
        """The pod as it is now; None once it, by its uid, is gone."""
        now = self.kube.find(self.path(pod))
        return now if now and now["metadata"]["uid"] == pod["metadata"]["uid"] else None

    def phase(self, pod):
        now = self.get(pod)
        return now["status"]["phase"] if now else None

    def wait_phase(self, pod, phase, deadline=60):
        wait_for(lambda: self.phase(pod) == phase, deadline, f"pod {pod['metadata']['name']} is {phase}")
        return self.get(pod)

    def wait_gone(self, pod, deadline=60):
        wait_for(lambda: self.get(pod) is None, deadline, f"pod {pod['metadata']['name']} is gone from the API")

    def wait_bound(self, pod, deadline=60):
        """The pod once it has a node."""
        return wait_for(lambda: (now := self.get(pod)) and now["spec"].get("nodeName") and now, deadline,
                        f"pod {pod['metadata']['name']} is bound")

    def delete(self, pod, grace=None):
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": pod["metadata"]["uid"]}}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        self.kube.delete(self.path(pod), options)

    def bind(self, pod, node):
        """Binds by hand, past Slurm: for tests of the lab itself, and for pods that are none of Berth's."""
        self.kube.post(self.path(pod, "/binding"), {
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node}})

    def condition(self, pod, kind):
        """One condition of the pod's status as a dict, empty without it."""
        now = self.get(pod)
        return next((c for c in (now or {}).get("status", {}).get("conditions", []) if c["type"] == kind), {})

    def ended(self, pod):
        """The `terminated` state of the pod's first container, or None."""
        now = self.get(pod)
        states = (now or {}).get("status", {}).get("containerStatuses", [])
        return states[0]["state"].get("terminated") if states else None

    def job_id(self, pod):
        """The Slurm job id that the pod carries since it was bound."""
        now = self.get(pod)
        value = now and now["metadata"].get("annotations", {}).get(JOB_ID)
        return int(value) if value else None

    def pods(self):
        return [p for ns in NAMESPACES for p in self.kube.get(f"/api/v1/namespaces/{ns}/pods")["items"]]

    def events(self, pod):
        """Events about the pod, oldest first."""
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/events?fieldSelector=involvedObject.uid%3D{pod['metadata']['uid']}"
        return self.kube.get(path)["items"]

    # --- what owns pods

    @staticmethod
    def owner_path(owner, rest=""):
        meta = owner["metadata"]
        return OWNERS[owner["kind"]].format(f"namespaces/{meta['namespace']}/") + f"/{meta['name']}{rest}"

    def create_owner(self, owner):
        """Creates a Job, PodGroup, ... and returns it as the server has it, with its kind."""
        path = OWNERS[owner["kind"]].format(f"namespaces/{owner['metadata']['namespace']}/")
        return {**self.kube.post(path, owner), "kind": owner["kind"]}

    def get_owner(self, owner):
        """As it is now; None once it, by its uid, is gone."""
        now = self.kube.find(self.owner_path(owner))
        return now if now and now["metadata"]["uid"] == owner["metadata"]["uid"] else None

    def delete_owner(self, owner, orphan=False):
        self.kube.delete(self.owner_path(owner), {"apiVersion": "v1", "kind": "DeleteOptions",
                                                  "propagationPolicy": "Orphan" if orphan else "Background"})

    def owners(self, kind):
        return [{**item, "kind": kind} for item in self.kube.get(OWNERS[kind].format(""))["items"] if item["metadata"]["namespace"] in NAMESPACES]

    def kubectl(self, *arguments, stdin=None):
        return self.slurm.run("kubectl", *arguments, stdin=stdin)

    def apply(self, text):
        """What `kubectl apply` makes of a manifest: the objects. The lab's server is older than some fields, which it then drops; an
        older kubectl would not even send them."""
        return json.loads(self.kubectl("apply", "--validate=false", "-o", "json", "-f", "-", stdin=text))

    # --- the kernel's view

    def cgroups(self, pod):
        """The pod's cgroup directories, in all hierarchies."""
        root = f"/sys/fs/cgroup/{{}}{self.name}/*/kubepods"
        return [path for hierarchy in ("", "*/") for qos in ("", "/*")
                for path in glob.glob(f"{root.format(hierarchy)}{qos}/pod{pod['metadata']['uid']}")]

    def processes(self, pod):
        """The living processes of the pod: what decides whether it is really gone."""
        pids = set()
        for directory in self.cgroups(pod):
            for path in glob.glob(directory + "/**/cgroup.procs", recursive=True):
                try:
                    with open(path, encoding="ascii") as file:
                        pids.update(int(line) for line in file)
                except OSError:
                    pass  # the cgroup went while we looked
        return pids

    def release_unkillable(self):
        """Lets die what hollow pods with `unkillable` keep in the freezer."""
        for path in glob.glob(f"/sys/fs/cgroup/freezer/{self.name}/*/unkillable/*/freezer.state"):
            with open(path, "w", encoding="ascii") as file:
                file.write("THAWED")

    def held(self, node=None):
        """Berth's records of pods not yet proven gone."""
        return sorted(glob.glob(f"{self.run_dir}/{node or '*'}/held/*"))

    # --- between tests

    def leftovers(self):
        """What must not outlast a test, as sentences."""
        out = [f"daemon {name} is {state}" for name, state in self.daemons().items() if state != "running"]
        for name, state in self.slurm.nodes().items():
            if any(word in state for word in ("drain", "down", "fail")):
                out.append(f"node {name} is {state}: {self.slurm.node(name).get('Reason')}")
        return out

    def clean(self, deadline=60):
        """Brings the lab back to where it began: no pods, no jobs, no records, all daemons running, all nodes idle. Fails when that
        is not possible without force."""
        for name, state in self.daemons().items():
            if state != "running":
                self.daemon("resume" if state == "paused" else "start", name)
        self.release_unkillable()
        wait_for(lambda: self.kube.get("/readyz") == "ok", 60, "the API server answers")
        wait_for(self.slurm.nodes, 60, "slurmctld answers")
        if self.berth:
            for node in self.cordoned():
                if CORDONED not in node["metadata"].get("annotations", {}):
                    self.kube.patch(f"/api/v1/nodes/{node['metadata']['name']}", {"spec": {"unschedulable": None}})
        for name, state in self.slurm.nodes().items():
            if "drain" in state or "down" in state:
                self.slurm.resume(name)
        if self.berth:
            for kind in OWNERS:
                for owner in self.owners(kind):
                    self.unless_gone(lambda: self.delete_owner(owner))
        for pod in self.pods():
            self.unless_gone(lambda: self.delete(pod, grace=0 if pod["spec"].get("nodeName") is None else 1))
        jobs = [str(job["id"]) for job in self.slurm.jobs()]
        if jobs:
            self.slurm.run("scancel", "-Q", *jobs, check=False)
        wait_for(lambda: not self.force_stuck(), deadline, "no pod is left", 0.05)
        wait_for(lambda: not self.slurm.jobs(), deadline, "no job is left", 0.05)
        wait_for(lambda: not self.held(), deadline, "no held record is left", 0.05)
        wait_for(lambda: all(state == "idle" for state in self.slurm.nodes().values()), deadline, "all nodes are idle", 0.05)
        if self.berth:
            wait_for(lambda: not self.cordoned(), deadline, "no node is cordoned", 0.05)

    def cordoned(self):
        return [node for node in self.kube.get("/api/v1/nodes")["items"] if node["spec"].get("unschedulable")]

    @staticmethod
    def unless_gone(delete):
        try:
            delete()
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    def force_stuck(self):
        """Pods left; those that a broken kubelet will never end are ended here, and those that an owner made at the last moment."""
        left = self.pods()
        for pod in left:
            if not pod["metadata"].get("deletionTimestamp"):
                self.unless_gone(lambda: self.delete(pod, grace=1))
            annotations = pod["metadata"].get("annotations", {})
            if annotations.get(HOLLOW + "stuck") or annotations.get(HOLLOW + "unkillable"):
                for pid in self.processes(pod):
                    os.kill(pid, signal.SIGKILL)
                self.delete(pod, grace=0)
        return left
