"""Gangs wait whole, start whole and end whole; and what becomes of them when one of their pods goes."""

import os

from gangs import (annotate_owner, annotation, bound, by_slot, check_no_node_is_oversubscribed, cpus_allocated, create_group, create_job,
                   job_object, jobs_of_owner, jobset_object, join_group, kill_pod, live_pods, lws_object, occupy, on_nodes, pods_of,
                   running_gang, uids, wait_all_gone, wait_free, wait_gang_job, wait_pods, wait_running)
from lab import JOB_ID, holds_for, wait_for
from standins import Standins
from witness import asking, bindings, fill, jobs_of, wait_state, wait_unschedulable, warnings

HERE = os.path.dirname(os.path.abspath(__file__))
LAB = ["--nodes", "3", "--slurm-conf", HERE + "/gang.conf", "--berth-yaml", HERE + "/gang.yaml"]
WHOLE = {"cpu": 8}  # a pod that takes all of a node


def waiting_gang(lab, owner, count):
    """(pods, job record) of a gang whose job waits."""
    pods = wait_pods(lab, owner, count)
    return pods, wait_gang_job(lab, owner, "PENDING")


def once_each(lab, pods):
    counts = bindings(lab)
    assert all(counts.get(uid) == 1 for uid in uids(pods)), [(uid, counts.get(uid)) for uid in uids(pods)]


# --- whole

def test_gang_waits_whole_and_starts_whole(lab):
    native = occupy(lab, "n1")
    gang = create_job(lab, 3, **WHOLE)
    pods, job = waiting_gang(lab, gang, 3)
    assert job["NumTasks"] == "3" and job["JobName"] == gang["metadata"]["name"]
    holds_for(lambda: not bound(pods_of(lab, gang)), 3, "two nodes are free, and nothing is bound")
    lab.slurm.scancel(native)
    started, record = running_gang(lab, gang, 3)
    assert uids(started) == uids(pods) and record["JobId"] == job["JobId"] and on_nodes(started) == {"n1": 1, "n2": 1, "n3": 1}
    assert len(jobs_of_owner(lab, gang)) == 1
    once_each(lab, pods)


def test_waiting_gang_is_told_the_job_and_slurms_reason(lab):
    fill(lab)
    gang = create_job(lab, 2)
    pods, job = waiting_gang(lab, gang, 2)
    for pod in pods:
        wait_unschedulable(lab, pod, f"job {job['JobId']}", "pending")


def test_gang_short_of_pods_is_not_submitted(lab):
    group = create_group(lab, 3)
    first = join_group(lab, group, 2)
    wait_for(lambda: "2 of 3" in lab.condition(first[0], "PodScheduled").get("message", ""), what="it is told how many are there")
    assert not jobs_of_owner(lab, group) and not any(jobs_of(lab, pod) for pod in first)
    join_group(lab, group, 1)
    running_gang(lab, group, 3)


def test_scancel_takes_all_pods_of_a_gang(lab):
    group = create_group(lab, 3)
    pods = join_group(lab, group, 3, **WHOLE)
    _, job = running_gang(lab, group, 3)
    lab.slurm.scancel(job["JobId"], user="lab_alice")
    wait_all_gone(lab, pods)
    wait_free(lab)
    wait_state(lab, job["JobId"], "CANCELLED")
    assert len(jobs_of_owner(lab, group)) == 1


def test_scancel_of_a_waiting_gang_takes_all_its_pods(lab):
    fill(lab)
    group = create_group(lab, 2)
    pods = join_group(lab, group, 2)
    _, job = waiting_gang(lab, group, 2)
    lab.slurm.scancel(job["JobId"])
    wait_all_gone(lab, pods)
    assert len(jobs_of_owner(lab, group)) == 1 and not uids(pods) & set(bindings(lab))


def test_cancelled_gang_of_a_job_comes_again_as_a_new_gang(lab):
    gang = create_job(lab, 3)
    old, job = running_gang(lab, gang, 3)
    lab.slurm.scancel(job["JobId"])
    wait_all_gone(lab, old)
    new = wait_gang_job(lab, gang, "RUNNING")
    assert int(new["JobId"]) > int(job["JobId"])
    pods, _ = running_gang(lab, gang, 3)
    assert not uids(pods) & uids(old)


def test_node_that_goes_down_takes_the_whole_gang(lab):
    group = create_group(lab, 3)
    pods = join_group(lab, group, 3, **WHOLE)
    _, job = running_gang(lab, group, 3)
    lab.slurm.update("NodeName=n2", "State=DOWN", "Reason=test")
    try:
        wait_all_gone(lab, pods)
        wait_state(lab, job["JobId"], "NODE_FAIL")
    finally:
        lab.slurm.resume("n2")
    wait_free(lab)


# --- one of its pods goes

def test_member_deleted_while_the_gang_waits_keeps_job_and_place(lab):
    native = fill(lab)
    gang = create_job(lab, 3, **WHOLE)
    pods, job = waiting_gang(lab, gang, 3)
    behind = lab.slurm.sbatch("--exclusive", "--nodes=3", wrap="true")
    lab.delete(pods[1], grace=0)
    lab.wait_gone(pods[1])
    wait_pods(lab, gang, 3)
    holds_for(lambda: [j["JobId"] for j in jobs_of_owner(lab, gang)] == [job["JobId"]], 2, "it has the same job")
    lab.slurm.scancel(native)
    started, record = running_gang(lab, gang, 3)
    assert record["JobId"] == job["JobId"] and record["SubmitTime"] == job["SubmitTime"]
    assert pods[1]["metadata"]["uid"] not in uids(started) | set(bindings(lab))
    assert lab.slurm.job_state(behind) == "PENDING", "it did not lose its place"


def test_pod_that_fails_while_the_gang_runs_is_retried_in_its_slot(lab):
    gang = create_job(lab, 3, **WHOLE)
    pods, job = running_gang(lab, gang, 3)
    victim = by_slot(pods)["0.1"]
    kill_pod(lab, victim)
    again = wait_running(lab, gang, 3)
    fresh, = [pod for pod in again if pod["metadata"]["uid"] not in uids(pods)]
    assert annotation(fresh, "berth.dev/slot") == "0.1" and annotation(fresh, JOB_ID) == job["JobId"]
    assert fresh["spec"]["nodeName"] == victim["spec"]["nodeName"]
    assert lab.slurm.job_state(job["JobId"]) == "RUNNING" and len(jobs_of_owner(lab, gang)) == 1


def test_pod_deleted_while_the_gang_runs_is_replaced_in_its_slot(lab):
    gang = create_job(lab, 4, cpu=4, die_after="1s")
    pods, job = running_gang(lab, gang, 4)
    victim = by_slot(pods)["0.2"]
    lab.delete(victim)
    wait_pods(lab, gang, 4)
    holds_for(lambda: not lab.processes(victim) or len(bound(live_pods(lab, gang))) == 3, 1, "the old one goes first")
    again, _ = running_gang(lab, gang, 4)
    fresh, = [pod for pod in again if pod["metadata"]["uid"] not in uids(pods)]
    assert annotation(fresh, "berth.dev/slot") == "0.2" and fresh["spec"]["nodeName"] == victim["spec"]["nodeName"]
    assert len(jobs_of_owner(lab, gang)) == 1
    del job


# --- its end

def test_gang_that_succeeds_completes_its_job(lab):
    gang = create_job(lab, 3, run_for="1s")
    job = wait_gang_job(lab, gang, "COMPLETED", deadline=60)
    assert job["ExitCode"] == "0:0" and job["NumTasks"] == "3"
    wait_free(lab)
    assert len(jobs_of_owner(lab, gang)) == 1


def test_gang_that_fails_completes_its_job_with_the_exit_code(lab):
    gang = create_job(lab, 2, run_for="1s", exit_code=3, backoff=0)
    job = wait_gang_job(lab, gang, "FAILED", deadline=60)
    assert job["ExitCode"] == "3:0"
    wait_free(lab)
    assert len(jobs_of_owner(lab, gang)) == 1


def test_deleted_job_cancels_its_waiting_gang(lab):
    fill(lab)
    gang = create_job(lab, 2)
    pods, job = waiting_gang(lab, gang, 2)
    lab.delete_owner(gang)
    wait_all_gone(lab, pods, 90)  # Kubernetes' garbage collector takes its time
    wait_state(lab, job["JobId"], "CANCELLED")
    assert not uids(pods) & set(bindings(lab))


def test_deleted_job_cancels_its_running_gang_and_frees_the_nodes(lab):
    gang = create_job(lab, 3, **WHOLE)
    pods, job = running_gang(lab, gang, 3)
    lab.delete_owner(gang)
    wait_all_gone(lab, pods, 90)
    wait_state(lab, job["JobId"], "CANCELLED")
    wait_free(lab)


def test_suspended_jobset_has_no_job_and_gives_its_nodes_back(lab):
    gang = {"berth.dev/gang": "true"}
    with Standins(lab):
        jobset = lab.create_owner(jobset_object(lab, {"a": (2, {"pods": 2})}, annotations=gang, suspend=True))
        holds_for(lambda: not jobs_of_owner(lab, jobset), 2, "nothing is submitted")
        lab.kube.patch(lab.owner_path(jobset), {"spec": {"suspend": False}})
        pods, job = running_gang(lab, jobset, 4)
        lab.kube.patch(lab.owner_path(jobset), {"spec": {"suspend": True}})
        wait_all_gone(lab, pods)
        wait_state(lab, job["JobId"], "CANCELLED")
        wait_free(lab)
        lab.kube.patch(lab.owner_path(jobset), {"spec": {"suspend": False}})
        _, second = running_gang(lab, jobset, 4)
        assert second["JobId"] != job["JobId"]


def test_restarted_jobset_is_a_new_gang(lab):
    with Standins(lab):
        jobset = lab.create_owner(jobset_object(lab, {"a": (1, {"pods": 2, "backoff": 0})}, annotations={"berth.dev/gang": "true"},
                                                failurePolicy={"maxRestarts": 1}))
        pods, job = running_gang(lab, jobset, 2)
        kill_pod(lab, pods[0])
        wait_for(lambda: lab.get_owner(jobset).get("status", {}).get("restarts") == 1, what="the JobSet restarts")
        wait_all_gone(lab, pods)
        again, second = running_gang(lab, jobset, 2)
        assert second["JobId"] != job["JobId"] and not uids(again) & uids(pods)
        wait_for(lambda: lab.slurm.job_state(job["JobId"]) in ("FAILED", "CANCELLED"), 60, "the first gang's job has ended")


# --- shapes and choices

def test_leader_of_another_shape_starts_with_its_workers(lab):
    native = occupy(lab, "n1")
    with Standins(lab):
        # 8 + 3 * 4 CPUs: more than two nodes have.
        lws = lab.create_owner(lws_object(lab, 4, leader={"cpu": 8}, worker={"cpu": 4}))
        wait_pods(lab, lws, 4)
        wait_gang_job(lab, lws, "PENDING")
        holds_for(lambda: not bound(pods_of(lab, lws)), 4, "the leader alone would fit, and does not start")
        lab.slurm.scancel(native)
        pods = wait_running(lab, lws, 4)
        assert sorted(by_slot(pods)) == ["0.0", "1.0", "1.1", "1.2"]
        check_no_node_is_oversubscribed(pods, 8)
        parts = jobs_of_owner(lab, lws)
        assert [(job["NumTasks"], job["NumCPUs"]) for job in parts] == [("1", "8"), ("3", "12")]
        lab.delete_owner(lws)
        wait_all_gone(lab, pods)
        wait_free(lab)
        for part in parts:
            wait_state(lab, part["JobId"], "CANCELLED")


def test_scancel_of_one_part_takes_the_whole_heterogeneous_gang(lab):
    with Standins(lab):
        lws = lab.create_owner(lws_object(lab, 3, leader={"cpu": 4}, worker={"cpu": 1}))
        pods = wait_running(lab, lws, 3)
        parts = jobs_of_owner(lab, lws)
        lab.slurm.scancel(parts[1]["JobId"])
        wait_all_gone(lab, pods)
        again = wait_running(lab, lws, 3)
        assert not uids(again) & uids(pods)


def test_several_pods_of_a_gang_share_a_node_with_a_native_job(lab):
    native = lab.slurm.sbatch("-w", "n1", "--ntasks=6", "--mem=64")
    wait_state(lab, native, "RUNNING")
    gang = create_job(lab, 18, cpu=1)  # all that is left
    pods, job = running_gang(lab, gang, 18)
    assert on_nodes(pods) == {"n1": 2, "n2": 8, "n3": 8} and job["NumCPUs"] == "18"
    assert lab.slurm.job_state(native) == "RUNNING"


def test_exclusive_gang_takes_whole_nodes(lab):
    gang = create_job(lab, 2, annotations={**asking(exclusive="true"), "berth.dev/spread": "1"})
    pods, _ = running_gang(lab, gang, 2)
    nodes = on_nodes(pods)
    assert len(nodes) == 2 and all(cpus_allocated(lab)[node] == 8 for node in nodes)
    small = lab.slurm.sbatch("-w", next(iter(nodes)), "--mem=64", wrap="true")
    holds_for(lambda: lab.slurm.job_state(small) == "PENDING", 2, "nobody else is on its nodes")


def test_dependency_on_another_job_is_slurms(lab):
    first = create_job(lab, 2, run_for="3s")
    leader = wait_gang_job(lab, first)
    second = create_job(lab, 2, run_for="0s", annotations={"berth.dev/dependency": "afterok:Job/" + first["metadata"]["name"]})
    job = wait_gang_job(lab, second, "PENDING")
    assert f"afterok:{leader['JobId']}" in job["Dependency"]
    wait_gang_job(lab, second, "COMPLETED", deadline=60)
    ended, began = (lab.slurm.job(j["JobId"]) for j in (leader, job))
    assert ended["JobState"] == "COMPLETED" and began["StartTime"] >= ended["EndTime"]


def test_dependency_waits_for_a_workload_that_is_not_there_yet(lab):
    second = create_job(lab, 1, run_for="0s", annotations={"berth.dev/dependency": "afterany:Job/comes-later"})
    pod, = wait_pods(lab, second, 1)
    wait_unschedulable(lab, pod, "berth.dev/dependency", "comes-later")
    create_job(lab, 1, name="comes-later", run_for="0s")
    wait_gang_job(lab, second, "COMPLETED", deadline=60)


def test_priority_class_becomes_nice(lab):
    lab.unless_gone(lambda: lab.kube.post("/apis/scheduling.k8s.io/v1/priorityclasses", {
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "lazy"}, "value": 10}))
    job = job_object(lab, 2)
    job["spec"]["template"]["spec"]["priorityClassName"] = "lazy"
    _, record = running_gang(lab, lab.create_owner(job), 2)
    assert record["Nice"] == "300"


def test_gang_that_can_never_fit_is_told_so_at_once(lab):
    gang = create_job(lab, 4, **WHOLE)  # there are three nodes
    pods = wait_pods(lab, gang, 4)
    # 22.05 queues such a job.
    words = ("Slurm job", "cannot start as it is") if lab.slurm.version() < (24, 11) else ("Slurm refuses the job", "node configuration")
    for pod in pods:
        message = wait_unschedulable(lab, pod, *words)
        wait_for(lambda: warnings(lab, pod), what="the pod gets an event")
        assert ("FailedScheduling", message) in warnings(lab, pod)
    holds_for(lambda: not bound(pods_of(lab, gang)), 1, "nothing is bound")


def test_bad_annotation_of_the_job_is_named_and_can_be_mended(lab):
    gang = create_job(lab, 2, annotations=asking(timelimit="soon"))
    pods = wait_pods(lab, gang, 2)
    for pod in pods:
        message = wait_unschedulable(lab, pod, "slurmjob.slinky.slurm.net/timelimit", '"soon"', "90s")
        wait_for(lambda: warnings(lab, pod), what="the pod gets an event")
        assert warnings(lab, pod) == [("FailedScheduling", message)]
    assert not jobs_of_owner(lab, gang)
    annotate_owner(lab, gang, **asking(timelimit="5m"))
    started, job = running_gang(lab, gang, 2)
    assert uids(started) == uids(pods) and job["TimeLimit"] == "00:05:00"


# --- the controller dies

def test_controller_killed_while_a_gang_waits_submits_nothing_twice(lab):
    native = fill(lab)
    gang = create_job(lab, 3, **WHOLE)
    _, job = waiting_gang(lab, gang, 3)
    for _ in range(2):
        lab.daemon("kill", "berthd:controller")
        lab.daemon("start", "berthd:controller")
        marker = lab.create(cpu=8)
        wait_for(lambda: jobs_of(lab, marker), what="the new controller is at work")
        lab.delete(marker, grace=0)
    assert [j["JobId"] for j in jobs_of_owner(lab, gang)] == [job["JobId"]]
    lab.slurm.scancel(native)
    _, record = running_gang(lab, gang, 3)
    assert record["JobId"] == job["JobId"] and len(jobs_of_owner(lab, gang)) == 1


def test_controller_killed_while_a_gang_is_half_bound_submits_nothing_twice(lab):
    lab.daemon("pause", "berthd:n3")
    gang = create_job(lab, 3, **WHOLE)
    wait_for(lambda: len(bound(pods_of(lab, gang))) == 2, what="two of three are bound")
    job = wait_gang_job(lab, gang, "RUNNING")
    lab.daemon("kill", "berthd:controller")
    lab.daemon("start", "berthd:controller")
    marker = lab.create(cpu=8)
    wait_for(lambda: jobs_of(lab, marker), what="the new controller is at work")
    lab.daemon("resume", "berthd:n3")
    pods, record = running_gang(lab, gang, 3)
    assert record["JobId"] == job["JobId"] and len(jobs_of_owner(lab, gang)) == 1
    once_each(lab, pods)


def test_gang_that_ended_while_the_controller_was_away_is_completed(lab):
    gang = create_job(lab, 3, run_for="2s")
    _, job = running_gang(lab, gang, 3)
    lab.daemon("kill", "berthd:controller")
    wait_for(lambda: all(pod["status"]["phase"] == "Succeeded" for pod in pods_of(lab, gang)), what="all pods succeed")
    lab.daemon("start", "berthd:controller")
    assert wait_gang_job(lab, gang, "COMPLETED", deadline=60)["ExitCode"] == "0:0"
    wait_free(lab)
    assert lab.slurm.job_state(job["JobId"]) == "COMPLETED"


def test_node_agent_killed_while_a_gang_starts_binds_its_pods_once(lab):
    lab.daemon("kill", "berthd:n2")
    gang = create_job(lab, 6, cpu=4)
    wait_for(lambda: len(bound(pods_of(lab, gang))) == 4, what="the others are bound")
    lab.daemon("start", "berthd:n2")
    pods, _ = running_gang(lab, gang, 6)
    by_slot(pods)
    once_each(lab, pods)
