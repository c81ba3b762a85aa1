"""Processes that die, stop or are away: pods and jobs are delayed, and nothing is lost, doubled or left over."""

import glob
import os
import re
import shutil
import socket
import threading

from forgotten import just_saved, restart_slurmctld
from gangs import create_group, join_group, on_nodes, running_gang, wait_all_gone
from handover import KILL_WAIT, LIMIT, SHORT_HOLD, NativeJob, Observer, agents, completing, settled, wait_prolog
from lab import holds_for, wait_for
from witness import audit, bindings, fill, jobs_of, placeholders, running_pod, wait_job, wait_state

LAB = SHORT_HOLD
API = ("kube-apiserver", "etcd")


def records(lab, kind, node="*"):
    return glob.glob(f"{lab.run_dir}/{node}/{kind}/*")


def allocated(lab, **words):
    """A pod, its job once the prolog has returned, and their node."""
    pod = lab.create(**words)
    job = int(wait_job(lab, pod, 60)["JobId"])
    return pod, job, wait_prolog(lab, job)


def is_bound(lab, pod):
    return bool(lab.get(pod)["spec"].get("nodeName"))


def listens(path):
    """Whether somebody accepts connections there; a socket that a dead process left refuses."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        return connection.connect_ex(path) == 0


def api_answers(lab):
    """The API server is there; Berth's agents find that out within half a minute, which is why tests after this one are patient."""
    wait_for(lambda: lab.kube.get("/readyz") == "ok", 60, "the API server answers")


def request_waits(lab):
    """Whether somebody has written a request to slurmctld that it has not read."""
    with open(lab.slurm.environment["SLURM_CONF"], encoding="utf-8") as file:
        port = int(re.search(r"^SlurmctldPort=(\d+)", file.read(), re.MULTILINE)[1])
    with open("/proc/net/tcp", encoding="ascii") as file:
        fields = [line.split() for line in file.readlines()[1:]]
    return any(int(f[1].split(":")[1], 16) == port and int(f[4].split(":")[1], 16) > 512 for f in fields)


def each_ran_once(lab, pods, deadline=90):
    """Every pod succeeds, was bound once, and exactly one job of it ran to its end."""
    uids = [pod["metadata"]["uid"] for pod in pods]

    def all_succeed():
        phases = {p["metadata"]["uid"]: p["status"]["phase"] for p in lab.pods()}
        return all(phases.get(uid) == "Succeeded" for uid in uids)
    wait_for(all_succeed, deadline, "all pods succeed", 0.2)
    settled(lab)
    accepted, jobs, asked = bindings(lab), placeholders(lab), {}
    for entry in audit(lab):
        if entry["resource"] == "pods/binding":
            asked[entry["uid"]] = asked.get(entry["uid"], 0) + 1
    # Who asks and is killed before the answer leaves one Binding that the server carried out and counts as a conflict; a server that is
    # killed may not have written it down at all. Either way the pod, which ran, was asked for once at most.
    odd = {uid: (accepted.get(uid, 0), asked.get(uid, 0)) for uid in uids
           if accepted.get(uid, 0) != 1 and (accepted.get(uid, 0), asked.get(uid, 0)) not in ((0, 0), (0, 1))}
    assert not odd, f"each is bound once, but (accepted, asked): {odd}"
    states = {uid: [job["JobState"] for job in jobs.get(uid, [])] for uid in uids}
    assert {uid: state for uid, state in states.items() if state.count("COMPLETED") != 1} == {}, "each has one job that ran"
    return states


# --- the node's agent

def test_agent_away_at_allocation_binds_when_it_starts(lab):
    lab.daemon("stop", *agents(lab))
    pod, job, node = allocated(lab, run_for="500ms")
    assert len(glob.glob(f"{lab.run_dir}/{node}/jobs/{job}.*")) == 1, "the prolog left word"
    holds_for(lambda: not is_bound(lab, pod) and lab.slurm.job_state(job) == "RUNNING", 1, "nobody is there to bind")
    lab.daemon("start", *agents(lab))
    each_ran_once(lab, [pod])
    assert not records(lab, "jobs")


def test_agent_away_never_binds_for_a_job_cancelled_meanwhile(lab):
    lab.daemon("stop", *agents(lab))
    pod, job, _ = allocated(lab)
    lab.slurm.scancel(job)
    wait_state(lab, job, "CANCELLED")
    lab.daemon("start", *agents(lab))
    lab.wait_gone(pod)
    settled(lab)
    assert pod["metadata"]["uid"] not in bindings(lab) and len(jobs_of(lab, pod)) == 1
    assert not records(lab, "jobs")


def test_cancelled_job_stays_cancelled_for_an_agent_that_was_away_with_the_controller(lab):
    lab.daemon("stop", *agents(lab))
    pod, job, _ = allocated(lab)
    lab.daemon("kill", "berthd:controller")
    lab.slurm.scancel(job)
    wait_state(lab, job, "CANCELLED")
    lab.daemon("start", *agents(lab))
    holds_for(lambda: not is_bound(lab, pod), 2, "the pod still waits, and its job is over")
    lab.daemon("start", "berthd:controller")
    lab.wait_gone(pod)
    settled(lab)
    assert pod["metadata"]["uid"] not in bindings(lab) and len(jobs_of(lab, pod)) == 1


def test_agent_away_without_a_pod_delays_no_end(lab):
    lab.daemon("stop", *agents(lab))
    pod, job, node = allocated(lab)
    lab.slurm.scancel(job)
    wait_for(lambda: lab.slurm.nodes()[node] == "idle", 30, "the epilog returns at once")
    assert "Reason" not in lab.slurm.node(node)
    lab.wait_gone(pod)
    lab.daemon("start", *agents(lab))
    settled(lab)


def test_agent_away_at_the_end_holds_the_node_until_it_returns(lab):
    pod, job = running_pod(lab)
    agent = "berthd:" + pod["spec"]["nodeName"]
    lab.daemon("kill", agent, "berthd:controller")
    native = NativeJob(lab, pod)
    lab.slurm.scancel(job)
    holds_for(lambda: lab.slurm.job_state(job) in ("RUNNING", "COMPLETING") and lab.processes(pod) and not native.started(), 3,
              "the pod lives, so the job holds its place")
    assert completing(lab, pod)
    lab.daemon("start", agent)
    lab.wait_gone(pod)
    native.verify()
    lab.daemon("start", "berthd:controller")
    settled(lab)


def test_pod_gone_while_its_agent_was_away_is_proven_gone_later(lab):
    pod, job = running_pod(lab)
    agent = "berthd:" + pod["spec"]["nodeName"]
    lab.daemon("kill", agent)
    lab.slurm.scancel(job)
    lab.wait_gone(pod)  # the controller deletes it
    assert lab.slurm.job_state(job) == "COMPLETING", "who proves it?"
    lab.daemon("start", agent)
    settled(lab)


def test_agent_stopped_by_a_signal_at_allocation_delays_its_pods_only(lab):
    lab.daemon("pause", *agents(lab))
    pod, job, node = allocated(lab, run_for="500ms")
    native = lab.slurm.sbatch("-w", node, "--mem=64", wrap="true")
    wait_state(lab, native, "COMPLETED", deadline=60)
    assert not is_bound(lab, pod)
    lab.daemon("resume", *agents(lab))
    each_ran_once(lab, [pod])
    assert lab.slurm.job_state(job) == "COMPLETED"


def test_agent_stopped_by_a_signal_at_the_end_holds_the_node(lab):
    pod, job = running_pod(lab)
    agent = "berthd:" + pod["spec"]["nodeName"]
    native = NativeJob(lab, pod)
    lab.daemon("pause", agent)
    lab.slurm.scancel(job)
    holds_for(lambda: not native.started(), 2, "the hold stands")
    lab.daemon("resume", agent)
    native.verify()
    settled(lab)


def test_agents_killed_in_a_burst_bind_each_pod_once(lab):
    observer = Observer(lab)
    pods = []
    for _ in range(4):
        pods += [lab.create(cpu="500m", memory="16Mi", run_for="300ms") for _ in range(8)]
        wait_for(lambda: any(is_bound(lab, pod) for pod in pods[-8:]), what="the burst is under way")
        lab.daemon("kill", *agents(lab))
        lab.daemon("start", *agents(lab))
    states = each_ran_once(lab, pods)
    observer.verify()
    assert all(len(jobs) == 1 for jobs in states.values())


def without_records(lab, node, start=True):
    """The node's agent dies, and all that it wrote is lost."""
    lab.daemon("kill", f"berthd:{node}")
    shutil.rmtree(f"{lab.run_dir}/{node}")
    if start:
        lab.daemon("start", f"berthd:{node}")


def test_agent_without_its_records_takes_over_its_pod_and_holds_it(lab):
    pod, job = running_pod(lab, die_after="2s")
    node = pod["spec"]["nodeName"]
    without_records(lab, node)
    wait_for(lambda: lab.held(node), what="the pod is taken over")
    native = NativeJob(lab, pod)
    lab.slurm.scancel(job)
    native.verify()
    settled(lab)


def test_agent_without_its_records_completes_the_job_of_a_pod_that_ends(lab):
    pod, job = running_pod(lab, run_for="2s", exit_code=3)
    node = pod["spec"]["nodeName"]
    without_records(lab, node)
    lab.wait_phase(pod, "Failed")
    wait_state(lab, job, "FAILED")
    settled(lab)
    assert lab.slurm.job(job)["ExitCode"] == "3:0"


def test_agent_without_its_records_completes_the_job_of_a_pod_that_ended_meanwhile(lab):
    pod, job = running_pod(lab, run_for="1s", exit_code=3)
    node = pod["spec"]["nodeName"]
    without_records(lab, node, start=False)
    lab.wait_phase(pod, "Failed")
    lab.daemon("start", f"berthd:{node}")
    wait_state(lab, job, "FAILED")
    settled(lab)
    assert lab.slurm.job(job)["ExitCode"] == "3:0"


def gang_of_pairs(lab, **words):
    """A gang with two pods on each node: its pods, those on the second node, and its job."""
    group = create_group(lab, 2 * len(lab.nodes))
    join_group(lab, group, 2 * len(lab.nodes), cpu=4, **words)
    pods, job = running_gang(lab, group, 2 * len(lab.nodes))
    assert set(on_nodes(pods).values()) == {2}
    return pods, [pod for pod in pods if pod["spec"]["nodeName"] == lab.nodes[1]], int(job["JobId"])


def bound_once(lab, pods):
    counts = bindings(lab)
    assert [counts.get(pod["metadata"]["uid"]) for pod in pods] == [1] * len(pods)


def test_agent_without_its_records_takes_over_its_pods_of_a_gang_and_holds_them(lab):
    pods, there, job = gang_of_pairs(lab, die_after="2s")
    before = {pod["metadata"]["uid"]: lab.processes(pod) for pod in pods}
    without_records(lab, lab.nodes[1])
    wait_for(lambda: len(lab.held(lab.nodes[1])) == 2, what="both are taken over")
    assert before == {pod["metadata"]["uid"]: lab.processes(pod) for pod in pods} and lab.slurm.job_state(job) == "RUNNING"
    natives = [NativeJob(lab, pod) for pod in (there[0], next(pod for pod in pods if pod not in there))]
    lab.slurm.scancel(job)
    for native in natives:
        native.verify()
    wait_all_gone(lab, pods)
    settled(lab)
    bound_once(lab, pods)


def test_agent_without_its_records_completes_the_job_of_a_gang_that_ends(lab):
    pods, _, job = gang_of_pairs(lab, run_for="3s")
    without_records(lab, lab.nodes[1])
    wait_state(lab, job, "COMPLETED")
    settled(lab)
    assert all(lab.phase(pod) == "Succeeded" for pod in pods)
    bound_once(lab, pods)


def test_agent_without_its_records_deletes_its_pods_of_a_gang_cancelled_meanwhile(lab):
    pods, there, job = gang_of_pairs(lab)
    lab.daemon("kill", "berthd:controller")  # which deletes pods of jobs that have ended, too
    without_records(lab, lab.nodes[1], start=False)
    lab.slurm.scancel(job)
    wait_all_gone(lab, [pod for pod in pods if pod not in there])
    assert all(map(lab.processes, there))
    lab.daemon("start", f"berthd:{lab.nodes[1]}")
    wait_all_gone(lab, there)
    lab.daemon("start", "berthd:controller")
    settled(lab)
    bound_once(lab, pods)


def test_exit_code_outlives_an_agent_that_stays_away(lab):
    pod, job = running_pod(lab, run_for="1s", exit_code=3)
    lab.daemon("stop", *agents(lab))
    lab.wait_phase(pod, "Failed")
    wait_for(lambda: lab.slurm.job_state(job) != "RUNNING", 90, "the controller ends the job")
    lab.daemon("start", *agents(lab))
    assert wait_state(lab, job, "FAILED")["ExitCode"] == "3:0"
    settled(lab)
    assert lab.phase(pod) == "Failed", "how it ended can still be read"


def test_finished_pod_outlives_an_agent_killed_before_it_completed_the_job(lab):
    """As if killed after it had proven the pod gone; the job then ends while the next agent still waits for the API server."""
    pod, job = running_pod(lab, run_for="1s")
    node = pod["spec"]["nodeName"]
    lab.daemon("kill", f"berthd:{node}")
    lab.wait_phase(pod, "Succeeded")
    for record in lab.held(node):
        os.unlink(record)
    lab.daemon("pause", "kube-apiserver")
    try:
        lab.daemon("start", f"berthd:{node}")
        wait_for(lambda: listens(f"{lab.run_dir}/{node}/agent.sock"), what="the agent listens")
        lab.slurm.scancel(job)
        wait_for(lambda: lab.slurm.job_state(job) == "CANCELLED", what="the epilog returns, for nothing is held")
    finally:
        lab.daemon("resume", "kube-apiserver")
    api_answers(lab)
    settled(lab)
    holds_for(lambda: lab.phase(pod) == "Succeeded", 2, "what a finished pod leaves behind is its owner's")


# --- the API server

def test_hold_waits_for_an_api_server_that_is_away(lab):
    pod, job = running_pod(lab)
    native = NativeJob(lab, pod)
    lab.daemon("kill", "kube-apiserver")
    lab.slurm.scancel(job)
    holds_for(lambda: lab.processes(pod) and not native.started() and lab.slurm.job_state(job) in ("RUNNING", "COMPLETING"),
              LIMIT + KILL_WAIT + 2, "the hold's clock stands still")
    assert lab.slurm.nodes()[native.node] == "completing"
    lab.daemon("start", "kube-apiserver")
    native.verify()
    api_answers(lab)
    settled(lab)


def test_api_server_away_at_allocation_delays_the_binding_only(lab):
    job = fill(lab)
    pod = lab.create(run_for="500ms")
    its_job = int(wait_job(lab, pod, 60)["JobId"])
    lab.daemon("kill", "kube-apiserver")
    lab.slurm.scancel(job)
    wait_prolog(lab, its_job)
    lab.daemon("start", "kube-apiserver")
    api_answers(lab)
    each_ran_once(lab, [pod])


def test_job_cancelled_while_the_api_server_is_away_is_never_bound(lab):
    job = fill(lab)
    pod = lab.create()
    its_job = int(wait_job(lab, pod, 60)["JobId"])
    lab.daemon("kill", "kube-apiserver")
    lab.slurm.scancel(job)
    wait_prolog(lab, its_job)
    lab.slurm.scancel(its_job)
    lab.daemon("start", "kube-apiserver")
    api_answers(lab)
    lab.wait_gone(pod, 60)
    settled(lab)
    assert pod["metadata"]["uid"] not in bindings(lab) and len(jobs_of(lab, pod)) == 1


def test_job_cancelled_after_its_binding_was_refused_ends_at_once(lab):
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/berth-node"
    rules = lab.kube.get(path)["rules"]
    lab.kube.patch(path, {"rules": [rule for rule in rules if "pods/binding" not in rule["resources"]]})
    try:
        pod = lab.create()
        job = int(wait_job(lab, pod, 60)["JobId"])
        wait_for(lambda: any(entry["resource"] == "pods/binding" and entry["code"] == 403 and entry["name"] == pod["metadata"]["name"]
                             for entry in audit(lab)), what="the binding is refused")
        lab.daemon("pause", "berthd:controller")  # it deletes unbound pods, too
        lab.slurm.scancel(job)
        wait_for(lambda: not lab.held(), LIMIT - 1, "it is proven that the pod was not bound")
    finally:
        lab.kube.patch(path, {"rules": rules})
        lab.daemon("resume", "berthd:controller")
    lab.wait_gone(pod)
    settled(lab)


def test_api_server_and_etcd_killed_in_a_burst_run_each_pod_once(lab):
    pods = [lab.create(cpu="500m", memory="16Mi", run_for="1s") for _ in range(30)]
    wait_for(lambda: sum(is_bound(lab, pod) for pod in pods) >= 3, 60, "the burst is under way")
    lab.daemon("kill", *API)
    lab.daemon("start", *reversed(API))
    api_answers(lab)
    each_ran_once(lab, pods)


# --- slurmctld

def test_slurmctld_stopped_in_a_burst_makes_no_second_job(lab):
    pods = []

    def create():
        pods.extend(lab.create(cpu="500m", memory="16Mi", run_for="200ms") for _ in range(20))
    burst = threading.Thread(target=create)
    burst.start()
    wait_for(lambda: len(pods) > 2, what="the burst is under way")
    lab.daemon("pause", "slurmctld")
    burst.join()
    holds_for(lambda: lab.daemons()["slurmctld"] == "paused", 5)
    lab.daemon("resume", "slurmctld")
    states = each_ran_once(lab, pods)
    assert all(len(jobs) == 1 for jobs in states.values())


def test_slurmctld_restarted_goes_on_with_waiting_and_running_pods(lab):
    runs, its_job = running_pod(lab, cpu=8)
    more = [running_pod(lab, cpu=8)[0] for _ in lab.nodes[1:]]
    waits = lab.create(cpu=8, run_for="200ms")
    job = int(wait_job(lab, waits, 60)["JobId"])
    before = lab.processes(runs)
    lab.daemon("restart", "slurmctld")
    wait_for(lambda: lab.slurm.job_state(job) == "PENDING" and lab.slurm.job_state(its_job) == "RUNNING", 60, "slurmctld remembers both")
    assert lab.processes(runs) == before
    lab.delete(more[0])
    lab.wait_phase(waits, "Succeeded", 60)
    wait_state(lab, job, "COMPLETED")
    assert lab.processes(runs) == before and len(jobs_of(lab, waits)) == 1
    lab.slurm.scancel(its_job)
    lab.wait_gone(runs)


def test_submission_waits_for_a_slurmctld_that_is_away(lab):
    lab.daemon("stop", "slurmctld")
    pods = [lab.create(cpu="500m", memory="16Mi", run_for="200ms") for _ in range(5)]
    holds_for(lambda: not any(is_bound(lab, pod) for pod in pods), 1, "nobody allots a place")
    lab.daemon("start", "slurmctld")
    each_ran_once(lab, pods)


def test_job_lost_before_its_pod_was_bound_is_submitted_again(lab):
    lab.daemon("stop", *agents(lab))
    mark = just_saved(lab)
    pod, job, _ = allocated(lab, run_for="200ms")
    restart_slurmctld(lab)
    lab.slurm.scancel(mark)
    lab.daemon("start", *agents(lab))
    each_ran_once(lab, [pod])


def test_reconfigure_in_a_burst_disturbs_nothing(lab):
    pods = []
    for _ in range(3):
        pods += [lab.create(cpu="500m", memory="16Mi", run_for="300ms") for _ in range(6)]
        lab.slurm.run("scontrol", "reconfigure")
    states = each_ran_once(lab, pods, 150)
    # slurmctld may lose an answer while it reads its configuration, and kills that job itself; or its call for a job's prolog, which the
    # controller gives up after a while. Either way the pod gets another.
    assert all(set(jobs) <= {"COMPLETED", "FAILED", "CANCELLED"} and len(jobs) <= 2 for jobs in states.values()), states


# --- the controller

def test_ends_of_all_kinds_need_no_controller_that_runs(lab):
    for verbs in (("pause", "resume"), ("kill", "start")):
        observer = Observer(lab)
        ends = lab.create(run_for="2s", exit_code=3)
        deleted, _ = running_pod(lab, die_after="500ms")
        cancelled, its_job = running_pod(lab, die_after="500ms")
        lab.wait_bound(ends)
        lab.daemon(verbs[0], "berthd:controller")
        lab.delete(deleted)
        lab.slurm.scancel(its_job)
        lab.wait_gone(deleted)
        lab.wait_gone(cancelled)
        lab.wait_phase(ends, "Failed")
        settled(lab)
        lab.daemon(verbs[1], "berthd:controller")
        after = lab.create(run_for="100ms")
        each_ran_once(lab, [after])
        observer.verify()
        assert [len(jobs_of(lab, pod)) for pod in (ends, deleted, cancelled)] == [1, 1, 1]
        assert jobs_of(lab, ends)[0]["ExitCode"] == "3:0"


def test_controller_killed_in_a_burst_submits_nothing_twice(lab):
    pods = []
    for _ in range(3):
        pods += [lab.create(cpu="500m", memory="16Mi", run_for="300ms") for _ in range(8)]
        wait_for(lambda: jobs_of(lab, pods[-8]), what="the burst is under way")
        lab.daemon("kill", "berthd:controller")
        lab.daemon("start", "berthd:controller")
    each_ran_once(lab, pods)


def test_controller_killed_before_slurmctld_answers_gets_its_pod_another_job(lab):
    blocker = fill(lab)
    lab.daemon("pause", "slurmctld")
    pod = lab.create(run_for="200ms")
    wait_for(lambda: f"{pod['metadata']['name']}: waiting --turn--> submitting" in lab.log("berthd:controller") and request_waits(lab),
             what="the submission is written")
    lab.daemon("kill", "berthd:controller")
    lab.daemon("resume", "slurmctld")
    killed = wait_job(lab, pod)
    wait_state(lab, int(killed["JobId"]), "CANCELLED")  # by slurmctld: nobody took its answer
    lab.daemon("start", "berthd:controller")
    wait_for(lambda: len(jobs_of(lab, pod)) == 2, 60, "the pod has another job")
    lab.slurm.scancel(blocker)
    each_ran_once(lab, [pod])
