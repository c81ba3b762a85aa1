"""Ends that Slurm decides: the room stays the pod's until its processes are gone, also where Slurm forgets it."""

import os
import random
import threading
import time

import forgotten
from handover import KILL_WAIT, LIMIT, MAX_GRACE, SHORT_HOLD, NativeJob, Observer, completing, settled
from lab import Skip, holds_for, wait_for
from slurm import CommandError
from witness import bindings, placeholders, running_pod

LAB = SHORT_HOLD


# --- Slurm's barrier: the epilog

def test_native_job_waits_for_a_cancelled_pod_that_dies_slowly(lab):
    pod, job = running_pod(lab, die_after="4500ms")
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


def test_agent_stopped_longer_than_the_hold_still_gives_the_kill_its_time(lab):
    pod, job = running_pod(lab, stuck=True)
    node = pod["spec"]["nodeName"]
    lab.slurm.scancel(job)
    wait_for(lambda: lab.get(pod)["metadata"].get("deletionTimestamp"), what="the hold has begun")
    lab.daemon("pause", f"berthd:{node}")
    try:
        holds_for(lambda: lab.processes(pod), LIMIT + KILL_WAIT + 1, "nobody ends the pod")
    finally:
        lab.daemon("resume", f"berthd:{node}")
    wait_for(lambda: not lab.processes(pod), what="the pod is killed")
    settled(lab)
    assert "Reason" not in lab.slurm.node(node), "a pod that could be killed drains nothing"


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
    """The job is completed when nothing is left of the pod, so its epilog finds nothing to wait for."""
    def epilogs_that_waited():
        return sum(lab.log(f"slurmd:{node}").count(" until pod ") for node in lab.nodes)
    before = epilogs_that_waited()
    ends = [running_pod(lab, run_for="1500ms")[0] for _ in range(4)]
    deleted, _ = running_pod(lab, die_after="2s")
    lab.delete(deleted)
    settled(lab)
    assert epilogs_that_waited() == before
    assert all(lab.phase(pod) == "Succeeded" for pod in ends)
    cancelled, job = running_pod(lab)
    lab.slurm.scancel(job)
    lab.wait_gone(cancelled)
    settled(lab)
    assert epilogs_that_waited() > before, "else the log would not say"


# --- our barrier, where Slurm forgets

def test_node_set_down_and_resumed_during_a_hold_takes_no_batch_job(lab):
    forgotten.node_set_down_and_resumed(lab)


def test_node_set_down_and_resumed_during_a_hold_takes_no_srun(lab):
    forgotten.node_set_down_and_resumed(lab, srun=True)


def test_slurmd_killed_during_a_hold(lab):
    forgotten.slurmd_killed(lab)


def test_slurmd_killed_and_started_again_during_a_hold(lab):
    forgotten.slurmd_killed_and_started(lab)


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


def test_nodes_of_a_gang_set_down_and_resumed_during_its_hold(lab):
    forgotten.gangs_nodes_set_down_and_resumed(lab)


def test_slurmds_of_a_gang_killed_during_its_hold(lab):
    forgotten.gangs_slurmds_killed(lab)


def test_lost_gangs_job_id_reused_by_a_batch_job(lab):
    forgotten.gangs_job_lost_and_its_id_reused(lab)


def test_lost_gangs_job_id_reused_while_the_controller_is_away(lab):
    forgotten.gangs_job_lost_and_its_id_reused(lab, controller_away=True)


# --- a job made smaller

def test_job_cannot_be_shrunk_by_its_owner_or_an_operator(lab):
    pods, job = forgotten.whole_gang(lab)
    for user, sentence in (("lab_alice", "permission denied"), (None, "not supported")):
        try:
            lab.slurm.run("scontrol", "update", f"JobId={job}", "NumNodes=1", user=user)
            raise AssertionError(f"{user or 'root'} may shrink it")
        except CommandError as error:
            assert sentence in error.text, error.text
    assert lab.slurm.job(job)["NumNodes"] == str(len(lab.nodes)) and all(map(lab.processes, pods))


def test_gang_shrunk_where_slurm_allows_it_leaves_the_nodes_it_gave_back(lab):
    forgotten.gang_shrunk(lab)


def test_gang_shrunk_while_slurmd_is_away_leaves_the_nodes_it_gave_back(lab):
    forgotten.gang_shrunk(lab, slurmd_away=True)


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
