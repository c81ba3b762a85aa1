"""The ways in which Slurm forgets that a pod is there, each with a native job behind it: scenarios for labs of several kinds."""

import os
import time

from gangs import create_group, join_group, on_nodes, running_gang, wait_all_gone
from handover import NativeJob, NeverStarted, settled, slurm_conf
from lab import holds_for, wait_for
from witness import jobs_of, running_pod, wait_job

SLOW = {"die_after": "7500ms", "grace": 30}  # so long the test may take to bring a native job behind it


def wait_hold(lab, pod, job):
    """Cancels the job and returns when its epilog waits for the pod."""
    lab.slurm.scancel(job)
    wait_for(lambda: lab.get(pod)["metadata"].get("deletionTimestamp"), what="the pod is deleted")
    assert lab.slurm.job_state(job) == "COMPLETING" and lab.processes(pod)


def node_set_down_and_resumed(lab, srun=False):
    pod, job = running_pod(lab, **SLOW)
    node = pod["spec"]["nodeName"]
    native = NativeJob(lab, pod, srun=srun)
    wait_hold(lab, pod, job)
    lab.slurm.update(f"NodeName={node}", "State=DOWN", "Reason=test")
    lab.slurm.resume(node)
    native.verify()
    settled(lab)


def slurmd_killed(lab):
    pod, job = running_pod(lab, **SLOW)
    node = pod["spec"]["nodeName"]
    native = NativeJob(lab, pod)
    wait_hold(lab, pod, job)
    lab.daemon("kill", f"slurmd:{node}")
    lab.daemon("start", f"slurmd:{node}")
    # slurmctld would tell the new slurmd of the end by and by; this way it lets go at once
    lab.slurm.update(f"NodeName={node}", "State=DOWN", "Reason=test")
    lab.slurm.resume(node)
    native.verify()
    settled(lab)


def slurmd_killed_and_started(lab):
    """And nothing else: nobody lets go of the node before slurmctld has told the new slurmd of the end once more. It does so when it tidies up
    (every MinJobAge, at most a minute) and the end is KillWait and two MessageTimeouts old: two minutes with the lab's own."""
    with slurm_conf(lab, "MessageTimeout=5", "MinJobAge=10"):
        pod, job = running_pod(lab, **SLOW)
        node = pod["spec"]["nodeName"]
        native = NativeJob(lab, pod)
        wait_hold(lab, pod, job)
        lab.daemon("kill", f"slurmd:{node}")
        lab.daemon("start", f"slurmd:{node}")
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


def verify_unless_aborted(lab, native, lost, others=()):
    """From 24.11 on Slurm may kill the native job that got the lost job's id as non-startable, because it has just told slurmd to abort
    that id: then false."""
    try:
        native.verify(others=others)
        return True
    except NeverStarted:
        assert native.job == lost and lab.slurm.version() >= (24, 11)
        return False


def verify_heir(lab, pod, job, others=(), **words):
    """A native job gets the lost job's id and waits for the pod, or the next one does."""
    native = NativeJob(lab, pod, **words)
    assert native.job == job, "slurmctld gives the lost job's id to the next one"
    if not verify_unless_aborted(lab, native, job, others) and lab.processes(pod):
        NativeJob(lab, pod, **words).verify(others=others)


def job_lost_and_its_id_reused(lab, srun):
    pod, job = lose_job(lab, **SLOW)
    verify_heir(lab, pod, job, srun=srun)
    lab.wait_gone(pod)
    settled(lab)


def job_lost_beside_another_pod(lab):
    """The foreign job with the lost id ends, and the pod next to it lives on."""
    neighbour, its_job = running_pod(lab, cpu=2)
    pod, job = lose_job(lab, cpu=2, **SLOW)
    assert pod["spec"]["nodeName"] == neighbour["spec"]["nodeName"]
    before = lab.processes(neighbour)
    verify_heir(lab, pod, job, others=[neighbour], whole=False)
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


# --- the same for a gang: one pod on each node, and a native job behind every one

def whole_gang(lab, **words):
    """The pods of a gang that has a pod on each node, and its job. Nobody makes them anew."""
    group = create_group(lab, len(lab.nodes))
    join_group(lab, group, len(lab.nodes), cpu=8, **words)
    pods, job = running_gang(lab, group, len(lab.nodes))
    assert set(on_nodes(pods)) == set(lab.nodes)
    return pods, int(job["JobId"])


def hold_gang(lab, pods, job):
    lab.slurm.scancel(job)
    for pod in pods:
        wait_for(lambda: lab.get(pod)["metadata"].get("deletionTimestamp"), what="the pod is deleted")


def verify_each(lab, pods, natives):
    for native in natives:
        native.verify()
    wait_all_gone(lab, pods)
    settled(lab)


def gangs_nodes_set_down_and_resumed(lab):
    pods, job = whole_gang(lab, **SLOW)
    natives = [NativeJob(lab, pod) for pod in pods]
    hold_gang(lab, pods, job)
    for node in lab.nodes:
        lab.slurm.update(f"NodeName={node}", "State=DOWN", "Reason=test")
        lab.slurm.resume(node)
    verify_each(lab, pods, natives)


def gangs_slurmds_killed(lab):
    pods, job = whole_gang(lab, **SLOW)
    natives = [NativeJob(lab, pod) for pod in pods]
    hold_gang(lab, pods, job)
    slurmds = [f"slurmd:{node}" for node in lab.nodes]
    lab.daemon("kill", *slurmds)
    lab.daemon("start", *slurmds)
    for node in lab.nodes:
        lab.slurm.update(f"NodeName={node}", "State=DOWN", "Reason=test")
        lab.slurm.resume(node)
    verify_each(lab, pods, natives)


def gangs_job_lost_and_its_id_reused(lab, controller_away=False):
    for _ in range(5):
        mark = just_saved(lab)
        pods, job = whole_gang(lab, **SLOW)
        if controller_away:
            lab.daemon("kill", "berthd:controller")
        restart_slurmctld(lab)
        lab.slurm.scancel(mark)
        if not lab.slurm.job(job):
            break
        lab.slurm.scancel(job)  # slurmctld saved just then
        lab.daemon("start", "berthd:controller")
        wait_all_gone(lab, pods)
        settled(lab)
    else:
        raise AssertionError("slurmctld remembers every job")
    natives = [NativeJob(lab, pod) for pod in pods]
    assert job in [native.job for native in natives], "slurmctld gives the lost job's id to the next one"
    for native in natives:
        verify_unless_aborted(lab, native, job)
    wait_all_gone(lab, pods)
    lab.daemon("start", "berthd:controller")
    settled(lab)


# --- a job that gave a node back

def shrinkable(lab):
    """Slurm lets owners and operators make running jobs smaller meanwhile, as it does where nobody forbids it."""
    return slurm_conf(lab, "SchedulerParameters=bf_interval=2,sched_interval=2")


def gang_shrunk(lab, slurmd_away=False):
    """The pods on nodes that were given back go before anybody else starts there, the others run on."""
    pods, job = whole_gang(lab, **SLOW)
    stays = next(pod for pod in pods if pod["spec"]["nodeName"] == lab.nodes[0])
    leaving = [pod for pod in pods if pod is not stays]
    before = lab.processes(stays)
    slurmds = [f"slurmd:{pod['spec']['nodeName']}" for pod in leaving]
    natives = [NativeJob(lab, pod) for pod in leaving]
    with shrinkable(lab):
        if slurmd_away:
            lab.daemon("kill", *slurmds)
        lab.slurm.update(f"JobId={job}", f"NodeList={lab.nodes[0]}")
        if slurmd_away:
            lab.daemon("start", *slurmds)
    for native in natives:
        native.verify()
    wait_all_gone(lab, leaving)
    assert lab.processes(stays) == before and lab.slurm.job_state(job) == "RUNNING"
    lab.slurm.scancel(job)
    wait_all_gone(lab, pods)
    settled(lab)
