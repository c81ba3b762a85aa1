"""What Kubernetes and its users do to a pod besides deleting it, and what becomes of its job."""

from gangs import create_job, job_object, live_pods, wait_pods, wait_running
from kube import ApiError
from lab import holds_for, wait_for
from test_pod_end import ended, quiet
from witness import fill, jobs_of, keep, let_go, running_pod, wait_job, wait_state, warnings


# --- tools of these tests

def evict(lab, pod):
    """As `kubectl drain` does. Servers before 1.22 know the older name awaiting."""
    body = {"kind": "Eviction", "metadata": {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]}}
    try:
        lab.kube.post(lab.path(pod, "/eviction"), {"apiVersion": "policy/v1", **body})
    except ApiError:
        lab.kube.post(lab.path(pod, "/eviction"), {"apiVersion": "policy/v1beta1", **body})


# --- scaling

def test_job_that_is_scaled_gains_and_loses_placeholders(lab):
    job = lab.create_owner(job_object(lab, 3, gang=False))
    for count in (3, 1, 2):
        lab.kube.patch(lab.owner_path(job), {"spec": {"parallelism": count}})
        names = {f"default/{pod['metadata']['name']}" for pod in wait_running(lab, job, count)}
        wait_for(lambda: {one["name"] for one in lab.slurm.jobs()} == names, 60, f"the {count} pods that run have jobs, and nobody else")


# --- eviction

def test_evicted_pods_job_ends_with_it(lab):
    pod, job = running_pod(lab, die_after="1s")
    evict(lab, pod)
    holds_for(lambda: lab.slurm.job_state(job) == "RUNNING" or not lab.processes(pod), 0.5, "the job holds the room while the pod lives")
    lab.wait_gone(pod)
    assert ended(lab, pod)["JobState"] == "CANCELLED"
    assert not warnings(lab, pod), "Slurm did nothing to it"


def test_evicted_pods_owner_gets_another_job(lab):
    owner = create_job(lab, pods=1, gang=False)
    pod = wait_pods(lab, owner, 1)[0]
    lab.wait_phase(pod, "Running")
    evict(lab, pod)
    lab.wait_gone(pod)
    other = wait_for(lambda: [p for p in live_pods(lab, owner) if p["metadata"]["uid"] != pod["metadata"]["uid"]],
                     what="the owner makes another pod")[0]
    lab.wait_phase(other, "Running")
    assert lab.job_id(other) != int(jobs_of(lab, pod)[0]["JobId"])
    assert ended(lab, pod)["JobState"] == "CANCELLED"


# --- restarts in place

def test_container_restarted_after_a_failure_keeps_its_job_until_it_succeeds(lab):
    pod, job = running_pod(lab, run_for="200ms", exit_code=1, restart="OnFailure")
    wait_for(lambda: lab.get(pod)["status"]["containerStatuses"][0]["restartCount"] >= 2, what="it is restarted twice")
    assert lab.slurm.job_state(job) == "RUNNING" and len(jobs_of(lab, pod)) == 1
    good = lab.wait_phase(lab.create(run_for="200ms", restart="OnFailure"), "Succeeded")
    assert ended(lab, good)["JobState"] == "COMPLETED"


# --- finalizers

def test_finalizer_keeps_the_object_and_not_the_room(lab):
    pod = keep(lab.pod())
    try:
        pod = lab.wait_phase(lab.create(pod), "Running")
        lab.delete(pod, grace=1)
        job = ended(lab, pod)
        assert job["JobState"] == "CANCELLED", job
        wait_for(lambda: quiet(lab), what="the node is free")
        assert lab.get(pod) and not lab.processes(pod)
        holds_for(lambda: not lab.slurm.jobs(), 1, "nothing is submitted for what is left of it")
    finally:
        let_go(lab, pod)
    lab.wait_gone(pod)


def test_finalizer_on_a_waiting_pod_keeps_no_place_in_the_queue(lab):
    fill(lab)
    pod = keep(lab.pod())
    try:
        pod = lab.create(pod)
        job = int(wait_job(lab, pod)["JobId"])
        lab.delete(pod)
        wait_state(lab, job, "CANCELLED")
        holds_for(lambda: len(jobs_of(lab, pod)) == 1, 1, "no other job is submitted")
    finally:
        let_go(lab, pod)
    lab.wait_gone(pod)


# --- a kubelet that is dead

def test_pod_stuck_terminating_on_a_dead_kubelet_holds_its_node(lab):
    pod, job = running_pod(lab, cpu=8)
    native = lab.slurm.sbatch("-w", pod["spec"]["nodeName"], "--exclusive")
    lab.daemon("pause", "hollow-kubelet")
    lab.delete(pod, grace=1)
    holds_for(lambda: lab.slurm.job_state(job) == "RUNNING" and lab.slurm.job_state(native) == "PENDING", 3, "its processes live")
    assert lab.processes(pod) and lab.get(pod)["metadata"]["deletionTimestamp"]
    lab.daemon("resume", "hollow-kubelet")
    lab.wait_gone(pod)
    wait_state(lab, native, "RUNNING")
    assert lab.slurm.job_state(job) == "CANCELLED" and not lab.processes(pod)


def test_waiting_pod_bound_to_a_dead_kubelet_ends_when_it_is_deleted_by_force(lab):
    lab.daemon("pause", "hollow-kubelet")
    pod = lab.create()
    lab.wait_bound(pod)
    job = lab.job_id(pod)
    lab.delete(pod, grace=0)
    lab.wait_gone(pod)
    wait_state(lab, job, "CANCELLED")
    lab.daemon("resume", "hollow-kubelet")
    wait_for(lambda: quiet(lab), what="nothing is left")


# --- namespaces

def test_deleted_namespace_ends_running_and_waiting_pods(lab):
    running, job = running_pod(lab, ns="team-b")
    waiting = lab.create(ns="team-b", annotations={"berth.dev/begin": "now+1h"})
    other, other_job = running_pod(lab, ns="team-a")
    queued = int(wait_job(lab, waiting)["JobId"])
    lab.kube.delete("/api/v1/namespaces/team-b")
    try:
        for pod in (running, waiting):
            lab.wait_gone(pod, 60)
        wait_state(lab, job, "CANCELLED")
        wait_state(lab, queued, "CANCELLED")
        assert lab.phase(other) == "Running" and lab.slurm.job_state(other_job) == "RUNNING"
    finally:
        wait_for(lambda: lab.kube.find("/api/v1/namespaces/team-b") is None, 60, "the namespace is gone")
        lab.kube.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-b"}})
        wait_for(lambda: lab.takes_pods("team-b"), 60, "the namespace is there again")
