"""What Slurm keeps closed to a user stays closed to the user's pods, although the bridge submits them with an administrator's rights: each
partition here is in the tenant's list, and Slurm itself must say no."""

import contextlib

from lab import holds_for, wait_for
from test_pod_choices import LAB, job_of
from witness import asking, jobs_of, scheduled, wait_unschedulable

assert LAB  # the same lab


def refused_by_slurm(lab, *words, **asked):
    pod = lab.create(annotations=asking(**asked))
    message = wait_unschedulable(lab, pod, "Slurm", *words)
    assert "nodeName" not in lab.get(pod)["spec"]
    lab.delete(pod)
    lab.wait_gone(pod)
    return message


def test_partition_of_another_group_stays_closed(lab):
    refused_by_slurm(lab, "group", partition="staff")
    pod = lab.create(ns="team-b", annotations=asking(partition="staff"))
    lab.wait_bound(pod)  # bob is in the group


def test_partition_of_another_account_stays_closed(lab):
    """Refused at once by 22.05; 24.11 takes such a job from SlurmUser, but starts it for nobody."""
    if lab.slurm.version() < (24, 11):
        refused_by_slurm(lab, "account", partition="paid")
    else:
        pod = lab.create(annotations=asking(partition="paid"))
        wait_unschedulable(lab, pod, "Slurm", "PartitionConfig")
        holds_for(lambda: "nodeName" not in lab.get(pod)["spec"], 3, "it does not start")


def test_partition_of_another_qos_stays_closed(lab):
    refused_by_slurm(lab, "QOS", partition="fast")
    assert job_of(lab, annotations=asking(partition="fast", qos="high"))["Partition"] == "fast"


def test_partition_for_root_alone_stays_closed(lab):
    """Slurm takes such a job from SlurmUser, but starts none that is not root's; and a partition outside the tenant's list is not asked for."""
    pod = lab.create(annotations=asking(partition="ops"))
    wait_unschedulable(lab, pod, "slurmjob.slinky.slurm.net/partition", '"ops"')
    assert not jobs_of(lab, pod)
    bobs = lab.create(ns="team-b", annotations=asking(partition="ops"))
    wait_unschedulable(lab, bobs, "Slurm")
    holds_for(lambda: "nodeName" not in lab.get(bobs)["spec"], 3, "it does not start")


def test_longer_time_limit_than_the_partitions_does_not_start(lab):
    for limit in ("2h", "100-0"):
        pod = lab.create(annotations=asking(partition="short", timelimit=limit))
        wait_unschedulable(lab, pod, "Slurm")
        holds_for(lambda: "nodeName" not in lab.get(pod)["spec"], 2, "it does not start")
        lab.delete(pod)
        lab.wait_gone(pod)


def test_deadline_of_the_pod_does_not_outlast_the_partition(lab):
    """activeDeadlineSeconds beyond MaxTime: the job is bounded by the partition, whatever the pod says."""
    pod = lab.pod(annotations=asking(partition="short"))
    pod["spec"]["activeDeadlineSeconds"] = 30 * 86400
    pod = lab.create(pod)

    def bounded():
        jobs = jobs_of(lab, pod)
        if jobs and jobs[0]["JobState"] == "RUNNING":
            assert jobs[0]["TimeLimit"] == "00:01:00", jobs[0]["TimeLimit"]
            return True
        return scheduled(lab, pod)[1] == "Unschedulable" and "imeLimit" in scheduled(lab, pod)[2]
    wait_for(bounded, what="the partition's limit counts")


@contextlib.contextmanager
def reservation(lab, user):
    lab.slurm.run("scontrol", "create", "reservation", "ReservationName=weekly", "StartTime=now", "Duration=60", f"Users={user}", "Nodes=n1")
    try:
        yield
    finally:
        lab.slurm.scancel("--reservation=weekly")
        wait_for(lambda: not lab.slurm.jobs("--reservation=weekly"), what="the reservation is empty")
        lab.slurm.run("scontrol", "delete", "ReservationName=weekly")


def test_reservation_of_others_stays_closed(lab):
    with reservation(lab, "lab_bob"):
        refused_by_slurm(lab, "reservation", reservation="weekly")
    with reservation(lab, "lab_alice"):
        pod = lab.wait_bound(lab.create(annotations=asking(reservation="weekly")))
        assert pod["spec"]["nodeName"] == "n1"
        lab.delete(pod, grace=0)
        lab.wait_gone(pod)


def test_negative_nice_and_priority_are_the_sites_to_give(lab):
    for key, annotation in (("berth.dev/nice", {"berth.dev/nice": "-100"}), ("slurmjob.slinky.slurm.net/priority", asking(priority="4294967294"))):
        pod = lab.create(annotations=annotation)
        wait_unschedulable(lab, pod, key)
        assert not jobs_of(lab, pod)
