"""Two controllers, of which one leads, and two slurmctld, of which one does: who takes over when, and that nothing is submitted twice,
forgotten, or written by a controller that no longer leads. The lease is short here (leader.yaml), and submissions go one by one."""

import json
import os
import struct

from forgotten import just_saved
from lab import holds_for, wait_for
from test_guard import forge, refusal, ticket
from witness import audit, bindings, fill, jobs_of, placeholders, running_pod, wait_job, wait_state

HERE = os.path.dirname(os.path.abspath(__file__))
LAB = ["--nodes", "2", "--backup", "--berth-yaml", os.path.join(HERE, "leader.yaml")]
LEASE = "/apis/coordination.k8s.io/v1/namespaces/berth-system/leases/slurm-bridge-scheduler"
LIVE = ("PENDING", "RUNNING", "SUSPENDED", "COMPLETING")


# --- tools of these tests

def lease(lab):
    """(holder, term) as the lease has it."""
    record = lab.kube.get(LEASE)
    return record["spec"].get("holderIdentity", ""), int(record["metadata"]["annotations"]["berth.dev/term"])


def the_other(name):
    return "controller2" if name == "controller" else "controller"


def wait_leader(lab, name, deadline=30):
    wait_for(lambda: lease(lab)[0] == name, deadline, f"{name} holds the lease")
    return lease(lab)[1]


def let_lead(lab, name="controller"):
    """Has this one lead and the other stand by, whoever did before; the term."""
    other, said = the_other(name), 0
    if lease(lab)[0] != name:
        lab.daemon("stop", f"berthd:{other}")
        wait_leader(lab, name)
        said = len(lab.log(f"berthd:{other}"))
        lab.daemon("start", f"berthd:{other}")
    wait_for(lambda: f"{name} leads; this controller, {other}, stands by" in lab.log(f"berthd:{other}")[said:], 30, f"{other} stands by")
    return lease(lab)[1]


def live_jobs(lab, pod):
    return [job for job in jobs_of(lab, pod) if job["JobState"] in LIVE]


def wait_one_job_each(lab, pods, deadline=60):
    """Until each of the pods has a live placeholder, and fails when one ever has two."""
    def all_there():
        found = placeholders(lab)
        live = [[job for job in found.get(pod["metadata"]["uid"], []) if job["JobState"] in LIVE] for pod in pods]
        assert all(len(jobs) <= 1 for jobs in live), f"two placeholders for one pod: {live}"
        return all(live)
    wait_for(all_there, deadline, f"each of {len(pods)} pods has a job")


def in_table(lab, controller, job):
    """Whose placeholder job_submit_berth.so on that controller's host takes the job for; 0: nobody's."""
    with open(f"{lab.run_dir}/{controller}/placeholders", "rb") as file:
        file.seek(4 * job)
        data = file.read(4)
    return struct.unpack("=I", data)[0] if len(data) == 4 else 0


def writes_by(lab, controller):
    return [entry for entry in audit(lab) if entry["agent"] == f"berthd/{controller}"]


def wait_slurmctld(lab, name):
    """Until the slurmctld of this name is the one that answers."""
    def active():
        conf = next(line for line in lab.slurm.run("scontrol", "show", "config").splitlines() if line.startswith("SLURM_CONF "))
        return ("/backup/" in conf) == (name == "slurmctld:backup")
    wait_for(active, 60, f"{name} answers", 0.2)


# --- controllers

def test_standby_writes_nothing_and_guards_its_host(lab):
    let_lead(lab)
    pod, job = running_pod(lab)
    before = len(writes_by(lab, "controller2"))
    wait_for(lambda: in_table(lab, "controller2", job) == 20001, 30, "the standby's table has the placeholder")
    assert in_table(lab, "controller", job) == 20001
    lab.delete(pod)
    wait_state(lab, job, "CANCELLED", "COMPLETED", "FAILED")
    wait_for(lambda: in_table(lab, "controller2", job) == 0, 30, "the standby's table has let it go")
    assert len(writes_by(lab, "controller2")) == before


def test_clean_stop_hands_over_at_once(lab):
    term = let_lead(lab)
    lab.daemon("stop", "berthd:controller")
    wait_leader(lab, "controller2")
    assert "the lease is let go" in lab.log("berthd:controller")
    assert lease(lab)[1] > term
    pod, job = running_pod(lab)
    assert json.loads(lab.slurm.job(job)["AdminComment"])["term"] == lease(lab)[1]
    lab.daemon("start", "berthd:controller")
    let_lead(lab)
    assert lab.phase(pod) == "Running" and lab.job_id(pod) == job
    assert len(jobs_of(lab, pod)) == 1


def test_leader_killed_in_a_burst_nothing_is_doubled_or_forgotten(lab):
    let_lead(lab)
    running, running_job = running_pod(lab)
    wait_state(lab, lab.slurm.sbatch("--nodes=2", "--ntasks=14", "--mem=100"), "RUNNING")  # what is left is one CPU
    burst = [lab.create(cpu=4) for _ in range(15)]
    wait_for(lambda: placeholders(lab).get(burst[3]["metadata"]["uid"]), 30, "some are submitted")
    lab.daemon("kill", "berthd:controller")
    meanwhile = [lab.create(cpu=4) for _ in range(5)]
    lab.delete(burst[0], grace=0)
    wait_leader(lab, "controller2")
    pods = burst[1:] + meanwhile
    wait_one_job_each(lab, pods)
    wait_for(lambda: not live_jobs(lab, burst[0]), 30, "the job of the pod that was deleted meanwhile ends")
    assert lab.phase(running) == "Running" and lab.job_id(running) == running_job

    # The new leader hears of what becomes of its predecessor's jobs.
    cancelled = int(live_jobs(lab, pods[0])[0]["JobId"])
    lab.slurm.scancel(cancelled)
    lab.wait_gone(pods[0], 30)
    dropped = int(live_jobs(lab, pods[1])[0]["JobId"])
    lab.delete(pods[1], grace=0)
    wait_state(lab, dropped, "CANCELLED")
    lab.daemon("start", "berthd:controller")
    # One whose answer was on its way to the leader that was killed was cancelled by slurmctld itself, before it could start.
    found = placeholders(lab)
    for pod in pods + [running]:
        lasting = [job["JobId"] for job in found[pod["metadata"]["uid"]] if job["JobState"] != "CANCELLED" or int(job["JobId"]) in (cancelled, dropped)]
        assert len(lasting) == 1, found[pod["metadata"]["uid"]]


def test_paused_leader_that_wakes_up_writes_nothing(lab):
    """It has submissions in its queue, pods that arrive, and conditions and cancellations to write."""
    let_lead(lab)
    full = fill(lab)
    waiting = lab.create()
    wait_job(lab, waiting)
    lab.daemon("pause", "slurmctld")
    queued = [lab.create() for _ in range(8)]
    wait_for(lambda: all(pod["metadata"]["uid"] in lab.log("berthd:controller") or pod["metadata"]["name"] in lab.log("berthd:controller")
                         for pod in queued), 30, "the leader has heard of the pods")
    lab.daemon("pause", "berthd:controller")
    lab.delete(waiting, grace=0)
    lab.daemon("resume", "slurmctld")
    term = wait_leader(lab, "controller2")
    wait_one_job_each(lab, queued)
    wait_for(lambda: not live_jobs(lab, waiting), 30, "the new leader cancels what its predecessor would have")

    written, jobs = len(writes_by(lab, "controller")), {job["JobId"] for of_pod in placeholders(lab).values() for job in of_pod}
    log = len(lab.log("berthd:controller"))
    lab.daemon("resume", "berthd:controller")
    wait_for(lambda: "controller2 leads; this controller, controller, stands by" in lab.log("berthd:controller")[log:], 30, "it stands by")
    holds_for(lambda: lease(lab) == ("controller2", term), 2, "controller2 leads on")
    assert len(writes_by(lab, "controller")) == written, writes_by(lab, "controller")[written:]
    assert {job["JobId"] for of_pod in placeholders(lab).values() for job in of_pod} == jobs
    assert "held back" in lab.log("berthd:controller")[log:], "the fence had nothing to hold back: the test shows nothing"

    lab.slurm.scancel(full)
    for pod in queued:
        lab.wait_phase(pod, "Running")
    assert all(bindings(lab)[pod["metadata"]["uid"]] == 1 for pod in queued)


def test_leader_without_api_server_pauses_and_goes_on(lab):
    let_lead(lab)
    pid, term, log = lab.daemon("pid", "berthd:controller"), lease(lab)[1], len(lab.log("berthd:controller"))
    lab.daemon("pause", "kube-apiserver")
    wait_for(lambda: "nothing is written until it is" in lab.log("berthd:controller")[log:], 30, "the leader stops writing")
    lab.daemon("resume", "kube-apiserver")
    # Both may be first: the leader to renew, or the standby that has seen no change of the lease for too long.
    wait_for(lambda: "still ours" in lab.log("berthd:controller")[log:] or "starting anew" in lab.log("berthd:controller")[log:], 30)
    running_pod(lab)
    assert lab.daemon("pid", "berthd:controller") == pid
    if "still ours" in lab.log("berthd:controller")[log:]:
        assert lease(lab) == ("controller", term)


def test_ticket_of_a_leader_before_is_refused_by_slurmctld(lab):
    term = let_lead(lab)
    _, job = running_pod(lab)
    assert json.loads(lab.slurm.job(job)["AdminComment"])["term"] == term

    def submit(**more):
        text = json.dumps({**json.loads(ticket()), **more}, separators=(",", ":"))
        return forge(lab, "--admin-comment", text, "--env", "SPANK_BERTH=unsealed", user="slurm")
    said = refusal(submit, term=term - 1)
    assert f"this controller led in term {term - 1}; since term {term} another leads the cluster lab" in said
    lab.slurm.scancel(submit())  # as from a controller before there were terms

    # A new leader is known before it has submitted anything.
    lab.daemon("stop", "berthd:controller")
    wait_leader(lab, "controller2")
    wait_for(lambda: "are known" in lab.log("berthd:controller2").rsplit("leads, in term", maxsplit=1)[-1], 30, "the new leader has looked")
    assert f"since term {lease(lab)[1]}" in refusal(submit, term=term)
    lab.daemon("start", "berthd:controller")


# --- slurmctld

def placed_in_both_states(lab):
    """A running pod, a waiting one, and their jobs."""
    running, running_job = running_pod(lab)
    wait_state(lab, lab.slurm.sbatch("--nodes=2", "--ntasks=14", "--mem=100", user="lab_bob"), "RUNNING")  # what is left is one CPU
    waiting = lab.create(cpu=4)
    waiting_job = int(wait_job(lab, waiting)["JobId"])
    wait_for(lambda: in_table(lab, "controller2", waiting_job) == 20001, 30, "the standby's table has the waiting placeholder")
    just_saved(lab)  # what is younger than that, a slurmctld that is killed forgets
    return running, running_job, waiting, waiting_job


def check_on_backup(lab, running, running_job, waiting, waiting_job):
    """Everything goes on with slurmctld on the backup's host."""
    assert lab.slurm.job_state(running_job) == "RUNNING" and lab.phase(running) == "Running"
    assert lab.slurm.job_state(waiting_job) == "PENDING"
    for change in ("MinMemoryNode=1", "NumCPUs=1", "Partition=main"):
        said = refusal(lab.slurm.run, "scontrol", "update", f"JobId={waiting_job}", change, user="lab_alice")
        assert "Access" in said or "permission" in said.lower(), said
    lab.slurm.scancel(waiting_job)
    lab.wait_gone(waiting, 60)
    fresh, fresh_job = running_pod(lab)
    lab.delete(fresh)
    wait_state(lab, fresh_job, "CANCELLED")
    lab.delete(running)
    wait_state(lab, running_job, "CANCELLED")
    assert len(jobs_of(lab, running)) == 1 and len(jobs_of(lab, waiting)) == 1


def test_scontrol_takeover_pods_and_jobs_go_on(lab):
    let_lead(lab)
    placed = placed_in_both_states(lab)
    lab.slurm.run("scontrol", "takeover")
    wait_slurmctld(lab, "slurmctld:backup")
    check_on_backup(lab, *placed)
    lab.daemon("start", "slurmctld")
    wait_slurmctld(lab, "slurmctld")


def test_primary_host_lost_pods_and_jobs_go_on(lab):
    """slurmctld and the leading controller die together, as their host would."""
    let_lead(lab)
    placed = placed_in_both_states(lab)
    lab.daemon("kill", "slurmctld", "berthd:controller")
    wait_leader(lab, "controller2")
    wait_slurmctld(lab, "slurmctld:backup")
    check_on_backup(lab, *placed)
    lab.daemon("start", "slurmctld")
    wait_slurmctld(lab, "slurmctld")
    lab.daemon("start", "berthd:controller")
    let_lead(lab)
