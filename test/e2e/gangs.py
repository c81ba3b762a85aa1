"""Gangs for tests: builds what owns or groups pods, and reads from both servers how the whole is doing. Berth is not asked."""

import json
import os
import signal
import uuid

from lab import wait_for
from slurm import parse_show
from witness import placeholders, wait_state

GROUP = "scheduling.x-k8s.io/pod-group"
SLOT = "berth.dev/slot"
NAME_LABEL = {"JobSet": "jobset.sigs.k8s.io/jobset-name", "LeaderWorkerSet": "leaderworkerset.sigs.k8s.io/name", "PodGroup": GROUP,
              "Job": "job-name"}


def name_of(kind):
    return f"{kind.lower()}-{uuid.uuid4().hex[:6]}"


def template(lab, labels=None, **words):
    """A pod template; the words are those of lab.pod()."""
    pod = lab.pod(**words)
    return {"metadata": {"labels": labels or {}, "annotations": pod["metadata"]["annotations"]}, "spec": pod["spec"]}


def job_object(lab, pods=3, name=None, ns="default", gang=True, annotations=None, backoff=6, labels=None, **words):
    """A Job of so many pods at once. `annotations` are the Job's own; the other words are for its pods."""
    annotations = {**({"berth.dev/gang": "true"} if gang else {}), **(annotations or {})}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name or name_of("Job"), "namespace": ns, "annotations": annotations},
            "spec": {"parallelism": pods, "completions": pods, "backoffLimit": backoff,
                     "template": template(lab, labels, ns=ns, **words)}}


def create_job(lab, *arguments, **words):
    return lab.create_owner(job_object(lab, *arguments, **words))


def create_group(lab, min_member, name=None, ns="default", **spec):
    return lab.create_owner({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
                             "metadata": {"name": name or name_of("PodGroup"), "namespace": ns}, "spec": {"minMember": min_member, **spec}})


def join_group(lab, group, count, **words):
    """So many pods of their own in the group."""
    out = []
    for _ in range(count):
        pod = lab.pod(ns=group["metadata"]["namespace"], **words)
        pod["metadata"]["labels"] = {GROUP: group["metadata"]["name"]}
        out.append(lab.create(pod))
    return out


def lws_object(lab, size, replicas=1, leader=None, worker=None, ns="default", name=None, annotations=None):
    """A LeaderWorkerSet; `leader` and `worker` are words for the pods of each kind."""
    each = {"size": size, "workerTemplate": template(lab, **(worker or {}))}
    if leader:
        each["leaderTemplate"] = template(lab, **leader)
    return {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
            "metadata": {"name": name or name_of("lws"), "namespace": ns, "annotations": annotations or {}},
            "spec": {"replicas": replicas, "leaderWorkerTemplate": each}}


def jobset_object(lab, jobs, ns="default", name=None, annotations=None, **spec):
    """A JobSet; `jobs` is {name: (replicas, words of job_object())}."""
    replicated = []
    for job_name, (replicas, words) in jobs.items():
        job = job_object(lab, gang=False, ns=ns, **words)
        replicated.append({"name": job_name, "replicas": replicas, "template": {"spec": job["spec"]}})
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
            "metadata": {"name": name or name_of("JobSet"), "namespace": ns, "annotations": annotations or {}},
            "spec": {"replicatedJobs": replicated, **spec}}


# --- how it is doing

def pods_of(lab, owner):
    """The owner's pods as they are now, by name; those on their way out included."""
    meta = owner["metadata"]
    selector = f"{NAME_LABEL[owner['kind']]}%3D{meta['name']}"
    return sorted(lab.kube.get(f"/api/v1/namespaces/{meta['namespace']}/pods?labelSelector={selector}")["items"],
                  key=lambda pod: pod["metadata"]["name"])


def live_pods(lab, owner):
    return [pod for pod in pods_of(lab, owner)
            if pod["status"]["phase"] in ("Pending", "Running") and not pod["metadata"].get("deletionTimestamp")]


def wait_pods(lab, owner, count, deadline=60):
    wait_for(lambda: len(live_pods(lab, owner)) == count, deadline, f"{owner['metadata']['name']} has {count} pods")
    return live_pods(lab, owner)


def bound(pods):
    return [pod for pod in pods if pod["spec"].get("nodeName")]


def annotation(pod, key):
    return pod["metadata"].get("annotations", {}).get(key)


def uids(pods):
    return {pod["metadata"]["uid"] for pod in pods}


def jobs_of_owner(lab, owner):
    """All placeholders that slurmctld remembers for the owner as a gang, oldest first; parts of a heterogeneous one each for itself."""
    uid = owner["metadata"]["uid"]
    return sorted((job for key, jobs in placeholders(lab).items() if key.partition("/")[0] == uid for job in jobs),
                  key=lambda job: int(job["JobId"]))


def wait_gang_job(lab, owner, *states, deadline=60):
    """The record of the gang's latest placeholder (its first part), once it is in one of these states."""
    states = states or ("PENDING", "RUNNING")

    def there():
        jobs = [job for job in jobs_of_owner(lab, owner) if json.loads(job["AdminComment"]).get("part", 0) == 0]
        return jobs and jobs[-1]["JobState"] in states and jobs[-1]
    return wait_for(there, deadline, f"the job of {owner['kind']} {owner['metadata']['name']} is {' or '.join(states)}")


def wait_running(lab, owner, count, deadline=60):
    """The pods, once so many run."""
    def run():
        pods = [pod for pod in pods_of(lab, owner) if pod["status"]["phase"] == "Running" and not pod["metadata"].get("deletionTimestamp")]
        return len(pods) == count and pods
    return wait_for(run, deadline, f"{count} pods of {owner['kind']} {owner['metadata']['name']} run", 0.1)


def wait_all_gone(lab, pods, deadline=60):
    wait_for(lambda: not uids(pods) & uids(lab.pods()), deadline, f"{len(pods)} pods are gone", 0.1)


def running_gang(lab, owner, count, deadline=60):
    """(pods, job record) of a gang that runs whole, in one job that all its pods name."""
    pods = wait_running(lab, owner, count, deadline)
    job = wait_gang_job(lab, owner, "RUNNING")
    assert {annotation(pod, "scheduler.slinky.slurm.net/slurm-jobid") for pod in pods} == {job["JobId"]}
    return pods, job


def by_slot(pods):
    """{"PART.SLOT": pod}; every pod has a slot of its own."""
    out = {annotation(pod, SLOT): pod for pod in pods}
    assert None not in out and len(out) == len(pods), [annotation(pod, SLOT) for pod in pods]
    return out


def on_nodes(pods):
    """{node: how many of the pods}"""
    out = {}
    for pod in bound(pods):
        out[pod["spec"]["nodeName"]] = out.get(pod["spec"]["nodeName"], 0) + 1
    return out


def cpu_of(pod):
    text = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return int(text[:-1]) / 1000 if text.endswith("m") else int(text)


def check_no_node_is_oversubscribed(pods, cpus):
    used = {}
    for pod in bound(pods):
        used[pod["spec"]["nodeName"]] = used.get(pod["spec"]["nodeName"], 0) + cpu_of(pod)
    assert all(amount <= cpus for amount in used.values()), used


def cpus_allocated(lab):
    """{node: CPUs that Slurm has given away}"""
    out = {}
    for record in lab.slurm.run("scontrol", "show", "node").split("\n\n"):
        node = parse_show(record.strip("\n"))
        if node:
            out[node["NodeName"]] = int(node["CPUAlloc"])
    return out


def wait_free(lab, deadline=60):
    wait_for(lambda: not any(cpus_allocated(lab).values()) and not lab.held(), deadline, "the nodes are free")


def occupy(lab, node):
    """A native job that takes all of one node, once it runs."""
    job = lab.slurm.sbatch("-w", node, "--exclusive")
    wait_state(lab, job, "RUNNING")
    return job


def events_on(lab, owner):
    """(reason, message) of the events about an object that is no pod."""
    meta = owner["metadata"]
    path = f"/api/v1/namespaces/{meta['namespace']}/events?fieldSelector=involvedObject.uid%3D{meta['uid']}"
    return [(event["reason"], event["message"]) for event in lab.kube.get(path)["items"]]


def annotate_owner(lab, owner, **annotations):
    """Changes annotations by their full names; None takes one away."""
    lab.kube.patch(lab.owner_path(owner), {"metadata": {"annotations": annotations}})


def kill_pod(lab, pod):
    """Its container dies, as by a fault of its own."""
    for pid in lab.processes(pod):
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: lab.phase(pod) in ("Failed", None), what="the pod has failed")

