"""scontrol suspend and resume: Slurm gives a suspended job's CPUs to others, so its pods' processes stand still. What runs is told by the
kernel: a pod with `beat` leaves a trace of its work."""

import os

from gangs import create_group, create_job, join_group, jobs_of_owner, on_nodes, running_gang, wait_all_gone, wait_gang_job, wait_running
from handover import wait_prolog
from lab import holds_for, wait_for
from test_pod_end import ended, quiet
from witness import running_pod, wait_job, wait_state, warnings

HERE = os.path.dirname(os.path.abspath(__file__))
LAB = ["--nodes", "3", "--slurm-conf", HERE + "/gang.conf", "--berth-yaml", HERE + "/gang.yaml"]
CONDITION = "berth.dev/Suspended"


# --- tools of these tests

def beats(lab, pod):
    """How much the pod has worked. Its process may be a moment younger than the kubelet's report of it."""
    record = f"{lab.dir}/hollow/{pod['metadata']['uid']}.beat"
    return os.path.getsize(record) if os.path.exists(record) else 0


def freezer(lab, pod):
    """The pod's freezer.state, of cgroup v1, or what v2 says in its place."""
    for directory in lab.cgroups(pod):
        for file in ("freezer.state", "cgroup.freeze"):
            if os.path.exists(f"{directory}/{file}"):
                with open(f"{directory}/{file}", encoding="ascii") as state:
                    return {"1": "FROZEN", "0": "THAWED"}.get(word := state.read().strip(), word)
    return None


def works(lab, pod, deadline=30):
    before = beats(lab, pod)
    wait_for(lambda: beats(lab, pod) > before + 3, deadline, f"pod {pod['metadata']['name']} works")


def wait_frozen(lab, *pods, deadline=30):
    for pod in pods:
        wait_for(lambda: freezer(lab, pod) == "FROZEN", deadline, f"pod {pod['metadata']['name']} is frozen")
    worked = [beats(lab, pod) for pod in pods]
    holds_for(lambda: [beats(lab, pod) for pod in pods] == worked, 0.5, "frozen pods do nothing")


def wait_thawed(lab, *pods, deadline=30):
    for pod in pods:
        works(lab, pod, deadline)
        assert freezer(lab, pod) == "THAWED"


def suspend(lab, job):
    lab.slurm.run("scontrol", "suspend", job)


def resume(lab, job):
    lab.slurm.run("scontrol", "resume", job)


def told(lab, pod):
    condition = lab.condition(pod, CONDITION)
    return condition.get("status"), condition.get("reason")


def wait_told(lab, pod, *words, deadline=30):
    wait_for(lambda: told(lab, pod) == words, deadline, f"pod {pod['metadata']['name']} is told {words}")


def reasons(lab, pod):
    return [event["reason"] for event in lab.events(pod) if event["reason"] in ("SlurmSuspended", "SlurmResumed")]


def suspended_pod(lab, **words):
    """A pod that stands still, and its job."""
    pod, job = running_pod(lab, beat=True, **words)
    works(lab, pod)
    suspend(lab, job)
    wait_frozen(lab, pod)
    return pod, job


# --- one pod

def test_suspended_jobs_pod_stands_still_and_goes_on_when_it_is_resumed(lab):
    pod, job = suspended_pod(lab)
    wait_told(lab, pod, "True", "SlurmSuspended")
    message = lab.condition(pod, CONDITION)["message"]
    assert f"job {job} " in message and f"scontrol resume {job}" in message
    resume(lab, job)
    wait_thawed(lab, pod)
    wait_told(lab, pod, "False", "SlurmResumed")
    suspend(lab, job)
    wait_frozen(lab, pod)
    resume(lab, job)
    wait_thawed(lab, pod)
    wait_for(lambda: len(reasons(lab, pod)) == 4, what="each step is told")
    assert sorted(reasons(lab, pod)) == ["SlurmResumed"] * 2 + ["SlurmSuspended"] * 2
    assert lab.phase(pod) == "Running" and lab.slurm.job_state(job) == "RUNNING"


def test_native_job_gets_the_cores_of_a_frozen_pod(lab):
    pod, job = suspended_pod(lab, cpu=8)
    native = lab.slurm.sbatch("-w", pod["spec"]["nodeName"], "--ntasks=1", "--cpus-per-task=8", "--mem=64")
    wait_state(lab, native, "RUNNING")
    assert freezer(lab, pod) == "FROZEN" and lab.slurm.job_state(job) == "SUSPENDED"
    lab.slurm.scancel(native)
    wait_for(lambda: native not in [j["id"] for j in lab.slurm.jobs()], what="the native job is over")
    resume(lab, job)
    wait_thawed(lab, pod)


def test_pod_ends_as_always_after_it_was_resumed(lab):
    pod, job = suspended_pod(lab, run_for="15s", exit_code=3)
    resume(lab, job)
    lab.wait_phase(pod, "Failed")
    assert ended(lab, pod)["ExitCode"] == "3:0"


# --- the end of a suspended pod

def test_scancel_of_a_suspended_job_ends_its_pod(lab):
    pod, job = suspended_pod(lab)
    lab.slurm.scancel(job)
    lab.wait_gone(pod)
    wait_state(lab, job, "CANCELLED")
    assert not lab.processes(pod)
    wait_for(lambda: "SlurmCancelled" in [reason for reason, _ in warnings(lab, pod)], what="its author is told")


def test_suspended_pod_that_is_deleted_gets_its_grace(lab):
    pod, job = suspended_pod(lab, die_after="500ms")
    before = beats(lab, pod)
    lab.delete(pod)
    wait_for(lambda: lab.get(pod) is None or beats(lab, pod) > before, what="it runs again, to end")
    lab.wait_gone(pod)
    wait_state(lab, job, "CANCELLED")
    wait_for(lambda: quiet(lab), what="nothing is left")


def test_suspended_pod_that_is_deleted_by_force_ends(lab):
    pod, job = suspended_pod(lab, ignore_term=True)
    lab.delete(pod, grace=0)
    lab.wait_gone(pod)
    wait_state(lab, job, "CANCELLED")
    wait_for(lambda: quiet(lab) and not lab.processes(pod), what="nothing is left")


def test_pod_that_fails_while_its_job_is_suspended_ends_the_job(lab):
    pod, job = suspended_pod(lab)
    lab.kube.patch(lab.path(pod, "/status"), {"status": {"phase": "Failed"}})  # as a kubelet does that evicts it
    wait_state(lab, job, "FAILED", "COMPLETING", deadline=60)
    lab.delete(pod, grace=1)
    lab.wait_gone(pod)
    wait_for(lambda: quiet(lab), what="nothing is left")


# --- agents that come and go

def test_nodes_agent_that_restarts_leaves_a_frozen_pod_frozen(lab):
    pod, job = suspended_pod(lab)
    agent = "berthd:" + pod["spec"]["nodeName"]
    lab.daemon("kill", agent)
    starts = lab.log(agent).count("is served")
    lab.daemon("start", agent)
    wait_for(lambda: lab.log(agent).count("is served") > starts, what="the new agent is there")
    holds_for(lambda: freezer(lab, pod) == "FROZEN", 1, "the pod stays frozen")
    resume(lab, job)
    wait_thawed(lab, pod)


def test_job_suspended_or_resumed_while_the_nodes_agent_is_away(lab):
    pod, job = running_pod(lab, beat=True)
    agent = "berthd:" + pod["spec"]["nodeName"]
    lab.daemon("kill", agent)
    suspend(lab, job)
    wait_told(lab, pod, "True", "SlurmSuspended")
    lab.daemon("start", agent)
    wait_frozen(lab, pod)
    lab.daemon("kill", agent)
    resume(lab, job)
    wait_told(lab, pod, "False", "SlurmResumed")
    assert freezer(lab, pod) == "FROZEN"
    lab.daemon("start", agent)
    wait_thawed(lab, pod)


def test_suspended_job_cancelled_while_the_nodes_agent_is_away(lab):
    pod, job = suspended_pod(lab)
    agent = "berthd:" + pod["spec"]["nodeName"]
    lab.daemon("kill", agent)
    lab.slurm.scancel(job)
    wait_state(lab, job, "COMPLETING", "CANCELLED")
    lab.daemon("start", agent)
    lab.wait_gone(pod)
    wait_for(lambda: quiet(lab), what="nothing is left")


def test_job_suspended_while_the_controller_is_away(lab):
    pod, job = running_pod(lab, beat=True)
    lab.daemon("kill", "berthd:controller")
    suspend(lab, job)
    wait_frozen(lab, pod)  # its node finds out by itself, only later
    lab.daemon("start", "berthd:controller")
    wait_told(lab, pod, "True", "SlurmSuspended")
    lab.daemon("kill", "berthd:controller")
    resume(lab, job)
    wait_thawed(lab, pod)
    lab.daemon("start", "berthd:controller")
    wait_told(lab, pod, "False", "SlurmResumed")
    wait_for(lambda: sorted(reasons(lab, pod)) == ["SlurmResumed", "SlurmSuspended"], what="each is told once")


def test_condition_alone_freezes_nothing(lab):
    pod, job = running_pod(lab, beat=True)
    lab.daemon("pause", "berthd:controller")
    forged = {"type": CONDITION, "status": "True", "reason": "Forged", "message": "by somebody who may write the status of pods"}
    lab.kube.patch(lab.path(pod, "/status"), {"status": {"conditions": [forged]}}, "application/strategic-merge-patch+json")
    holds_for(lambda: freezer(lab, pod) == "THAWED", 1, "slurmctld is asked")
    works(lab, pod)
    lab.daemon("resume", "berthd:controller")
    wait_told(lab, pod, "False", "SlurmResumed")
    assert lab.slurm.job_state(job) == "RUNNING"


# --- before the pod is bound

def test_nothing_is_bound_for_a_suspended_job(lab):
    lab.daemon("stop", *[f"berthd:{node}" for node in lab.nodes])
    pod = lab.create()
    job = int(wait_job(lab, pod)["JobId"])
    wait_state(lab, job, "RUNNING")
    wait_for(lambda: lab.slurm.job(job)["Reason"] != "Prolog", what="its prolog is done")
    suspend(lab, job)
    lab.daemon("start", *[f"berthd:{node}" for node in lab.nodes])
    wait_for(lambda: "SlurmSuspended" in [reason for reason, _ in warnings(lab, pod)], what="the pod is told")
    assert not lab.get(pod)["spec"].get("nodeName")
    resume(lab, job)
    lab.wait_bound(pod)
    assert lab.job_id(pod) == job


def test_pod_whose_processes_start_late_is_frozen_then(lab):
    pod = lab.create(beat=True, start_delay="3s")
    lab.wait_bound(pod)
    wait_prolog(lab, lab.job_id(pod))
    suspend(lab, lab.job_id(pod))
    wait_told(lab, pod, "True", "SlurmSuspended")
    wait_frozen(lab, pod)
    resume(lab, lab.job_id(pod))
    wait_thawed(lab, pod)


# --- gangs

def test_gang_stands_still_on_all_its_nodes(lab):
    owner = create_job(lab, pods=2, cpu=5, beat=True)
    pods, record = running_gang(lab, owner, 2)
    assert len(on_nodes(pods)) == 2
    suspend(lab, record["JobId"])
    wait_frozen(lab, *pods)
    for pod in pods:
        wait_told(lab, pod, "True", "SlurmSuspended")
    resume(lab, record["JobId"])
    wait_thawed(lab, *pods)
    suspend(lab, record["JobId"])
    wait_frozen(lab, *pods)
    lab.delete_owner(owner)
    wait_all_gone(lab, pods)


def test_gang_of_several_shapes_stands_still_and_is_cancelled(lab):
    group = create_group(lab, 2)
    pods = join_group(lab, group, 1, cpu=2, beat=True) + join_group(lab, group, 1, cpu=1, beat=True)
    pods = wait_running(lab, group, 2, 60)
    job = min(lab.job_id(pod) for pod in pods)
    suspend(lab, job)
    wait_frozen(lab, *pods)
    resume(lab, job)
    wait_thawed(lab, *pods)
    suspend(lab, job)
    wait_frozen(lab, *pods)
    lab.slurm.scancel(job)
    wait_all_gone(lab, pods)


def test_slurmctld_restarted_with_waiting_running_and_suspended_gangs(lab):
    """One that runs, one that stands still, one of several shapes that runs and one that waits: all go on as they were."""
    runs = create_group(lab, 2)
    join_group(lab, runs, 2, cpu=1, beat=True)
    stands = create_group(lab, 2)
    join_group(lab, stands, 2, cpu=1, beat=True)
    shapes = create_group(lab, 2)
    join_group(lab, shapes, 1, cpu=1, beat=True)
    join_group(lab, shapes, 1, cpu=2, beat=True)
    gangs = {"runs": runs, "stands": stands, "shapes": shapes}
    pods, jobs = {}, {}
    for name, group in gangs.items():
        pods[name] = wait_running(lab, group, 2)
        jobs[name] = [int(job["JobId"]) for job in jobs_of_owner(lab, group)]
    assert len(jobs["shapes"]) == 2
    waits = [create_group(lab, 3), create_group(lab, 2)]
    join_group(lab, waits[0], 3, cpu=8, run_for="200ms")
    join_group(lab, waits[1], 1, cpu=8, run_for="200ms")  # of two shapes
    join_group(lab, waits[1], 1, cpu=8, memory="96Mi", run_for="200ms")
    waiting = [int(job["JobId"]) for group in waits for job in (wait_gang_job(lab, group, "PENDING"), *jobs_of_owner(lab, group)[1:])]
    suspend(lab, jobs["stands"][0])
    wait_frozen(lab, *pods["stands"])
    before = {pod["metadata"]["uid"]: lab.processes(pod) for each in pods.values() for pod in each}

    lab.daemon("restart", "slurmctld")
    wait_for(lambda: all(lab.slurm.job_state(job) == "PENDING" for job in waiting), 60, "slurmctld remembers those that wait")
    assert lab.slurm.job_state(jobs["stands"][0]) == "SUSPENDED"
    assert {lab.slurm.job_state(job) for name in ("runs", "shapes") for job in jobs[name]} == {"RUNNING"}
    for pod in (*pods["runs"], *pods["shapes"]):
        works(lab, pod)
    wait_frozen(lab, *pods["stands"])
    assert {pod["metadata"]["uid"]: lab.processes(pod) for each in pods.values() for pod in each} == before

    resume(lab, jobs["stands"][0])
    wait_thawed(lab, *pods["stands"])
    for name in gangs:
        lab.slurm.scancel(jobs[name][0])
    for group in waits:
        wait_gang_job(lab, group, "COMPLETED", deadline=90)
    wait_all_gone(lab, [pod for each in pods.values() for pod in each])
    assert [len(jobs_of_owner(lab, group)) for group in (*gangs.values(), *waits)] == [1, 1, 2, 1, 2], "nothing is submitted twice"


test_slurmctld_restarted_with_waiting_running_and_suspended_gangs.timeout = 300
