"""A job's end that can be seen coming: time limits, preemption with and without grace, services that must not be cut off together."""

import contextlib
import os

from gangs import create_job, live_pods, running_gang, template, wait_all_gone, wait_gang_job, wait_running
from handover import NativeJob
from lab import holds_for, wait_for
from witness import asking, audit, jobs_of, keep, let_go, running_pod, wait_state, wait_unschedulable, warnings, writes

HERE = os.path.dirname(os.path.abspath(__file__))
LAB = ["--nodes", "2", "--gpus", "2", "--dbd", "--slurm-conf", HERE + "/choices.conf", "--berth-yaml", HERE + "/choices.yaml"]
ENDING = "berth.dev/Ending"
WARN = "berth.dev/warn"


def ending(lab, pod):
    """(status, reason, message) of the condition that speaks of the end; empty strings without it."""
    condition = lab.condition(pod, ENDING)
    return tuple(condition.get(key, "") for key in ("status", "reason", "message"))


def wait_ending(lab, pod, status, reason, deadline=60):
    wait_for(lambda: ending(lab, pod)[:2] == (status, reason), deadline, f"{ENDING} is {status} for {reason}", 0.1)
    return ending(lab, pod)[2]


def events_of(lab, pod, reason):
    return [message for each, message in warnings(lab, pod) if each == reason]


# --- time limits

def test_pod_is_warned_once_before_its_time_limit(lab):
    pod, job = running_pod(lab, annotations={**asking(timelimit="10m"), WARN: "595s"})
    message = wait_ending(lab, pod, "True", "SlurmTimeLimit")
    end = lab.slurm.job(job)["EndTime"].replace("T", " ")
    assert f"Slurm job {job}" in message and "TimeLimit=" in message and "UTC" in message and end[:16] in message, (message, end)
    wait_for(lambda: events_of(lab, pod, "SlurmTimeLimit"), what="an event says it, too")
    before = len(writes(lab, pod))
    holds_for(lambda: ending(lab, pod)[0] == "True", 6, "the warning stays", 0.5)
    assert events_of(lab, pod, "SlurmTimeLimit") == [message] and len(writes(lab, pod)) == before
    assert lab.phase(pod) == "Running"


def test_extension_takes_the_warning_back_and_moves_it(lab):
    pod, job = running_pod(lab, annotations={**asking(timelimit="10m"), WARN: "598s"})
    wait_ending(lab, pod, "True", "SlurmTimeLimit")
    lab.slurm.update(f"JobId={job}", "TimeLimit=+60")
    message = wait_ending(lab, pod, "False", "SlurmTimeLimit")
    assert f"Slurm job {job} runs on until" in message
    lab.slurm.update(f"JobId={job}", "TimeLimit=10")
    wait_ending(lab, pod, "True", "SlurmTimeLimit")
    wait_for(lambda: len(events_of(lab, pod, "SlurmTimeLimit")) == 2, what="another event speaks of the new end")


def test_short_job_is_warned_half_way_and_ends_in_time(lab):
    pod, job = running_pod(lab, pod=keep(lab.pod(annotations={**asking(partition="short", timelimit="1"), WARN: "10m"}, grace=1)))
    assert ending(lab, pod)[0] == "", "its first half is not over"
    lab.slurm.update(f"JobId={job}", "EndTime=now+5")
    wait_ending(lab, pod, "True", "SlurmTimeLimit", 60)
    wait_for(lambda: lab.get(pod)["metadata"].get("deletionTimestamp"), 120, "the time limit ends it", 0.2)
    wait_state(lab, job, "TIMEOUT", deadline=60)
    let_go(lab, pod)


def test_no_warning_where_its_author_wants_none(lab):
    pod, _ = running_pod(lab, annotations={**asking(timelimit="2m"), WARN: "0"})
    other, _ = running_pod(lab, annotations={**asking(timelimit="2m"), WARN: "119s"})
    wait_ending(lab, other, "True", "SlurmTimeLimit")
    assert ending(lab, pod)[0] == "" and not warnings(lab, pod)


def test_bad_warning_time_is_named(lab):
    pod = lab.create(annotations={WARN: "soon"})
    wait_unschedulable(lab, pod, WARN, '"soon"', "5m")


def test_restarted_controller_does_not_warn_again(lab):
    pod, _ = running_pod(lab, annotations={**asking(timelimit="10m"), WARN: "598s"})
    message = wait_ending(lab, pod, "True", "SlurmTimeLimit")
    wait_for(lambda: events_of(lab, pod, "SlurmTimeLimit"), what="an event")
    version = lab.get(pod)["metadata"]["resourceVersion"]
    lab.daemon("restart", "berthd:controller")
    other = lab.create(run_for="0s")
    lab.wait_phase(other, "Succeeded", 60)
    holds_for(lambda: lab.get(pod)["metadata"]["resourceVersion"] == version, 6, "the pod is not written again", 0.3)
    assert events_of(lab, pod, "SlurmTimeLimit") == [message]


def test_whole_gang_is_warned(lab):
    gang = create_job(lab, 2, annotations={**asking(timelimit="10m"), WARN: "598s"})
    pods, _ = running_gang(lab, gang, 2)
    for pod in pods:
        wait_ending(lab, pod, "True", "SlurmTimeLimit")


def test_over_time_limit_keeps_the_pod_past_its_end(lab):
    lab.slurm.update("PartitionName=short", "OverTimeLimit=10")
    try:
        pod, job = running_pod(lab, annotations=asking(partition="short", timelimit="1"))
        lab.slurm.update(f"JobId={job}", "EndTime=now+1")
        wait_ending(lab, pod, "True", "SlurmTimeLimit", 60)
        # slurmctld looks at time limits every 30 seconds
        holds_for(lambda: lab.phase(pod) == "Running" and lab.slurm.job_state(job) == "RUNNING", 33, "the pod runs on", 0.5)
    finally:
        lab.slurm.update("PartitionName=short", "OverTimeLimit=0")


# --- preemption

def preempt(lab, nodes, *options):
    """A native job that needs these nodes at once."""
    return lab.slurm.sbatch("-p", "urgent", "-w", nodes, "--exclusive", *options)


def test_preempted_pod_goes_at_once_without_grace(lab):
    pod, job = running_pod(lab, pod=keep(lab.pod(grace=2)))
    native = preempt(lab, pod["spec"]["nodeName"])
    wait_for(lambda: lab.condition(pod, "DisruptionTarget").get("reason") == "SlurmPreempted", 60, "DisruptionTarget names Slurm")
    wait_state(lab, job, "PREEMPTED", deadline=60)
    let_go(lab, pod)
    lab.wait_gone(pod)
    wait_state(lab, native, "RUNNING", deadline=60)


def test_native_job_waits_for_the_pod_that_it_preempts(lab):
    pod, job = running_pod(lab, die_after="2500ms")
    native = NativeJob(lab, pod, partition="urgent")
    native.verify()
    wait_state(lab, job, "PREEMPTED")
    lab.wait_gone(pod)


def test_requeue_mode_cancels_a_pods_job(lab):
    lab.slurm.update("PartitionName=second", "PreemptMode=REQUEUE")
    try:
        pod, job = running_pod(lab, grace=1, annotations=asking(partition="second"))
        native = preempt(lab, pod["spec"]["nodeName"])
        lab.wait_gone(pod, 60)
        wait_state(lab, job, "PREEMPTED", deadline=60)
        assert len(jobs_of(lab, pod)) == 1
        wait_state(lab, native, "RUNNING", deadline=60)
    finally:
        lab.slurm.update("PartitionName=second", "PreemptMode=CANCEL")


def test_preempted_pod_is_warned_and_gone_when_the_grace_is_over(lab):
    pod, job = running_pod(lab, pod=keep(lab.pod(grace=3, annotations=asking(partition="spot"))))
    native = preempt(lab, pod["spec"]["nodeName"])
    message = wait_ending(lab, pod, "True", "SlurmPreempted")
    assert f"Slurm job {job} is preempted" in message and "UTC" in message
    wait_for(lambda: lab.condition(pod, "DisruptionTarget").get("reason") == "SlurmPreempted", what="DisruptionTarget names Slurm")
    assert lab.processes(pod), "it has the grace to save its work"
    wait_for(lambda: lab.get(pod)["metadata"].get("deletionTimestamp"), 60, "it is stopped before the end", 0.1)
    assert lab.slurm.job_state(job) == "RUNNING", "inside Slurm's grace"
    wait_for(lambda: events_of(lab, pod, "SlurmPreempted") == [message], what="an event says it, too")
    wait_for(lambda: not lab.processes(pod), what="its processes are gone")
    let_go(lab, pod)
    wait_state(lab, native, "RUNNING", deadline=90)
    wait_state(lab, job, "PREEMPTED", deadline=60)


def test_preempted_gang_goes_together_and_comes_again(lab):
    gang = create_job(lab, 2, cpu=8, memory="15Gi", grace=3, annotations=asking(partition="spot"))
    pods, job = running_gang(lab, gang, 2)
    native = preempt(lab, "n1")  # needs one of its two nodes
    for pod in pods:
        wait_ending(lab, pod, "True", "SlurmPreempted")
    wait_all_gone(lab, pods, 90)
    wait_state(lab, native, "RUNNING", deadline=90)
    wait_state(lab, int(job["JobId"]), "PREEMPTED", deadline=60)
    second = wait_gang_job(lab, gang, "PENDING", deadline=60)
    assert second["JobId"] != job["JobId"]
    holds_for(lambda: not [p for p in live_pods(lab, gang) if p["spec"].get("nodeName")], 2, "nobody runs without the others", 0.2)
    lab.slurm.scancel(native)
    _, now = running_gang(lab, gang, 2, 90)
    assert now["JobId"] == second["JobId"]


def test_replacement_of_a_preempted_pod_queues_again(lab):
    owner = create_job(lab, 1, gang=False, cpu=8, memory="15Gi", grace=1, annotations=asking(partition="second"))
    pod, = wait_running(lab, owner, 1)
    native = preempt(lab, "n[1-2]")
    wait_all_gone(lab, [pod], 60)
    wait_state(lab, lab.job_id(pod) or int(jobs_of(lab, pod)[0]["JobId"]), "PREEMPTED", deadline=60)
    replacement = wait_for(lambda: live_pods(lab, owner), 60, "the Job makes another pod")[0]
    wait_unschedulable(lab, replacement, "job", deadline=60)
    wait_state(lab, native, "RUNNING", deadline=60)
    lab.slurm.scancel(native)
    lab.wait_phase(replacement, "Running", 90)


@contextlib.contextmanager
def qos_preemption(lab):
    """slurmctld with preemption by QOS, as long as the block runs."""
    path = lab.env["SLURM_CONF"]
    with open(path, encoding="utf-8") as file:
        text = file.read()

    def restart_with(words):
        with open(path, "w", encoding="utf-8") as file:
            file.write(words)
        lab.daemon("restart", "slurmctld")
        wait_for(lambda: set(lab.slurm.nodes().values()) == {"idle"}, 60, "slurmctld is back", 0.1)
    try:
        restart_with(text.replace("preempt/partition_prio", "preempt/qos"))
        yield
    finally:
        for user in ("lab_alice", "lab_bob"):
            lab.slurm.run("scancel", "-u", user, check=False)
        wait_for(lambda: not lab.slurm.jobs(), 60, "no job is left", 0.1)
        restart_with(text)


def test_preemption_by_qos(lab):
    with qos_preemption(lab):
        pod, job = running_pod(lab, grace=1, annotations=asking(qos="low"))
        native = lab.slurm.sbatch("-w", pod["spec"]["nodeName"], "--exclusive", "--qos=high", user="lab_bob")
        lab.wait_gone(pod, 60)
        wait_state(lab, job, "PREEMPTED", deadline=60)
        wait_state(lab, native, "RUNNING", deadline=60)
        lab.slurm.scancel(native)


# --- services

def replica_set(lab, count, **words):
    """A ReplicaSet, as a Deployment makes one."""
    name = "web-" + os.urandom(3).hex()
    words = {"restart": "Always", "grace": 1, **words}
    body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name, "namespace": "default"},
            "spec": {"replicas": count, "selector": {"matchLabels": {"app": name}}, "template": template(lab, {"app": name}, **words)}}
    return lab.create_owner(body)


def replicas(lab, owner):
    name = owner["metadata"]["name"]
    return [pod for pod in lab.kube.get(f"/api/v1/namespaces/default/pods?labelSelector=app%3D{name}")["items"]]


def serving(lab, owner):
    return [pod for pod in replicas(lab, owner)
            if pod["status"]["phase"] == "Running" and not pod["metadata"].get("deletionTimestamp")]


def test_service_is_renewed_while_the_partition_allows_it(lab):
    owner = replica_set(lab, 1, annotations={**asking(timelimit="1"), WARN: "50s"})
    pod, = wait_for(lambda: serving(lab, owner), 60, "it runs")
    job = lab.job_id(pod)
    wait_for(lambda: lab.slurm.job(job)["TimeLimit"] == "00:02:00", 60, "its limit is extended by the limit it began with", 0.2)
    assert ending(lab, pod)[0] == "" and not warnings(lab, pod)
    assert [p["metadata"]["uid"] for p in serving(lab, owner)] == [pod["metadata"]["uid"]]


def test_service_at_its_limit_is_replaced_one_by_one(lab):
    owner = replica_set(lab, 3, annotations={**asking(partition="short", timelimit="1"), WARN: "50s"})
    wait_for(lambda: len(serving(lab, owner)) == 3, 60, "all serve", 0.1)
    first = {pod["metadata"]["uid"]: pod for pod in serving(lab, owner)}
    least = 3

    def all_new():
        nonlocal least
        now = serving(lab, owner)
        least = min(least, len(now))
        return len(now) == 3 and not first.keys() & {pod["metadata"]["uid"] for pod in now}
    wait_for(all_new, 110, "all have been replaced", 0.1)
    assert least >= 2, f"only {least} of 3 served at one time"
    for uid in first:
        evictions = [w for w in audit(lab) if w["resource"] == "pods/eviction" and w["name"] == first[uid]["metadata"]["name"]]
        assert [w["code"] for w in evictions] == [201], evictions
        wait_state(lab, jobs_of(lab, first[uid])[0]["JobId"], "CANCELLED")  # not cut off by the limit


def test_disruption_budget_is_honoured(lab):
    owner = replica_set(lab, 1, annotations={**asking(partition="short", timelimit="1"), WARN: "40s"})
    pod, = wait_for(lambda: serving(lab, owner), 60, "it runs")
    name = owner["metadata"]["name"]
    version = "policy/v1" if lab.kube_minor >= 21 else "policy/v1beta1"
    budgets = f"/apis/{version}/namespaces/default/poddisruptionbudgets"
    lab.kube.post(budgets, {"apiVersion": version, "kind": "PodDisruptionBudget", "metadata": {"name": name},
                            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}}})

    def evictions():
        return [w["code"] for w in audit(lab) if w["resource"] == "pods/eviction" and w["name"] == pod["metadata"]["name"]]
    try:
        wait_for(lambda: 429 in evictions(), 60, "the budget forbids it", 0.2)
        assert lab.phase(pod) == "Running" and 201 not in evictions()
    finally:
        lab.kube.delete(f"{budgets}/{name}")
    wait_for(lambda: 201 in evictions(), 60, "it is tried again", 0.2)
    wait_for(lambda: [p for p in serving(lab, owner) if p["metadata"]["uid"] != pod["metadata"]["uid"]], 60, "another one serves")
