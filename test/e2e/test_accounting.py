"""What sacct remembers of pods: a test per kind of end, on a site with slurmdbd."""

import json
import os

from gangs import create_job, jobs_of_owner, kill_pod, running_gang
from lab import wait_for
from witness import asking, running_pod

HERE = os.path.dirname(os.path.abspath(__file__))
LAB = ["--nodes", "2", "--gpus", "2", "--dbd", "--slurm-conf", HERE + "/choices.conf", "--berth-yaml", HERE + "/choices.yaml"]
FIELDS = ("State", "ExitCode", "User", "Account", "JobName", "ElapsedRaw", "Comment", "AdminComment")


def remembered(lab, job):
    """What slurmdbd has of the job."""
    text = lab.slurm.run("sacct", "-nXP", "--delimiter=\x1f", "-j", job, "-o", ",".join(FIELDS)).strip("\n")
    return dict(zip(FIELDS, text.split("\x1f"))) if text else {}


def check(lab, job, state, code, name):
    """The record of a pod's job, once it says this state: slurmdbd hears of a short job's start and end in any order."""
    wait_for(lambda: remembered(lab, job).get("State", "").startswith(state), 60, f"sacct says {state}", 0.2)
    got = remembered(lab, job)
    assert (got["ExitCode"], got["User"], got["Account"], got["JobName"]) == (code, "lab_alice", "k8s", f"default/{name}"), got
    assert got["Comment"] == f"pod default/{name}", got
    ticket = json.loads(got["AdminComment"])
    assert ticket["name"] == name and ticket["kind"] == "Pod", ticket
    return got


def test_completed_pod(lab):
    pod = lab.wait_phase(lab.create(run_for="2s"), "Succeeded", 60)
    assert int(check(lab, lab.job_id(pod), "COMPLETED", "0:0", pod["metadata"]["name"])["ElapsedRaw"]) >= 1


def test_failed_pod(lab):
    pod = lab.wait_phase(lab.create(run_for="100ms", exit_code=3), "Failed", 60)
    check(lab, lab.job_id(pod), "FAILED", "3:0", pod["metadata"]["name"])


def test_cancelled_pod_names_who_did_it(lab):
    pod, job = running_pod(lab, grace=1)
    lab.slurm.scancel(job, user="lab_alice")
    lab.wait_gone(pod)
    assert check(lab, job, "CANCELLED", "0:0", pod["metadata"]["name"])["State"] == "CANCELLED by 20001"


def test_deleted_pod(lab):
    pod, job = running_pod(lab, grace=1)
    lab.delete(pod)
    lab.wait_gone(pod)
    check(lab, job, "CANCELLED", "0:0", pod["metadata"]["name"])


def test_pod_past_its_time_limit(lab):
    pod, job = running_pod(lab, grace=1, annotations=asking(partition="short", timelimit="1"))
    lab.wait_gone(pod, 110)
    assert int(check(lab, job, "TIMEOUT", "0:0", pod["metadata"]["name"])["ElapsedRaw"]) >= 60


def test_preempted_pod(lab):
    pod, job = running_pod(lab, grace=1)
    native = lab.slurm.sbatch("-p", "urgent", "-w", pod["spec"]["nodeName"], "--exclusive")
    lab.wait_gone(pod, 60)
    check(lab, job, "PREEMPTED", "0:0", pod["metadata"]["name"])
    lab.slurm.scancel(native)


def test_failed_gang(lab):
    gang = create_job(lab, 2, backoff=0, annotations={"berth.dev/comment": "nightly"})
    pods, job = running_gang(lab, gang, 2)
    kill_pod(lab, pods[0])
    name = gang["metadata"]["name"]
    wait_for(lambda: remembered(lab, job["JobId"]).get("State", "").startswith("FAILED"), 90, "sacct says FAILED", 0.2)
    got = remembered(lab, job["JobId"])
    assert got["User"] == "lab_alice" and name in got["JobName"] and "nightly" in got["Comment"] and "2 pods" in got["Comment"], got
    assert got["ExitCode"] != "0:0"


def test_completed_gang(lab):
    gang = create_job(lab, 2, run_for="2s")
    wait_for(lambda: (lab.get_owner(gang)["status"].get("succeeded") == 2), 90, "the Job succeeds", 0.2)
    job = jobs_of_owner(lab, gang)[0]["JobId"]
    wait_for(lambda: remembered(lab, job).get("State") == "COMPLETED", 60, "sacct says COMPLETED", 0.2)
    got = remembered(lab, job)
    assert got["ExitCode"] == "0:0" and f"Job default/{gang['metadata']['name']}: 2 pods" in got["Comment"], got
    ticket = json.loads(got["AdminComment"])
    assert ticket["kind"] == "Job" and ticket["name"] == gang["metadata"]["name"], ticket
