"""What Slurm's commands do to pods: a test per row of the table in docs/admin.md. Ends and times have tests of their own (test_time.py,
test_pod_end.py, test_hold.py), and so have faults of slurmctld (test_faults.py, test_guard.py)."""

import contextlib
import os
import re
import time

from lab import holds_for, wait_for
from slurm import CommandError
from witness import asking, fill, jobs_of, running_pod, scheduled, wait_job, wait_state, wait_unschedulable, waiting_pod

HERE = os.path.dirname(os.path.abspath(__file__))
LAB = ["--nodes", "2", "--gpus", "2", "--dbd", "--slurm-conf", HERE + "/choices.conf", "--berth-yaml", HERE + "/choices.yaml"]


def update(lab, job, *changes):
    lab.slurm.update(f"JobId={job}", *changes)


def held_pod(lab, **words):
    """A pod whose job an operator holds, with room for it: it starts when it is released."""
    blocker = fill(lab)
    pod = lab.create(**words)
    job = int(wait_job(lab, pod)["JobId"])
    lab.slurm.run("scontrol", "hold", job)
    lab.slurm.scancel(blocker)
    wait_state(lab, blocker, "CANCELLED")
    return pod, job


def release(lab, pod, job):
    """Releases it, and the pod runs by this very job."""
    lab.slurm.run("scontrol", "release", job)
    bound = lab.wait_bound(pod, 60)
    assert lab.job_id(pod) == job and len(jobs_of(lab, pod)) == 1
    return bound


def refuses(lab, *command):
    """What the command says when it fails."""
    try:
        lab.slurm.run(*command)
    except CommandError as error:
        return error.text
    raise AssertionError(f"{command} was taken")


def stays(lab, pod, job, seconds=2):
    """The pod runs on, and so does its job."""
    holds_for(lambda: lab.phase(pod) == "Running" and lab.slurm.job_state(job) == "RUNNING", seconds, "the pod runs on", 0.2)
    assert not lab.get(pod)["metadata"].get("deletionTimestamp")


# --- hold and release

def test_hold_keeps_a_waiting_pod_and_names_the_way_out(lab):
    pod, job = held_pod(lab)
    wait_unschedulable(lab, pod, "JobHeldAdmin", f"scontrol release {job}")
    holds_for(lambda: lab.slurm.job_state(job) == "PENDING", 3, "it stays held although there is room", 0.2)
    release(lab, pod, job)
    wait_for(lambda: scheduled(lab, pod)[0] == "True", what="the condition follows")


def test_uhold_can_be_released_by_the_owner(lab):
    pod, job = waiting_pod(lab)
    lab.slurm.run("scontrol", "uhold", job)
    wait_unschedulable(lab, pod, "JobHeldUser", f"scontrol release {job}")
    lab.slurm.scancel("--user=root")
    lab.slurm.run("scontrol", "release", job, user="lab_alice")
    lab.wait_bound(pod, 60)


def test_hold_of_a_running_pods_job_changes_nothing(lab):
    pod, job = running_pod(lab)
    lab.slurm.run("scontrol", "hold", job, check=False)
    stays(lab, pod, job)


# --- update

def test_partition_of_a_waiting_pod_can_be_changed(lab):
    lab.slurm.update("PartitionName=main", "State=DOWN")
    try:
        pod = lab.create()
        wait_unschedulable(lab, pod, "PartitionDown", "State=UP")
        job = int(wait_job(lab, pod)["JobId"])
        update(lab, job, "Partition=second")
        lab.wait_bound(pod, 60)
        assert lab.slurm.job(job)["Partition"] == "second" and lab.job_id(pod) == job
    finally:
        lab.slurm.update("PartitionName=main", "State=UP")


def test_qos_account_priority_and_nice_of_a_waiting_pod_can_be_changed(lab):
    pod, job = held_pod(lab)
    update(lab, job, "QOS=high", "Account=k8s")
    update(lab, job, "Nice=50")
    now = lab.slurm.job(job)
    assert (now["QOS"], now["Account"], now["Nice"]) == ("high", "k8s", "50")
    if lab.slurm.version() < (24, 11):
        update(lab, job, "Priority=1234")  # which releases it
        lab.wait_bound(pod, 60)
        assert lab.slurm.job(job)["Priority"] == "1234"
    else:  # Slurm itself wants it released first
        release(lab, pod, job)
    assert lab.job_id(pod) == job


def test_time_limit_of_a_waiting_pod_can_be_mended(lab):
    pod = lab.create(annotations=asking(partition="short", timelimit="1h"))
    message = wait_unschedulable(lab, pod, "PartitionTimeLimit", "less time")
    assert "cannot start as it is" in message
    job = int(wait_job(lab, pod)["JobId"])
    update(lab, job, "TimeLimit=1")
    lab.wait_bound(pod, 60)
    assert lab.job_id(pod) == job and lab.slurm.job(job)["TimeLimit"] == "00:01:00"


def test_required_and_excluded_nodes_of_a_waiting_pod_can_be_changed(lab):
    pod, job = held_pod(lab)
    update(lab, job, "ReqNodeList=n2")
    assert release(lab, pod, job)["spec"]["nodeName"] == "n2"
    lab.delete(pod)
    lab.wait_gone(pod)
    pod, job = held_pod(lab)
    update(lab, job, "ExcNodeList=n2")
    assert release(lab, pod, job)["spec"]["nodeName"] == "n1"


def test_features_of_a_waiting_pod_can_be_changed(lab):
    lab.slurm.update("NodeName=n2", "AvailableFeatures=big", "ActiveFeatures=big")
    try:
        pod, job = held_pod(lab)
        update(lab, job, "Features=big")
        assert release(lab, pod, job)["spec"]["nodeName"] == "n2"
    finally:
        lab.slurm.update("NodeName=n2", "ActiveFeatures=", "AvailableFeatures=")


def test_dependency_of_a_waiting_pod_can_be_changed(lab):
    pod, job = waiting_pod(lab)
    first = lab.slurm.sbatch("--hold")
    update(lab, job, f"Dependency=afterany:{first}")
    wait_unschedulable(lab, pod, "Dependency", f"scontrol show job {job}")
    update(lab, job, "Dependency=")
    lab.slurm.scancel("--user=root")
    lab.wait_bound(pod, 60)
    assert lab.job_id(pod) == job


def test_dependency_that_cannot_be_met_is_told(lab):
    pod, job = waiting_pod(lab)
    failed = lab.slurm.sbatch("--hold")
    update(lab, job, f"Dependency=afterok:{failed}")
    lab.slurm.scancel(failed)
    wait_unschedulable(lab, pod, "DependencyNeverSatisfied", f"JobId={job} Dependency=", deadline=60)
    update(lab, job, "Dependency=")
    lab.slurm.scancel("--user=root")
    lab.wait_bound(pod, 60)


def test_start_time_of_a_waiting_pod_can_be_changed(lab):
    pod, job = held_pod(lab)
    update(lab, job, "StartTime=now+2hours")
    lab.slurm.run("scontrol", "release", job)
    message = wait_unschedulable(lab, pod, "BeginTime", f"JobId={job} StartTime=now", "expected to start about", deadline=40)
    told = re.search(r"about (\d{4}-\d\d-\d\d \d\d:\d\d) UTC", message).group(1)
    ahead = time.mktime(time.strptime(told, "%Y-%m-%d %H:%M")) - time.timezone - time.time()
    assert 110 * 60 < ahead < 130 * 60, message
    update(lab, job, "StartTime=now")
    lab.wait_bound(pod, 60)
    assert lab.job_id(pod) == job


def test_top_lets_one_waiting_pod_go_before_another(lab):
    fill(lab)
    first, second = lab.create(cpu=8), lab.create(cpu=8)
    jobs = [int(wait_job(lab, pod)["JobId"]) for pod in (first, second)]
    for pod in (first, second):
        wait_unschedulable(lab, pod, "job")
    lab.slurm.run("scontrol", "top", jobs[1])
    native = lab.slurm.sbatch("--exclusive", "--nodes=1", "-w", "n1", "-p", "urgent", "--hold")
    lab.slurm.run("scontrol", "release", native)  # takes the place of what fills the lab, and leaves one node
    lab.wait_bound(second, 60)
    assert "nodeName" not in lab.get(first)["spec"]


def test_changes_of_a_running_pods_job_leave_the_pod_where_it_is(lab):
    pod, job = running_pod(lab)
    node = pod["spec"]["nodeName"]
    other = next(name for name in lab.nodes if name != node)
    for change in ("Partition=second", "QOS=high", "Account=k8s", "Priority=5", "Nice=5", f"ReqNodeList={other}", f"ExcNodeList={node}",
                   "Features=none", "Dependency=afterany:1", "StartTime=now+1hour"):
        lab.slurm.run("scontrol", "update", f"JobId={job}", change, check=False)
    lab.slurm.run("scontrol", "top", job, check=False)
    stays(lab, pod, job)
    assert lab.slurm.job(job)["NodeList"] == node


# --- requeue

def test_requeue_is_refused_by_slurm(lab):
    pod, job = running_pod(lab)
    for command in ("requeue", "requeuehold"):
        assert refuses(lab, "scontrol", command, job)
    stays(lab, pod, job, 1)


# --- scancel

def test_scancel_takes_pods_by_its_filters(lab):
    def others(*pods):
        return all(lab.phase(pod) in ("Running", "Pending") and not lab.get(pod)["metadata"].get("deletionTimestamp") for pod in pods)
    alice, _ = running_pod(lab)
    bob, _ = running_pod(lab, ns="team-b")
    lab.slurm.scancel("-u", "lab_bob")
    lab.wait_gone(bob)
    assert others(alice)
    named, _ = running_pod(lab)
    lab.slurm.scancel("-n", f"default/{named['metadata']['name']}")
    lab.wait_gone(named)
    elsewhere, _ = running_pod(lab, annotations=asking(partition="second"))
    lab.slurm.scancel("-p", "second")
    lab.wait_gone(elsewhere)
    waits = lab.create(cpu=8, memory="15Gi")
    second = lab.create(cpu=8, memory="15Gi")
    wait_for(lambda: any(j["state"] == "PENDING" for j in lab.slurm.jobs("-u", "lab_alice")), what="one of them waits")
    lab.slurm.scancel("-u", "lab_alice", "-t", "PENDING")
    wait_for(lambda: None in (lab.get(waits), lab.get(second)), what="the waiting one is gone")
    assert others(alice)


def test_scancel_with_a_signal_ends_nothing(lab):
    pod, job = running_pod(lab)
    for signal in ("USR1", "TERM"):
        lab.slurm.scancel(f"--signal={signal}", job)
    stays(lab, pod, job)


# --- reservations

@contextlib.contextmanager
def reservation(lab, name, *words):
    lab.slurm.run("scontrol", "create", "reservation", f"ReservationName={name}", *words)
    try:
        yield
    finally:
        def gone():
            lab.slurm.run("scontrol", "delete", f"ReservationName={name}", check=False)
            return name not in lab.slurm.run("scontrol", "show", "reservation")
        wait_for(gone, 60, "the reservation is gone", 0.2)


def test_pod_waits_for_its_reservation_to_begin(lab):
    with reservation(lab, "weekly", "StartTime=now+30", "Duration=60", "Nodes=n2", "Users=lab_alice"):
        pod = lab.create(annotations=asking(reservation="weekly", timelimit="10m"))
        wait_unschedulable(lab, pod, "Reservation", "scontrol show reservation", deadline=40)
        assert lab.wait_bound(pod, 90)["spec"]["nodeName"] == "n2"
        lab.delete(pod)
        lab.wait_gone(pod)


def test_pod_ends_with_its_reservation(lab):
    with reservation(lab, "weekly", "StartTime=now", "Duration=60", "Nodes=n2", "Users=lab_alice"):
        pod, job = running_pod(lab, annotations=asking(reservation="weekly", timelimit="10m"))
        lab.slurm.update("ReservationName=weekly", "EndTime=now+1")
        lab.wait_gone(pod, 100)  # slurmctld looks every 30 s
        wait_state(lab, job, "TIMEOUT", deadline=30)


def test_maintenance_reservation_lets_running_pods_end_and_takes_no_new_ones(lab):
    pod, job = running_pod(lab)
    node = pod["spec"]["nodeName"]
    other = next(name for name in lab.nodes if name != node)
    with reservation(lab, "maint", "StartTime=now", "Duration=60", f"Nodes={node}", "Users=root", "Flags=MAINT,IGNORE_JOBS"):
        second = lab.wait_bound(lab.create(cpu=4), 60)
        assert second["spec"]["nodeName"] == other
        third = lab.create(cpu=8)
        wait_unschedulable(lab, third, "job", deadline=40)
        stays(lab, pod, job, 1)
    lab.delete(pod)
    assert lab.wait_bound(third, 90)["spec"]["nodeName"] == node


# --- slurmctld itself

def test_reconfigure_changes_nothing(lab):
    runs, job = running_pod(lab)
    waits = lab.create(cpu=8)
    other = lab.create(cpu=8)
    wait_for(lambda: sorted(j["state"] for j in lab.slurm.jobs()) == ["PENDING", "RUNNING", "RUNNING"], what="one of them waits")
    before = sorted((j["id"], j["state"]) for j in lab.slurm.jobs())
    lab.slurm.run("scontrol", "reconfigure")
    stays(lab, runs, job)
    assert sorted((j["id"], j["state"]) for j in lab.slurm.jobs()) == before
    assert all(len(jobs_of(lab, pod)) == 1 for pod in (waits, other))


def test_shutdown_of_slurmctld_leaves_pods_alone(lab):
    runs, job = running_pod(lab)
    lab.slurm.run("scontrol", "shutdown", "slurmctld")
    wait_for(lambda: lab.daemons()["slurmctld"] == "stopped", 60, "slurmctld is down", 0.1)
    late = lab.create()
    holds_for(lambda: lab.phase(runs) == "Running" and lab.processes(runs), 2, "the pod runs on", 0.2)
    lab.daemon("start", "slurmctld")
    lab.wait_phase(late, "Running", 90)
    assert lab.slurm.job_state(job) == "RUNNING" and lab.phase(runs) == "Running"
