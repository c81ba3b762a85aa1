"""A pod through Slurm onto a real kubelet: its exit codes, and its processes as the kernel sees them."""

from handover import NativeJob, temporary
from lab import holds_for, wait_for
from test_suspend import freezer, resume, suspend
from witness import asking, bindings, jobs_of, keep, let_go, running_pod, wait_state, warnings

URGENT = """SchedulerParameters=disable_job_shrink,bf_interval=2,sched_interval=2
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
PartitionName=urgent Nodes=real MaxTime=INFINITE PriorityTier=10 State=UP
"""
LAB = ["--nodes", "1", "--real-node", "--slurm-conf", temporary(URGENT, ".conf")]
# A kubelet of 1.20 may keep a pod's object until it next collects dead sandboxes, a minute after its containers are gone.
LATE = 150
# Dies three seconds after SIGTERM.
SLOW = ["sh", "-c", "trap 'sleep 3; exit 0' TERM; while :; do sleep 0.1; done"]


def real(lab, command, **words):
    return lab.pod(cpu="100m", memory="32Mi", annotations=asking(partition="real"), command=command, **words)


def ended_with(lab, pod, state, code):
    job = lab.job_id(pod)
    wait_state(lab, job, state, deadline=60)
    assert lab.slurm.job(job)["ExitCode"] == code
    assert not lab.processes(pod)
    assert len(jobs_of(lab, pod)) == 1 and bindings(lab)[pod["metadata"]["uid"]] == 1
    assert not warnings(lab, pod)


def test_pod_that_succeeds_completes_its_job(lab):
    pod = lab.wait_phase(lab.create(real(lab, ["sh", "-c", "sleep 1"])), "Succeeded", 60)
    assert pod["spec"]["nodeName"] == "real"
    ended_with(lab, pod, "COMPLETED", "0:0")


def test_pod_that_fails_gives_its_job_the_exit_code(lab):
    pod = lab.wait_phase(lab.create(real(lab, ["sh", "-c", "exit 3"])), "Failed", 60)
    ended_with(lab, pod, "FAILED", "3:0")


def test_pod_killed_for_its_memory_shows_signal_9(lab):
    pod = real(lab, ["sh", "-c", "x=0123456789abcdef; while :; do x=$x$x; done"])
    pod["spec"]["containers"][0]["resources"]["limits"]["memory"] = "32Mi"
    pod = lab.wait_phase(lab.create(pod), "Failed", 60)
    assert lab.ended(pod)["reason"] == "OOMKilled", lab.ended(pod)
    ended_with(lab, pod, "FAILED", "0:9")


def test_pod_deleted_while_it_runs_keeps_its_job_until_its_containers_are_gone(lab):
    pod, job = running_pod(lab, pod=real(lab, SLOW))
    assert lab.processes(pod)
    lab.delete(pod)
    holds_for(lambda: lab.slurm.job_state(job) == "RUNNING" and lab.processes(pod), 2, "the pod takes its time")
    wait_for(lambda: lab.slurm.job_state(job) != "RUNNING", 60, "the job ends")
    assert not lab.processes(pod)
    wait_state(lab, job, "CANCELLED", deadline=60)
    lab.wait_gone(pod, LATE)
    assert not warnings(lab, pod)


def test_scancel_holds_the_node_until_the_containers_are_gone(lab):
    pod, job = running_pod(lab, pod=keep(real(lab, SLOW)))
    try:
        native = lab.slurm.sbatch("--partition=real", "--exclusive")
        lab.slurm.scancel(job)
        wait_for(lambda: lab.get(pod)["metadata"].get("deletionTimestamp"), what="the pod is deleted")
        holds_for(lambda: lab.slurm.job_state(native) == "PENDING" and lab.processes(pod), 2, "the pod takes its time")
        assert lab.slurm.job_state(job) == "COMPLETING" and "completing" in lab.slurm.nodes()["real"]
        told = wait_for(lambda: lab.condition(pod, "DisruptionTarget"), what="the pod is told why")
        assert told["status"] == "True" and told["reason"] == "SlurmCancelled"
        wait_for(lambda: lab.slurm.job_state(native) == "RUNNING", 60, "the native job starts")
        assert not lab.processes(pod)
        wait_for(lambda: ("SlurmCancelled", told["message"]) in warnings(lab, pod), what="an event says it, too")
    finally:
        let_go(lab, pod)
    lab.wait_gone(pod, LATE)


def test_pod_that_ignores_term_dies_at_the_end_of_its_grace(lab):
    pod, job = running_pod(lab, pod=real(lab, ["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"], grace=2))
    lab.slurm.scancel(job)
    wait_state(lab, job, "CANCELLED", deadline=60)
    assert not lab.processes(pod)
    lab.wait_gone(pod, LATE)


def slow_to_stop(lab):
    """A pod whose preStop hook takes three seconds, before it even hears SIGTERM."""
    pod = real(lab, ["sh", "-c", "while :; do sleep 0.1; done"], grace=20)
    pod["spec"]["containers"][0]["lifecycle"] = {"preStop": {"exec": {"command": ["sh", "-c", "sleep 3"]}}}
    return running_pod(lab, pod=pod)


def test_native_job_waits_for_a_slow_pre_stop_hook(lab):
    pod, job = slow_to_stop(lab)
    native = NativeJob(lab, pod, partition="real")
    lab.slurm.scancel(job)
    native.verify(120)
    wait_state(lab, job, "CANCELLED")
    lab.wait_gone(pod, LATE)


def test_native_job_waits_for_a_pod_past_its_time_limit(lab):
    pod, job = slow_to_stop(lab)
    native = NativeJob(lab, pod, partition="real")
    lab.slurm.update(f"JobId={job}", "EndTime=now")
    native.verify(120)  # the limit is enforced every half minute
    wait_state(lab, job, "TIMEOUT")
    lab.wait_gone(pod, LATE)


def test_native_job_waits_for_the_pod_that_it_preempts(lab):
    pod, job = slow_to_stop(lab)
    native = NativeJob(lab, pod, partition="urgent")
    native.verify(120)
    wait_state(lab, job, "PREEMPTED")
    lab.wait_gone(pod, LATE)


def test_suspended_jobs_containers_stand_still(lab):
    pod, job = running_pod(lab, pod=real(lab, SLOW))  # starts a process every 0.1 s
    suspend(lab, job)
    wait_for(lambda: freezer(lab, pod) == "FROZEN", 60, "the pod is frozen")
    processes = lab.processes(pod)
    holds_for(lambda: lab.processes(pod) == processes, 2, "its containers do nothing")
    assert lab.phase(pod) == "Running"
    resume(lab, job)
    wait_for(lambda: lab.processes(pod) != processes, 60, "its containers go on")
    suspend(lab, job)
    wait_for(lambda: freezer(lab, pod) == "FROZEN", 60, "the pod is frozen again")
    lab.slurm.scancel(job)
    wait_state(lab, job, "CANCELLED", deadline=60)
    assert not lab.processes(pod)
    lab.wait_gone(pod, 150)


test_suspended_jobs_containers_stand_still.timeout = 240  # an old kubelet lets go of a pod's object when it collects its garbage, each minute


def test_suspended_pod_that_is_deleted_ends(lab):
    pod, job = running_pod(lab, pod=real(lab, SLOW))
    suspend(lab, job)
    wait_for(lambda: freezer(lab, pod) == "FROZEN", 60, "the pod is frozen")
    lab.delete(pod)
    wait_state(lab, job, "CANCELLED", deadline=150)
    assert not lab.processes(pod)
    lab.wait_gone(pod, 150)


test_suspended_pod_that_is_deleted_ends.timeout = 240


def test_pod_without_a_limit_cannot_take_more_memory_than_slurm_allotted(lab):
    grow = "sleep 15; x=0123456789abcdef; for i in $(seq 22); do x=$x$x; done; sleep 1000"  # to 64 MiB
    pod = lab.wait_phase(lab.create(real(lab, ["sh", "-c", grow])), "Failed", 90)
    assert lab.ended(pod)["exitCode"] == 137, lab.ended(pod)
