"""What a pod's author may choose with annotations, on a site with accounts, two partitions and GPUs."""

import os

from lab import wait_for
from witness import annotate, asking, jobs_of, wait_unschedulable

HERE = os.path.dirname(os.path.abspath(__file__))
LAB = ["--nodes", "2", "--gpus", "2", "--dbd", "--slurm-conf", HERE + "/choices.conf", "--berth-yaml", HERE + "/choices.yaml"]


def job_of(lab, **words):
    pod = lab.wait_bound(lab.create(**words), 60)
    job, = jobs_of(lab, pod)
    return job


def test_first_of_the_tenants_choices_is_the_default(lab):
    job = job_of(lab)
    assert (job["Partition"], job["Account"], job["QOS"]) == ("main", "k8s", "normal")


def test_partition_annotation_is_honoured(lab):
    assert job_of(lab, annotations=asking(partition="second"))["Partition"] == "second"


def test_account_annotation_is_honoured(lab):
    assert job_of(lab, annotations=asking(account="k8s"))["Account"] == "k8s"


def test_qos_annotation_is_honoured(lab):
    assert job_of(lab, annotations=asking(qos="high"))["QOS"] == "high"


def test_partition_of_another_tenant_is_refused_and_mended(lab):
    pod = lab.create(ns="team-b", annotations=asking(partition="second"))
    wait_unschedulable(lab, pod, "slurmjob.slinky.slurm.net/partition", '"second"', "team-b")
    assert not jobs_of(lab, pod)
    annotate(lab, pod, partition=None)
    lab.wait_bound(pod)
    assert jobs_of(lab, pod)[0]["Partition"] == "main"


def test_account_that_slurm_does_not_grant_is_told_in_slurms_words(lab):
    pod = lab.create(annotations=asking(account="closed"))
    wait_unschedulable(lab, pod, "Slurm", "Invalid account")
    assert not lab.slurm.jobs()
    annotate(lab, pod, account="k8s")
    lab.wait_bound(pod)


def test_gpus_become_gres(lab):
    job = job_of(lab, gpus=2)
    assert job["TresPerNode"] in ("gres:gpu:2", "gres/gpu:2"), job  # as 22.05 and as 26.05 spell it


def test_gpus_are_not_given_twice(lab):
    first, second = lab.wait_bound(lab.create(gpus=2)), lab.wait_bound(lab.create(gpus=2))
    assert first["spec"]["nodeName"] != second["spec"]["nodeName"]
    third = lab.create(gpus=1, run_for="0s")
    wait_unschedulable(lab, third, "job")
    lab.delete(first)
    lab.wait_phase(third, "Succeeded", 60)


def test_more_gpus_than_a_node_has_is_told_in_slurms_words(lab):
    pod = lab.create(gpus=3)
    wait_unschedulable(lab, pod, "Slurm", "Requested node configuration is not available")


def test_accounting_knows_the_pods_end(lab):
    pod = lab.wait_phase(lab.create(run_for="100ms", exit_code=3), "Failed")
    job = lab.job_id(pod)

    wanted = f"FAILED|3:0|lab_alice|default/{pod['metadata']['name']}|k8s"
    # slurmdbd hears of a short job's start and end in any order
    wait_for(lambda: lab.slurm.run("sacct", "-nXP", "-j", job, "-o", "State,ExitCode,User,JobName,Account").strip() == wanted, 60,
             "sacct says " + wanted)
