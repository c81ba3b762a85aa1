"""Stand-ins for controllers that the lab cannot have: those of JobSet and LeaderWorkerSet, which are in no package archive, and that of
Indexed Jobs, which the lab's Kubernetes is too old for. Each makes what the real one makes, with its names, labels and annotations, as far
as Berth can see it. What they leave out: services, hashes, rolling updates, and the StatefulSets between a LeaderWorkerSet and its pods.
"""

import contextlib
import copy
import http.client
import threading
import uuid

from kube import ApiError
from lab import OWNERS

JOBSET = "jobset.sigs.k8s.io/"
LWS = "leaderworkerset.sigs.k8s.io/"


def owned_by(owner, api_version):
    return [{"apiVersion": api_version, "kind": owner["kind"], "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
             "controller": True, "blockOwnerDeletion": True}]


def is_true(condition_type, conditions):
    return any(c["type"] == condition_type and c["status"] == "True" for c in conditions or [])


def merged(template, ns, labels, annotations):
    """A copy of a template's metadata and spec with these labels and annotations added."""
    out = copy.deepcopy(template)
    meta = out.setdefault("metadata", {})
    meta["namespace"] = ns
    meta["labels"] = {**meta.get("labels", {}), **labels}
    meta["annotations"] = {**meta.get("annotations", {}), **annotations}
    return out


class Standins(threading.Thread):
    """Plays the controllers of JobSet and LeaderWorkerSet while the `with` block lasts. `trouble` is what went wrong, checked at the
    end of the block."""

    def __init__(self, lab):
        super().__init__(daemon=True)
        self._lab, self._over, self.trouble = lab, threading.Event(), []

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, _value, _trace):
        self._over.set()
        self.join()
        assert kind or not self.trouble, self.trouble

    def run(self):
        while not self._over.wait(0.1):
            try:
                for jobset in self._lab.owners("JobSet"):
                    self.jobset(jobset)
                for lws in self._lab.owners("LeaderWorkerSet"):
                    self.leader_worker_set(lws)
            except (OSError, http.client.HTTPException):
                pass  # the server is away
            except ApiError as error:
                if error.status not in (404, 409):  # somebody was faster
                    self.trouble.append(str(error))

    # --- JobSet

    def jobset(self, jobset):
        lab, name, ns = self._lab, jobset["metadata"]["name"], jobset["metadata"]["namespace"]
        if jobset["metadata"].get("deletionTimestamp") or is_true("Completed", jobset.get("status", {}).get("conditions")) or \
                is_true("Failed", jobset.get("status", {}).get("conditions")):
            return
        restarts = jobset.get("status", {}).get("restarts", 0)
        jobs = [job for job in lab.kube.get(OWNERS["Job"].format(f"namespaces/{ns}/"))["items"]
                if job["metadata"].get("labels", {}).get(JOBSET + "jobset-name") == name]
        old = [job for job in jobs if job["metadata"]["labels"][JOBSET + "restart-attempt"] != str(restarts)]
        for job in old:
            if not job["metadata"].get("deletionTimestamp"):
                lab.delete_owner({**job, "kind": "Job"})
        if old:
            return  # the next attempt begins when the last one is tidied away
        wanted = list(self.children(jobset, restarts))
        for child in wanted:
            now = next((job for job in jobs if job["metadata"]["name"] == child["metadata"]["name"]), None)
            if not now:
                lab.create_owner(child)
            elif now["spec"]["parallelism"] != child["spec"]["parallelism"]:
                lab.kube.patch(lab.owner_path(child), {"spec": {"parallelism": child["spec"]["parallelism"]}})
        conditions = [job.get("status", {}).get("conditions") for job in jobs]
        if any(is_true("Failed", each) for each in conditions):
            if restarts < jobset["spec"].get("failurePolicy", {}).get("maxRestarts", 0):
                self.write_status(jobset, {"restarts": restarts + 1})
            else:
                self.write_status(jobset, {"conditions": [self.condition("Failed", "FailedJobs")]})
        elif len(jobs) == len(wanted) and all(is_true("Complete", each) for each in conditions):
            self.write_status(jobset, {"conditions": [self.condition("Completed", "AllJobsCompleted")]})

    @staticmethod
    def children(jobset, restarts):
        name, ns = jobset["metadata"]["name"], jobset["metadata"]["namespace"]
        replicated = jobset["spec"]["replicatedJobs"]
        total, overall = sum(r.get("replicas", 1) for r in replicated), 0
        for each in replicated:
            for index in range(each.get("replicas", 1)):
                words = {JOBSET + key: str(value) for key, value in (
                    ("jobset-name", name), ("jobset-uid", jobset["metadata"]["uid"]), ("replicatedjob-name", each["name"]),
                    ("replicatedjob-replicas", each.get("replicas", 1)), ("job-index", index),
                    ("job-key", uuid.uuid5(uuid.NAMESPACE_OID, f"{ns}/{name}-{each['name']}-{index}")), ("job-global-index", overall),
                    ("global-replicas", total), ("restart-attempt", restarts))}
                overall += 1
                child = merged(each["template"], ns, words, words)
                child.update(apiVersion="batch/v1", kind="Job")
                child["metadata"].update(name=f"{name}-{each['name']}-{index}", ownerReferences=owned_by(jobset, "jobset.x-k8s.io/v1alpha2"))
                child["spec"]["template"] = merged(child["spec"]["template"], ns, words, words)
                child["spec"]["template"]["metadata"].pop("namespace")
                child["spec"].setdefault("parallelism", 1)
                if jobset["spec"].get("suspend"):
                    # The real one suspends the Job; the lab's server drops that word, and this has the same effect on the pods.
                    child["spec"]["parallelism"] = 0
                yield child

    # --- LeaderWorkerSet

    def leader_worker_set(self, lws):
        lab, name, ns = self._lab, lws["metadata"]["name"], lws["metadata"]["namespace"]
        if lws["metadata"].get("deletionTimestamp"):
            return
        pods = {pod["metadata"]["name"]: pod for pod in lab.kube.get(f"/api/v1/namespaces/{ns}/pods")["items"]
                if pod["metadata"].get("labels", {}).get(LWS + "name") == name}
        for group in range(lws["spec"].get("replicas", 1)):
            self.group(lws, group, {n: p for n, p in pods.items() if p["metadata"]["labels"][LWS + "group-index"] == str(group)})

    def group(self, lws, group, pods):
        lab, size = self._lab, lws["spec"]["leaderWorkerTemplate"].get("size", 1)
        names = [f"{lws['metadata']['name']}-{group}" + (f"-{worker}" if worker else "") for worker in range(size)]
        leader = pods.get(names[0])
        going = [pod for pod in pods.values() if pod["metadata"].get("deletionTimestamp") or pod["status"]["phase"] == "Failed"]
        if going and lws["spec"]["leaderWorkerTemplate"].get("restartPolicy") != "None":
            # RecreateGroupOnPodRestart: the leader goes, and the workers, who belong to it, with it.
            for pod in pods.values():
                if not pod["metadata"].get("deletionTimestamp"):
                    lab.delete(pod)
            return
        if not leader:
            if not pods:  # workers of the last leader go first
                lab.create(self.member(lws, group, 0, names[0], owned_by(lws, "leaderworkerset.x-k8s.io/v1")))
            return
        for worker in range(1, size):
            if names[worker] not in pods:
                lab.create(self.member(lws, group, worker, names[worker], owned_by({**leader, "kind": "Pod"}, "v1"), names[0]))

    @staticmethod
    def member(lws, group, worker, name, owners, leader=None):
        template = lws["spec"]["leaderWorkerTemplate"]
        source = template["workerTemplate"] if worker else template.get("leaderTemplate") or template["workerTemplate"]
        set_name, ns = lws["metadata"]["name"], lws["metadata"]["namespace"]
        labels = {LWS + "name": set_name, LWS + "group-index": str(group), LWS + "worker-index": str(worker),
                  LWS + "group-key": uuid.uuid5(uuid.NAMESPACE_OID, f"{ns}/{set_name}-{group}").hex}
        annotations = {LWS + "size": str(template.get("size", 1))}
        if leader:
            annotations[LWS + "leader-name"] = leader
        pod = merged(source, ns, labels, annotations)
        pod.update(apiVersion="v1", kind="Pod")
        pod["metadata"].update(name=name, ownerReferences=owners)
        return pod

    # --- both

    @staticmethod
    def condition(kind, reason):
        return {"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}

    def write_status(self, owner, status):
        self._lab.kube.patch(self._lab.owner_path(owner, "/status"), {"status": status})


@contextlib.contextmanager
def indexed_job(lab, job):
    """The Job and its pods as an Indexed Job's controller makes them. The real one stands still while the block lasts, for it would
    make others."""
    key = "batch.kubernetes.io/job-completion-index"
    lab.daemon("pause", "kube-controller-manager")
    try:
        job = lab.create_owner(job)
        meta = job["metadata"]
        for index in range(job["spec"]["parallelism"]):
            pod = merged(job["spec"]["template"], meta["namespace"],
                         {"controller-uid": meta["uid"], "job-name": meta["name"], key: str(index)}, {key: str(index)})
            pod.update(apiVersion="v1", kind="Pod")
            pod["metadata"].update(name=f"{meta['name']}-{index}-{uuid.uuid4().hex[:5]}", ownerReferences=owned_by(job, "batch/v1"))
            lab.create(pod)
        yield job
        lab.delete_owner(job)
    finally:
        lab.daemon("resume", "kube-controller-manager")
