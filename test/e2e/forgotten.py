"""The ways in which Slurm forgets that a pod is there, each with a native job behind it: scenarios for labs of several kinds."""

import os
import time

from handover import NativeJob, settled
from lab import holds_for, wait_for
from witness import jobs_of, running_pod, wait_job

SLOW = {"die_after": "4500ms", "grace": 30}


def wait_hold(lab, pod, job):
    """Cancels the job and returns when its epilog waits for the pod."""
    lab.slurm.scancel(job)
    wait_for(lambda: lab.get(pod)["metadata"].get("deletionTimestamp"), what="the pod is deleted")
    assert lab.slurm.job_state(job) == "COMPLETING" and lab.processes(pod)


def node_set_down_and_resumed(lab, srun=False):
    pod, job = running_pod(lab, **SLOW)
    node = pod["spec"]["nodeName"]
    wait_hold(lab, pod, job)
    lab.slurm.update(f"NodeName={node}", "State=DOWN", "Reason=test")
    lab.slurm.resume(node)
    native = NativeJob(lab, pod, srun=srun)
    native.verify()
    settled(lab)


def slurmd_killed(lab):
    pod, job = running_pod(lab, **SLOW)
    node = pod["spec"]["nodeName"]
    wait_hold(lab, pod, job)
    lab.daemon("kill", f"slurmd:{node}")
    lab.daemon("start", f"slurmd:{node}")
    native = NativeJob(lab, pod)
    # slurmctld would tell the new slurmd of the end by and by; this way it lets go at once
    lab.slurm.update(f"NodeName={node}", "State=DOWN", "Reason=test")
    lab.slurm.resume(node)
    native.verify()
    settled(lab)


def just_saved(lab):
    """Returns right after slurmctld has saved its state: what it does in the next seconds it forgets when it is killed."""
    path = f"{lab.dir}/state/job_state"
    before = os.stat(path).st_mtime_ns if os.path.exists(path) else 0
    mark = lab.slurm.sbatch("--hold")
    wait_for(lambda: os.path.exists(path) and os.stat(path).st_mtime_ns != before, what="slurmctld saves its state", interval=0.005)
    return mark


def restart_slurmctld(lab):
    lab.daemon("kill", "slurmctld")
    lab.daemon("start", "slurmctld")
    wait_for(lambda: set(lab.slurm.nodes()) == set(lab.nodes), 30, "slurmctld answers")


def lose_job(lab, **words):
    """A running pod whose job slurmctld has forgotten, and the job's id, which the next job gets."""
    for _ in range(5):
        mark = just_saved(lab)
        pod, job = running_pod(lab, **words)
        restart_slurmctld(lab)
        lab.slurm.scancel(mark)
        if not lab.slurm.job(job):
            return pod, job
        lab.delete(pod)  # slurmctld saved just then
        lab.wait_gone(pod)
    raise AssertionError("slurmctld remembers every job")


def job_lost_and_its_id_reused(lab, srun):
    pod, job = lose_job(lab, **SLOW)
    native = NativeJob(lab, pod, srun=srun)
    assert native.job == job, "slurmctld gives the lost job's id to the next one"
    native.verify()
    lab.wait_gone(pod)
    settled(lab)


def job_lost_beside_another_pod(lab):
    """The foreign job with the lost id ends, and the pod next to it lives on."""
    neighbour, its_job = running_pod(lab, cpu=2)
    pod, job = lose_job(lab, cpu=2, **SLOW)
    assert pod["spec"]["nodeName"] == neighbour["spec"]["nodeName"]
    before = lab.processes(neighbour)
    native = NativeJob(lab, pod, whole=False)
    assert native.job == job
    native.verify(others=[neighbour])
    wait_for(lambda: not lab.slurm.jobs("-u", "lab_bob"), what="the native job ends")
    lab.wait_gone(pod)
    holds_for(lambda: lab.processes(neighbour) == before and lab.slurm.job_state(its_job) == "RUNNING", 1, "the neighbour runs on")
    lab.slurm.scancel(its_job)
    lab.wait_gone(neighbour)
    settled(lab)


def job_lost_and_its_id_given_to_another_pod(lab):
    """slurmd believes to have had the prolog of the second pod's job."""
    pod, job = lose_job(lab, **SLOW)
    began = time.monotonic()
    other = lab.create(run_for="100ms")
    assert int(wait_job(lab, other)["JobId"]) == job
    lab.wait_phase(other, "Succeeded", 60)
    print(f"        the other pod ran after {time.monotonic() - began:.1f} s")
    lab.wait_gone(pod)
    settled(lab)
    assert [j["JobState"] for j in jobs_of(lab, other)][-1] == "COMPLETED"


def job_lost_and_its_id_runs_elsewhere(lab):
    """The pod ends by itself before its agent knows that the id is a stranger's by now."""
    mark = just_saved(lab)
    pod, job = running_pod(lab, run_for="2s")
    node = pod["spec"]["nodeName"]
    lab.daemon("pause", f"berthd:{node}")
    restart_slurmctld(lab)
    lab.slurm.scancel(mark)
    assert not lab.slurm.job(job), "slurmctld has lost it"
    elsewhere = next(other for other in lab.nodes if other != node)
    native = lab.slurm.sbatch("-w", elsewhere, "--mem=64", user="lab_bob")
    assert native == job
    wait_for(lambda: lab.slurm.job_state(native) == "RUNNING", 30, "the native job runs")
    lab.wait_phase(pod, "Succeeded")
    lab.daemon("resume", f"berthd:{node}")
    wait_for(lambda: not lab.held(node), what="the pod is settled")
    holds_for(lambda: lab.slurm.job_state(native) == "RUNNING", 1, "the native job runs on")
    lab.slurm.scancel(native)
    settled(lab)
