"""What slurmctld does to a job reaches its pod because slurmctld says so: in this lab nobody compares before two minutes have passed.
How slurmctld tells the owner of an allocation differs in each of its versions, and Berth rests on it."""

import re

from handover import temporary
from lab import TOOLS, wait_for
from test_suspend import resume, suspend, wait_frozen, wait_thawed
from witness import running_pod, scheduled, waiting_pod


def patient_yaml():
    with open(TOOLS + "/berth.yaml.in", encoding="ascii") as file:
        text, count = re.subn(r"^  reconcile: .*$", "  reconcile: 120s", file.read(), flags=re.M)
    assert count == 2
    return temporary(text, ".yaml")


LAB = ["--nodes", "1", "--berth-yaml", patient_yaml()]


def test_cancel_of_a_waiting_job_is_told(lab):
    pod, job = waiting_pod(lab)
    lab.slurm.scancel(job)
    lab.wait_gone(pod, 60)


def test_suspend_and_resume_are_told(lab):
    pod, job = running_pod(lab, beat=True)
    suspend(lab, job)
    wait_frozen(lab, pod, deadline=60)
    resume(lab, job)
    wait_thawed(lab, pod, deadline=60)


def test_change_of_a_waiting_job_is_told(lab):
    pod, job = waiting_pod(lab)
    lab.slurm.run("scontrol", "hold", job)
    wait_for(lambda: "JobHeld" in scheduled(lab, pod)[2], what="the pod is told that its job is held")


def test_end_of_a_running_job_is_told(lab):
    pod, job = running_pod(lab)
    lab.slurm.scancel(job)
    lab.wait_gone(pod, 60)
