"""What sacct remembers of pods: a test per kind of end, on a site with slurmdbd."""

import json
import os

from gangs import create_job, jobs_of_owner, kill_pod, running_gang
from lab import wait_for
from test_guard import answer, refusal
from witness import running_pod, waiting_pod

HERE = os.path.dirname(os.path.abspath(__file__))
LAB = ["--nodes", "2", "--gpus", "2", "--dbd", "--slurm-conf", HERE + "/choices.conf", "--berth-yaml", HERE + "/choices.yaml"]
FIELDS = ("State", "ExitCode", "User", "Account", "JobName", "ElapsedRaw", "Comment", "AdminComment")


def remembered(lab, job):
    """What slurmdbd has of the job."""
    text = lab.slurm.run("sacct", "-nXP", "--delimiter=\x1f", "-j", job, "-o", ",".join(FIELDS)).strip("\n")
    return dict(zip(FIELDS, text.split("\x1f"))) if text else {}


def wait_remembered(lab, job, state, name):
    """The record, once it has this state and name: slurmdbd hears of a short job's start and end in any order."""
    def there():
        got = remembered(lab, job)
        return got.get("State", "").startswith(state) and got["JobName"] == name and got
    try:
        return wait_for(there, 60, interval=0.2)
    except AssertionError:
        raise AssertionError(f"sacct does not say {state} for {name}, but {remembered(lab, job)}") from None


def check(lab, job, state, code, pod):
    name = pod["metadata"]["name"]
    got = wait_remembered(lab, job, state, f"default/{name}")
    assert (got["ExitCode"], got["User"], got["Account"], got["Comment"]) == (code, "lab_alice", "k8s", f"pod default/{name}"), got
    ticket = json.loads(got["AdminComment"])
    assert (ticket["ns"], ticket["kind"], ticket["name"]) == ("default", "Pod", name), ticket
    return got


def check_gang(lab, job, state, gang, comment):
    name = gang["metadata"]["name"]
    got = wait_remembered(lab, job, state, name)
    assert (got["User"], got["Account"], got["Comment"]) == ("lab_alice", "k8s", comment), got
    ticket = json.loads(got["AdminComment"])
    assert (ticket["ns"], ticket["kind"], ticket["name"]) == ("default", "Job", name), ticket
    return got


def test_completed_pod(lab):
    pod = lab.wait_phase(lab.create(run_for="2s"), "Succeeded", 60)
    assert int(check(lab, lab.job_id(pod), "COMPLETED", "0:0", pod)["ElapsedRaw"]) >= 1


def test_failed_pod(lab):
    pod = lab.wait_phase(lab.create(run_for="100ms", exit_code=3), "Failed", 60)
    check(lab, lab.job_id(pod), "FAILED", "3:0", pod)


def test_cancelled_pod_names_who_did_it(lab):
    pod, job = running_pod(lab, grace=1)
    lab.slurm.scancel(job, user="lab_alice")
    lab.wait_gone(pod)
    assert check(lab, job, "CANCELLED", "0:0", pod)["State"] == "CANCELLED by 20001"


def test_deleted_pod(lab):
    pod, job = running_pod(lab, grace=1)
    lab.delete(pod)
    lab.wait_gone(pod)
    check(lab, job, "CANCELLED", "0:0", pod)


def test_pod_past_its_time_limit(lab):
    pod, job = running_pod(lab, grace=1)
    lab.slurm.update(f"JobId={job}", "EndTime=now+1")
    lab.wait_gone(pod, 60)  # slurmctld looks at time limits every 30 seconds
    check(lab, job, "TIMEOUT", "0:0", pod)


def test_preempted_pod(lab):
    pod, job = running_pod(lab, grace=1)
    native = lab.slurm.sbatch("-p", "urgent", "-w", pod["spec"]["nodeName"], "--exclusive")
    lab.wait_gone(pod, 60)
    check(lab, job, "PREEMPTED", "0:0", pod)
    lab.slurm.scancel(native)


def test_failed_gang(lab):
    gang = create_job(lab, 2, backoff=0, annotations={"berth.dev/comment": "nightly"})
    pods, job = running_gang(lab, gang, 2)
    kill_pod(lab, pods[0])
    name = gang["metadata"]["name"]
    # The pod's code is 137: killed. The sacct of 22.05 takes 128 off such codes, that of 26.05 does not.
    code = check_gang(lab, job["JobId"], "FAILED", gang, f"Job default/{name}: 2 pods: nightly")["ExitCode"]
    assert code in ("9:0", "137:0"), code


def test_completed_gang(lab):
    gang = create_job(lab, 2, run_for="2s")
    wait_for(lambda: (lab.get_owner(gang)["status"].get("succeeded") == 2), 90, "the Job succeeds", 0.2)
    job = jobs_of_owner(lab, gang)[0]["JobId"]
    got = check_gang(lab, job, "COMPLETED", gang, f"Job default/{gang['metadata']['name']}: 2 pods")
    assert got["ExitCode"] == "0:0" and int(got["ElapsedRaw"]) >= 1


# --- who may change what it was

def test_coordinator_cannot_alter_a_placeholder_and_an_operator_can(lab):
    """Slurm lets a coordinator change every job of the account."""
    def sacctmgr(*words):
        lab.slurm.run("sacctmgr", "-i", "-Q", *words)

    def rename(job, name):
        return ("scontrol", "update", f"JobId={job}", f"JobName={name}")
    _, job = waiting_pod(lab)
    name = lab.slurm.job(job)["JobName"]
    native = lab.slurm.sbatch("--hold", "--account=k8s", user="lab_alice")
    refusal(lab.slurm.run, *rename(native, "bobs"), user="lab_bob")
    sacctmgr("add", "coordinator", "account=k8s", "names=lab_bob")
    try:
        wait_for(lambda: not answer(lab.slurm.run, *rename(native, "bobs"), user="lab_bob"), what="lab_bob is a coordinator to slurmctld")
        for word in ("JobName=bobs", "NumCPUs=2", "QOS=low"):
            said = refusal(lab.slurm.run, "scontrol", "update", f"JobId={job}", word, user="lab_bob")
            said += lab.log("slurmctld") if lab.slurm.version() < (23, 2) else ""  # a plugin has no other place for it there
            assert f"{word.split('=')[0]} of job {job} cannot be changed" in said, said
        assert lab.slurm.job(job)["JobName"] == name
        lab.slurm.run("scontrol", "update", f"JobId={job}", "TimeLimit=5", user="lab_bob")
        sacctmgr("modify", "user", "lab_bob", "set", "adminlevel=Operator")
        wait_for(lambda: not answer(lab.slurm.run, *rename(job, "by-operator"), user="lab_bob"), what="lab_bob is an operator to slurmctld")
        assert lab.slurm.job(job)["JobName"] == "by-operator"
    finally:
        sacctmgr("modify", "user", "lab_bob", "set", "adminlevel=None")
        sacctmgr("delete", "coordinator", "account=k8s", "names=lab_bob")
