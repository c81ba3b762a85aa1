"""A pod's way out: by itself, by its user, by Slurm. Either way the room is given away only when its processes are gone."""

import time

from lab import holds_for, wait_for
from witness import jobs_of, keep, let_go, placeholders, running_pod, wait_job, wait_state, waiting_pod, warnings, writes

QUEUE_STATES = ("PENDING", "RUNNING", "SUSPENDED", "COMPLETING")


def ended(lab, pod):
    """The record of the pod's one job, once it has ended and its nodes are free."""
    job = int(jobs_of(lab, pod)[0]["JobId"])
    wait_for(lambda: lab.slurm.job_state(job) not in QUEUE_STATES, what=f"job {job} ends")
    return lab.slurm.job(job)


def quiet(lab):
    return not lab.slurm.jobs() and not lab.held() and set(lab.slurm.nodes().values()) == {"idle"}


# --- by itself

def test_pod_that_succeeds_completes_its_job(lab):
    pod = lab.wait_phase(lab.create(run_for="200ms"), "Succeeded")
    job = ended(lab, pod)
    assert (job["JobState"], job["ExitCode"]) == ("COMPLETED", "0:0")
    wait_for(lambda: quiet(lab), what="nothing is left of it")
    assert lab.phase(pod) == "Succeeded", "the pod's object is its owner's"
    assert not warnings(lab, pod)


def test_pod_that_fails_gives_its_job_the_exit_code(lab):
    for code in (3, 1, 255):
        pod = lab.wait_phase(lab.create(run_for="100ms", exit_code=code), "Failed")
        job = ended(lab, pod)
        assert (job["JobState"], job["ExitCode"]) == ("FAILED", f"{code}:0")
        assert lab.phase(pod) == "Failed" and not warnings(lab, pod)


def test_pod_killed_for_its_memory_shows_signal_9(lab):
    pod = lab.wait_phase(lab.create(run_for="100ms", oom=True), "Failed")
    job = ended(lab, pod)
    assert (job["JobState"], job["ExitCode"]) == ("FAILED", "0:9")


def test_exit_code_survives_a_restart_of_the_nodes_agent(lab):
    pod, job = running_pod(lab, run_for="1s", exit_code=3)
    agent = "berthd:" + pod["spec"]["nodeName"]
    lab.daemon("kill", agent)
    lab.wait_phase(pod, "Failed")
    holds_for(lambda: lab.slurm.job_state(job) == "RUNNING", 0.5, "nobody ends the job while the agent is away")
    lab.daemon("start", agent)
    wait_state(lab, job, "FAILED")
    assert lab.slurm.job(job)["ExitCode"] == "3:0"


def test_exit_code_needs_no_controller(lab):
    pod, job = running_pod(lab, run_for="500ms", exit_code=3)
    lab.daemon("kill", "berthd:controller")
    wait_state(lab, job, "FAILED")
    assert lab.slurm.job(job)["ExitCode"] == "3:0"
    lab.daemon("start", "berthd:controller")
    wait_for(lambda: quiet(lab), what="nothing is left")
    assert len(jobs_of(lab, pod)) == 1


def test_restarted_container_keeps_its_place(lab):
    pod, job = running_pod(lab, run_for="200ms", restart="Always")
    wait_for(lambda: lab.get(pod)["status"]["containerStatuses"][0]["restartCount"] >= 2, what="it is restarted twice")
    assert lab.slurm.job_state(job) == "RUNNING" and len(jobs_of(lab, pod)) == 1


# --- by its user

def test_pod_deleted_while_it_waits_cancels_its_job(lab):
    pod, job = waiting_pod(lab)
    lab.delete(pod)
    lab.wait_gone(pod)
    wait_state(lab, job, "CANCELLED")
    assert job not in [j["id"] for j in lab.slurm.jobs()]
    assert not warnings(lab, pod)


def test_pod_deleted_while_it_runs_keeps_its_job_until_its_processes_are_gone(lab):
    pod, job = running_pod(lab, die_after="2s")
    lab.delete(pod)
    holds_for(lambda: lab.slurm.job_state(job) == "RUNNING" and lab.processes(pod), 1, "the pod takes its time")
    wait_for(lambda: lab.slurm.job_state(job) != "RUNNING", what="the job ends")
    assert not lab.processes(pod)
    wait_state(lab, job, "CANCELLED")
    lab.wait_gone(pod)
    wait_for(lambda: quiet(lab), what="nothing is left")


def test_pod_deleted_by_its_user_is_not_told_that_slurm_did_it(lab):
    pod, _ = running_pod(lab)
    lab.delete(pod)
    lab.wait_gone(pod)
    wait_for(lambda: quiet(lab), what="nothing is left")
    other, _ = running_pod(lab, run_for="1s")  # whatever was to be told has been told by now
    lab.wait_phase(other, "Succeeded")
    assert not warnings(lab, pod)


def test_pod_deleted_by_force_keeps_its_room_until_its_processes_are_gone(lab):
    pod, job = running_pod(lab, ignore_term=True, cpu=8)
    node = pod["spec"]["nodeName"]
    native = lab.slurm.sbatch("-w", node, "--exclusive")
    lab.delete(pod, grace=0)
    lab.wait_gone(pod)
    wait_for(lambda: lab.slurm.job_state(native) == "RUNNING", what="the native job starts")
    assert not lab.processes(pod)
    assert lab.slurm.job_state(job) == "CANCELLED"


# --- by Slurm

def test_scancel_of_a_waiting_pods_job_deletes_the_pod_and_says_so(lab):
    pod = keep(lab.pod())
    pod, job = waiting_pod(lab, pod=pod)
    try:
        lab.slurm.scancel(job)
        wait_for(lambda: lab.get(pod)["metadata"].get("deletionTimestamp"), what="the pod is deleted")
        told = lab.condition(pod, "DisruptionTarget")
        assert told["status"] == "True" and told["reason"] == "SlurmCancelled"
        assert str(job) in told["message"] and "CANCELLED" in told["message"]
        wait_for(lambda: ("SlurmCancelled", told["message"]) in warnings(lab, pod), what="the pod gets an event")
        assert not any(resource == "pods/binding" for _, _, resource, _ in writes(lab, pod))
    finally:
        let_go(lab, pod)
    lab.wait_gone(pod)
    assert len(jobs_of(lab, pod)) == 1, "cancelled stays cancelled"


def test_scancel_while_the_controller_is_away_is_told_when_it_returns(lab):
    pod, job = waiting_pod(lab)
    lab.daemon("kill", "berthd:controller")
    lab.slurm.scancel(job)
    wait_state(lab, job, "CANCELLED")
    lab.daemon("start", "berthd:controller")
    lab.wait_gone(pod)
    wait_for(lambda: [reason for reason, _ in warnings(lab, pod)] == ["SlurmCancelled"], what="the pod gets an event")
    assert len(jobs_of(lab, pod)) == 1


def ended_by_slurm(lab, pod, job, state, reason, deadline=60):
    """The pod is deleted at once and told why, and the node stays COMPLETING until its processes are gone."""
    wait_for(lambda: lab.get(pod)["metadata"].get("deletionTimestamp"), deadline, "the pod is deleted")
    told = wait_for(lambda: lab.condition(pod, "DisruptionTarget"), what="the pod gets a condition")
    assert (told["status"], told["reason"]) == ("True", reason)
    assert str(job) in told["message"] and state in told["message"]
    wait_for(lambda: (reason, told["message"]) in warnings(lab, pod), what="the pod gets an event")
    wait_for(lambda: lab.slurm.job_state(job) == state, what=f"job {job} is {state} and through")
    assert not lab.processes(pod)


def test_scancel_of_a_running_pods_job_deletes_the_pod_and_says_why(lab):
    pod, job = running_pod(lab, pod=keep(lab.pod(die_after="2s")))
    try:
        lab.slurm.scancel(job)
        wait_for(lambda: lab.get(pod)["metadata"].get("deletionTimestamp"), what="the pod is deleted")
        assert lab.processes(pod), "it was told at once, and it takes its time"
        assert lab.slurm.job_state(job) == "COMPLETING"
        ended_by_slurm(lab, pod, job, "CANCELLED", "SlurmCancelled")
    finally:
        let_go(lab, pod)
    lab.wait_gone(pod)


def test_native_job_starts_only_after_the_cancelled_pods_processes_are_gone(lab):
    pod, job = running_pod(lab, die_after="3s")
    node = pod["spec"]["nodeName"]
    native = lab.slurm.sbatch("-w", node, "--exclusive")
    lab.slurm.scancel(job)
    holds_for(lambda: lab.slurm.job_state(native) == "PENDING" and lab.processes(pod), 2, "the pod dies slowly")
    assert "completing" in lab.slurm.nodes()[node]
    wait_for(lambda: lab.slurm.job_state(native) == "RUNNING", what="the native job starts")
    assert not lab.processes(pod)
    lab.wait_gone(pod)


def test_time_limit_ends_the_pod_as_a_timeout(lab):
    pod, job = running_pod(lab, pod=keep(lab.pod(die_after="1s")))
    try:
        lab.slurm.update(f"JobId={job}", "EndTime=now")
        # slurmctld looks at time limits every 30 seconds
        ended_by_slurm(lab, pod, job, "TIMEOUT", "SlurmTimeout", deadline=60)
    finally:
        let_go(lab, pod)
    lab.wait_gone(pod)


def test_pods_grace_is_bounded_when_slurm_ends_the_job(lab):
    pod, job = running_pod(lab, die_after="1s", grace=3600)
    lab.slurm.scancel(job)
    wait_for(lambda: lab.get(pod)["metadata"].get("deletionTimestamp"), what="the pod is deleted")
    assert lab.get(pod)["metadata"]["deletionGracePeriodSeconds"] <= 20, "hold.max_grace"
    lab.wait_gone(pod)


def test_pod_cancelled_before_it_starts_never_runs(lab):
    pod = lab.create(start_delay="600s")
    job = lab.wait_bound(pod) and lab.job_id(pod)
    lab.slurm.scancel(job)
    lab.wait_gone(pod)
    wait_state(lab, job, "CANCELLED")
    assert not lab.cgroups(pod)


def test_cancel_racing_with_bind_leaves_nothing_behind(lab):
    """Cancels at moments spread over the whole way from submission to a running pod; whichever wins, nothing is left."""
    pods = []
    for step in range(20):
        pod = lab.create()
        pods.append(pod)
        job = int(wait_job(lab, pod)["JobId"])
        until = time.monotonic() + step * 0.01
        wait_for(lambda until=until: time.monotonic() >= until, interval=0.001)
        lab.slurm.scancel(job)
    for pod in pods:
        lab.wait_gone(pod, 60)
    wait_for(lambda: quiet(lab), 60, "nothing is left")
    known = placeholders(lab)
    for pod in pods:
        job, = known[pod["metadata"]["uid"]]
        assert job["JobState"] == "CANCELLED"
        assert not lab.cgroups(pod)


def test_delete_racing_with_bind_leaves_nothing_behind(lab):
    pods = []
    for step in range(20):
        pod = lab.create()
        pods.append(pod)
        until = time.monotonic() + step * 0.01
        wait_for(lambda until=until: time.monotonic() >= until, interval=0.001)
        lab.delete(pod)
    for pod in pods:
        lab.wait_gone(pod, 60)
    wait_for(lambda: quiet(lab), 60, "nothing is left")
    known = placeholders(lab)
    for pod in pods:
        jobs = known.get(pod["metadata"]["uid"], [])
        assert len(jobs) <= 1 and all(job["JobState"] == "CANCELLED" for job in jobs)
        assert not lab.cgroups(pod)
