"""What Slurm and the API server remember of a pod: for tests that count. Berth is not asked."""

import json
import re

from kube import TEST_AGENT
from lab import wait_for
from slurm import parse_show

ASK = "slurmjob.slinky.slurm.net/"  # what a pod's author asks of Slurm
NODE = "slinky.slurm.net/slurm-node"
NONCE = "berth.dev/nonce"


def placeholders(lab):
    """All placeholders that slurmctld remembers, ended ones included: pod uid -> `scontrol show job` records, oldest first."""
    out = {}
    for record in lab.slurm.run("scontrol", "show", "job").split("\n\n"):
        job = parse_show(record.strip("\n"))
        if job.get("AdminComment", "").startswith('{"berth"'):
            out.setdefault(json.loads(job["AdminComment"])["uid"], []).append(job)
    return out


def jobs_of(lab, pod):
    return placeholders(lab).get(pod["metadata"]["uid"], [])


def wait_job(lab, pod, deadline=60):
    """The pod's placeholder, once there is one."""
    return wait_for(lambda: jobs_of(lab, pod), deadline, f"pod {pod['metadata']['name']} has a job")[0]


def wait_state(lab, job, *states, deadline=60):
    """The job's record, once it is in one of these states; None: slurmctld does not know it any more."""
    wait_for(lambda: lab.slurm.job_state(job) in states, deadline, f"job {job} is {' or '.join(map(str, states))}")
    return lab.slurm.job(job)


def audit(lab):
    """The API server's own record of what Berth's identities wrote: dicts with user, verb, resource ("pods/binding"), namespace,
    name, uid (of the pod, where the request says it), code, agent (the controllers' User-Agent names which of them it is), and at (when it
    was asked, as ISO 8601). Without the controllers' lease, which is written all the time, and without what a test asked in their name."""
    out = []
    with open(f"{lab.dir}/kubernetes/audit.log", encoding="utf-8") as file:
        for line in file:
            if not line.endswith("\n"):
                break  # being written
            entry = json.loads(line)
            ref = entry.get("objectRef", {})
            if ref.get("resource") == "leases" or entry.get("userAgent") == TEST_AGENT:
                continue
            out.append({"user": entry["user"]["username"], "verb": entry["verb"],
                        "resource": "/".join(filter(None, (ref.get("resource"), ref.get("subresource")))),
                        "namespace": ref.get("namespace"), "name": ref.get("name"), "uid": ref.get("uid"),
                        "code": entry["responseStatus"]["code"], "agent": entry.get("userAgent"),
                        "at": entry["requestReceivedTimestamp"]})
    return out


def writes(lab, pod):
    """Berth's writes to objects of this pod's name, as (user, verb, resource, code). Events have names of their own."""
    where = (pod["metadata"]["namespace"], pod["metadata"]["name"])
    return [(w["user"], w["verb"], w["resource"], w["code"]) for w in audit(lab) if (w["namespace"], w["name"]) == where]


def bindings(lab):
    """Pod uid -> how often the server accepted a Binding for it."""
    out = {}
    for entry in audit(lab):
        if entry["resource"] == "pods/binding" and entry["code"] == 201:
            out[entry["uid"]] = out.get(entry["uid"], 0) + 1
    return out


def pod_reads(lab):
    """GETs of single pods that the API server has answered."""
    found = re.findall(r'^apiserver_request_total\{(.*?)\} (\S+)$', lab.kube.get("/metrics"), re.M)
    return sum(int(float(count)) for labels, count in found if 'resource="pods"' in labels and 'verb="GET"' in labels)


def warnings(lab, pod):
    """(reason, message) of Berth's events that are no good news. Kubelets have warnings of their own."""
    return [(e["reason"], e["message"]) for e in lab.events(pod)
            if e["type"] != "Normal" and e.get("reportingComponent", "").startswith("berth")]


def scheduled(lab, pod):
    """(status, reason, message) of the condition PodScheduled; empty strings without it."""
    condition = lab.condition(pod, "PodScheduled")
    return tuple(condition.get(key, "") for key in ("status", "reason", "message"))


def wait_unschedulable(lab, pod, *words, deadline=60):
    """The message of PodScheduled, once it is False and Unschedulable and has these words."""
    def told():
        status, reason, message = scheduled(lab, pod)
        return status == "False" and reason == "Unschedulable" and all(word in message for word in words) and message
    try:
        return wait_for(told, deadline)
    except AssertionError:
        raise AssertionError(f"pod {pod['metadata']['name']} is not told of {words}, but {scheduled(lab, pod)}") from None


def fill(lab, *options):
    """A native job that takes all of the partition, once it runs."""
    job = lab.slurm.sbatch(f"--nodes={len(lab.nodes)}", "--exclusive", *options)
    wait_state(lab, job, "RUNNING")
    return job


def waiting_pod(lab, **words):
    """A pod for which there is no room, and its job."""
    fill(lab)
    pod = lab.create(**words)
    job = int(wait_job(lab, pod)["JobId"])
    assert lab.slurm.job_state(job) == "PENDING"
    return pod, job


def running_pod(lab, **words):
    """A pod that runs, and its job."""
    pod = lab.create(**words)
    pod = lab.wait_phase(pod, "Running", 60)
    return pod, lab.job_id(pod)


def keep(pod):
    """A finalizer keeps a deleted pod's object, so that its last conditions can be read; let_go() removes it."""
    pod["metadata"]["finalizers"] = ["test.berth.dev/keep"]
    return pod


def let_go(lab, pod):
    if lab.get(pod):
        lab.kube.patch(lab.path(pod), {"metadata": {"finalizers": None}})


def annotate(lab, pod, **asked):
    """Changes what the pod asks of Slurm; None takes an annotation away."""
    lab.kube.patch(lab.path(pod), {"metadata": {"annotations": {ASK + key.replace("_", "-"): value for key, value in asked.items()}}})


def asking(**asked):
    """Annotations for lab.pod(): asking(timelimit="5m")."""
    return {ASK + key.replace("_", "-"): str(value) for key, value in asked.items()}
