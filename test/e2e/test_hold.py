"""Ends that Slurm decides: the room stays the pod's until its processes are gone, also where Slurm forgets it."""

import os
import random
import threading
import time

import forgotten
from handover import LIMIT, MAX_GRACE, SHORT_HOLD, NativeJob, Observer, completing, settled
from lab import Skip, holds_for, wait_for
from witness import bindings, placeholders, running_pod

LAB = SHORT_HOLD


# --- Slurm's barrier: the epilog

def test_native_job_waits_for_a_cancelled_pod_that_dies_slowly(lab):
    pod, job = running_pod(lab, die_after="2500ms")
    native = NativeJob(lab, pod)
    lab.slurm.scancel(job)
    holds_for(lambda: completing(lab, pod) and lab.processes(pod) and not native.started(), 1.5, "the node is COMPLETING")
    native.verify()
    settled(lab)


def test_native_job_waits_for_a_pod_past_its_time_limit(lab):
    pod, job = running_pod(lab, die_after="2500ms")
    native = NativeJob(lab, pod)
    lab.slurm.update(f"JobId={job}", "EndTime=now")
    wait_for(lambda: lab.slurm.job_state(job) != "RUNNING", 60, "the time limit is enforced, every half minute")
    holds_for(lambda: completing(lab, pod) and not native.started(), 1, "the node is COMPLETING")
    native.verify()
    assert lab.slurm.job_state(job) == "TIMEOUT"
    settled(lab)


def test_pod_that_starts_late_is_held_as_well(lab):
    pod = lab.create(start_delay="1500ms")
    lab.wait_bound(pod)
    lab.slurm.scancel(lab.job_id(pod))
    lab.wait_gone(pod)
    settled(lab)
    assert not lab.cgroups(pod)


def test_neighbour_of_a_held_pod_runs_on(lab):
    pod, job = running_pod(lab, die_after="1s", cpu=2)
    neighbour, its_job = running_pod(lab, cpu=2)
    assert neighbour["spec"]["nodeName"] == pod["spec"]["nodeName"]
    before = lab.processes(neighbour)
    lab.slurm.scancel(job)
    lab.wait_gone(pod)
    wait_for(lambda: not completing(lab, pod), what="the hold is over")
    assert lab.processes(neighbour) == before and lab.slurm.job_state(its_job) == "RUNNING"


def test_longer_grace_is_cut_when_slurm_ends_the_job(lab):
    pod, job = running_pod(lab, ignore_term=True, grace=600)
    native = NativeJob(lab, pod)
    began = time.monotonic()
    lab.slurm.scancel(job)
    wait_for(lambda: lab.get(pod)["metadata"].get("deletionTimestamp"), what="the pod is deleted")
    assert lab.get(pod)["metadata"]["deletionGracePeriodSeconds"] == MAX_GRACE
    holds_for(lambda: lab.processes(pod), MAX_GRACE - 1 - (time.monotonic() - began), "it has its grace")
    native.verify()
    settled(lab)


def test_shorter_grace_counts(lab):
    pod, job = running_pod(lab, ignore_term=True, grace=1)
    lab.slurm.scancel(job)
    wait_for(lambda: lab.get(pod)["metadata"].get("deletionTimestamp"), what="the pod is deleted")
    assert lab.get(pod)["metadata"]["deletionGracePeriodSeconds"] == 1
    settled(lab)


def test_pod_that_outlives_the_hold_is_killed_and_the_node_not_drained(lab):
    pod, job = running_pod(lab, stuck=True, grace=600)
    native = NativeJob(lab, pod)
    began = time.monotonic()
    lab.slurm.scancel(job)
    holds_for(lambda: lab.processes(pod), LIMIT - 1, "its kubelet does nothing")
    native.verify()
    assert time.monotonic() - began >= LIMIT
    settled(lab)
    assert "Reason" not in lab.slurm.node(native.node)


def test_pod_that_cannot_be_killed_drains_the_node_by_name(lab):
    if not os.path.isdir("/sys/fs/cgroup/freezer"):
        raise Skip("needs the freezer of cgroup v1")
    pod, job = running_pod(lab, unkillable=True)
    node = pod["spec"]["nodeName"]
    native = NativeJob(lab, pod)
    lab.slurm.scancel(job)
    wait_for(lambda: "drain" in lab.slurm.nodes()[node], 60, "the node is drained")
    reason = lab.slurm.node(node)["Reason"]
    assert f"default/{pod['metadata']['name']}" in reason and str(job) in reason, reason
    # A hasty admin: the second barrier stands.
    wait_for(lambda: lab.slurm.job_state(job) == "CANCELLED", what="the epilog returns")
    lab.slurm.resume(node)
    holds_for(lambda: not native.started() and lab.processes(pod), 2, "nothing starts beside it")
    lab.release_unkillable()
    native.verify()
    settled(lab)


def test_drained_node_settles_after_the_pod_is_removed_and_the_node_resumed(lab):
    if not os.path.isdir("/sys/fs/cgroup/freezer"):
        raise Skip("needs the freezer of cgroup v1")
    pod, job = running_pod(lab, unkillable=True)
    node = pod["spec"]["nodeName"]
    lab.slurm.scancel(job)
    wait_for(lambda: lab.slurm.nodes()[node] == "drained", 60, "the node is drained")
    assert lab.held(node)
    lab.release_unkillable()
    wait_for(lambda: not lab.held(node), what="the record goes by itself")
    lab.slurm.resume(node)
    settled(lab)


def test_pod_that_ends_by_itself_or_by_its_user_makes_no_hold(lab):
    ends = [running_pod(lab, run_for="1500ms")[0] for _ in range(4)]
    deleted, _ = running_pod(lab, die_after="2s")
    lab.delete(deleted)
    began, worst = {}, 0

    def over():
        nonlocal worst
        for node, state in lab.slurm.nodes().items():
            if "completing" in state:
                worst = max(worst, time.monotonic() - began.setdefault(node, time.monotonic()))
            else:
                began.pop(node, None)
        return not lab.slurm.jobs()
    wait_for(over, 60, "all have ended")
    assert worst < 1.5, f"a node was COMPLETING for {worst:.1f} s"
    assert all(lab.phase(pod) == "Succeeded" for pod in ends)


# --- our barrier, where Slurm forgets

def test_node_set_down_and_resumed_during_a_hold_takes_no_batch_job(lab):
    forgotten.node_set_down_and_resumed(lab)


def test_node_set_down_and_resumed_during_a_hold_takes_no_srun(lab):
    forgotten.node_set_down_and_resumed(lab, srun=True)


def test_slurmd_killed_during_a_hold(lab):
    forgotten.slurmd_killed(lab)


def test_slurmctld_restarted_during_a_hold(lab):
    pod, job = running_pod(lab, **forgotten.SLOW)
    native = NativeJob(lab, pod)
    forgotten.wait_hold(lab, pod, job)
    lab.daemon("restart", "slurmctld")
    native.verify()
    settled(lab)


def test_slurmctld_killed_during_a_hold(lab):
    mark = forgotten.just_saved(lab)  # else it may remember native jobs of old as running
    pod, job = running_pod(lab, **forgotten.SLOW)
    forgotten.wait_hold(lab, pod, job)
    forgotten.restart_slurmctld(lab)
    lab.slurm.scancel(mark)
    NativeJob(lab, pod).verify()
    settled(lab)


def test_lost_jobs_id_reused_by_a_batch_job(lab):
    forgotten.job_lost_and_its_id_reused(lab, srun=False)


def test_lost_jobs_id_reused_by_an_srun(lab):
    forgotten.job_lost_and_its_id_reused(lab, srun=True)


def test_foreign_jobs_end_leaves_the_neighbour_alone(lab):
    forgotten.job_lost_beside_another_pod(lab)


def test_lost_jobs_id_reused_by_another_pod(lab):
    forgotten.job_lost_and_its_id_given_to_another_pod(lab)


def test_pods_own_end_leaves_a_foreign_job_with_its_id_alone(lab):
    forgotten.job_lost_and_its_id_runs_elsewhere(lab)


# --- cancel against bind

def test_cancels_at_random_instants_never_leave_a_pod_without_its_job(lab):
    random_instant = random.Random(20)
    pods, lock, before = [], threading.Lock(), bindings(lab)
    observer = Observer(lab)

    def one(delay):
        pod = lab.create(cpu="250m", memory="16Mi")
        with lock:
            pods.append(pod)
        name = f"default/{pod['metadata']['name']}"
        until = time.monotonic() + delay
        while lab.get(pod):  # a cancel that comes before the submission finds nothing
            wait_for(lambda: time.monotonic() >= until, interval=0.001)
            lab.slurm.run("scancel", "-Q", "-n", name, check=False)
            until = time.monotonic() + 0.2 + delay

    def several(delays):
        for delay in delays:
            one(delay)

    threads = [threading.Thread(target=several, args=([random_instant.uniform(0, 0.1) for _ in range(12)],)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    settled(lab)
    observer.verify()
    assert len(pods) == 48 and not lab.pods()
    jobs, bound = placeholders(lab), bindings(lab)
    for pod in pods:
        uid = pod["metadata"]["uid"]
        assert [job["JobState"] for job in jobs.get(uid, [])] in ([], ["CANCELLED"]), jobs[uid]
        assert bound.get(uid, 0) - before.get(uid, 0) <= 1
        assert not lab.cgroups(pod)
    print(f"        {sum(pod['metadata']['uid'] in bound for pod in pods)} of {len(pods)} were bound first")
