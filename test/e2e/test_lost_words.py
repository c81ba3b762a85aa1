"""Words that are lost, late or said twice: slurmctld's answers, the API server's, epilogs, and the records of jobs that have ended."""

import hashlib
import hmac
import json
import os
import shutil
import subprocess
import time

import forgotten
from faulty_api import FaultyApi, is_binding, is_list_by
from gangs import annotation
from handover import API_DOWN, IMPATIENT, LIMIT, MESSAGE_TIMEOUT, NativeJob, completing, settled
from lab import JOB_ID, holds_for, wait_for
from lossy_slurmctld import LossySlurmctld
from test_faults import api_answers, each_ran_once
from witness import NONCE, bindings, fill, jobs_of, placeholders, running_pod, wait_job, wait_state

LAB = IMPATIENT


# --- slurmctld's answers

def test_slurmctld_stopped_past_message_timeout_under_load_leaves_one_job_for_each_pod(lab):
    running, its_job = running_pod(lab)
    before = lab.processes(running)
    with LossySlurmctld(lab) as link:
        pods = [lab.create(cpu="500m", memory="16Mi", run_for="300ms") for _ in range(6)]
        wait_for(lambda: any(map(lab.job_id, pods)), 60, "the burst is under way")
        lab.daemon("pause", "slurmctld")
        link.lose(True)
        pods += [lab.create(cpu="500m", memory="16Mi", run_for="300ms") for _ in range(18)]
        stopped = time.monotonic()
        wait_for(lambda: link.lost() >= 18 and time.monotonic() > stopped + 2 * MESSAGE_TIMEOUT, 60, "answers are lost")
        link.lose(False)
        lab.daemon("resume", "slurmctld")
        check_one_job_each(lab, pods, its_job)
    assert not any(word in state for state in lab.slurm.nodes().values() for word in ("drain", "down")), "no node is drained"
    assert lab.processes(running) == before and lab.slurm.job_state(its_job) == "RUNNING"
    lab.slurm.scancel(its_job)
    lab.wait_gone(running)
    settled(lab)


def check_one_job_each(lab, pods, other):
    wait_for(lab.slurm.nodes, 60, "slurmctld answers")
    native = [lab.slurm.sbatch(wrap="true", user="lab_bob") for _ in range(5)]
    wait_for(lambda: all(lab.phase(pod) == "Succeeded" for pod in pods), 120, "every pod runs", 0.5)
    wait_for(lambda: all(lab.slurm.job_state(job) == "COMPLETED" for job in native), 60, "native jobs pass")
    wait_for(lambda: {job["id"] for job in lab.slurm.jobs()} <= {other}, 60, "nothing is left over")
    jobs, bound = placeholders(lab), bindings(lab)
    killed = 0
    for pod in map(lab.get, pods):
        uid = pod["metadata"]["uid"]
        states = [job["JobState"] for job in jobs[uid]]
        assert states.count("COMPLETED") == 1 and set(states) <= {"COMPLETED", "FAILED", "CANCELLED"}, states
        assert bound[uid] == 1
        ran = next(job for job in jobs[uid] if job["JobState"] == "COMPLETED")
        assert annotation(pod, JOB_ID) == ran["JobId"], "nothing is bound for a job that Slurm killed"
        killed += len(states) - 1
    assert killed, "answers were lost, so Slurm killed jobs"
    print(f"        Slurm killed {killed} jobs of {len(pods)} pods")


# --- the API server's

def bound_once(lab, pod):
    """The server accepted one Binding for it, and the pod carries the nonce of the one job it ever had."""
    job, = jobs_of(lab, pod)
    assert json.loads(job["AdminComment"])["nonce"] == annotation(lab.get(pod), NONCE)
    assert annotation(lab.get(pod), JOB_ID) == job["JobId"]
    assert bindings(lab)[pod["metadata"]["uid"]] == 1
    return int(job["JobId"])


def test_binding_that_was_carried_out_although_its_answer_was_lost_counts(lab):
    with FaultyApi(lab) as api:
        api.lose(is_binding, "answer")
        pod = lab.wait_phase(lab.create(), "Running")
        api.wait_lost(1)
        job = bound_once(lab, pod)
        assert len(lab.held(pod["spec"]["nodeName"])) == 1
        native = NativeJob(lab, pod)
        lab.slurm.scancel(job)  # and the agent knows that it is its own
        native.verify()
        lab.wait_gone(pod)
        settled(lab)


def test_binding_that_was_lost_on_its_way_is_sent_again(lab):
    with FaultyApi(lab) as api:
        api.lose(is_binding, "request", 2)
        pod = lab.create(run_for="300ms")
        each_ran_once(lab, [pod])
        api.wait_lost(2)
        bound_once(lab, pod)


def test_answers_that_take_half_a_minute_make_no_second_job_or_binding(lab):
    """Two Bindings, one answered when its sender has given up (after 30 s) and one shortly before; and the list of pods that an agent begins with,
    the controller's and a node's, for which they wait longer."""
    early, late = 26, 32
    with FaultyApi(lab, controller=True) as api:
        blocker = fill(lab)
        pods = [lab.create(cpu=8, run_for="1s") for _ in lab.nodes]
        for pod in pods:
            wait_job(lab, pod)
        lab.daemon("stop", "berthd:controller", "berthd:n1")
        for seconds in (late, early):
            api.delay(is_binding, seconds)
        for field in ("spec.schedulerName", "spec.nodeName"):
            api.delay(is_list_by(field), late)
        began, asked = time.monotonic(), api.asked()
        lab.daemon("start", "berthd:controller", "berthd:n1")
        lab.slurm.scancel(blocker)
        api.wait_lost(4)
        each_ran_once(lab, pods)
        assert time.monotonic() > began + late
        print(f"        {api.asked() - asked} requests in {time.monotonic() - began:.0f} s")
        for pod in pods:
            bound_once(lab, pod)
        assert api.asked() - asked < 200, "that is a storm"


def test_job_cancelled_while_the_bindings_answer_is_lost_ends_its_pod(lab):
    """Bound or not? Until the API has said so the place is held, and what was bound goes."""
    with FaultyApi(lab) as api:
        for what in ("answer", "request"):
            api.lose(is_binding, what)
            before = api.lost()
            pod = lab.create(die_after="1s")
            job = int(wait_job(lab, pod)["JobId"])
            api.wait_lost(before + 1)
            lab.slurm.scancel(job)
            lab.wait_gone(pod)
            settled(lab)
            assert bindings(lab).get(pod["metadata"]["uid"], 0) <= 1 and not lab.processes(pod)
            assert [j["JobState"] for j in jobs_of(lab, pod)] == ["CANCELLED"]


def test_api_server_away_longer_than_the_hold_drains_the_node_until_it_is_back(lab):
    pod, job = running_pod(lab)
    node = pod["spec"]["nodeName"]
    native = NativeJob(lab, pod)
    lab.daemon("kill", "kube-apiserver")
    lab.slurm.scancel(job)
    began = time.monotonic()
    wait_for(lambda: "drain" in lab.slurm.nodes()[node], 60, "the node is drained")
    assert time.monotonic() - began > LIMIT + API_DOWN, "the hold and the patience with the API server are over"
    reason = lab.slurm.node(node)["Reason"]
    assert f"default/{pod['metadata']['name']}" in reason and "API server" in reason, reason
    assert not lab.processes(pod), "it was killed"
    wait_for(lambda: lab.slurm.job_state(job) == "CANCELLED", what="the epilog returns")
    lab.slurm.resume(node)  # a hasty admin: whether the kubelet starts it again nobody can tell yet
    holds_for(lambda: not native.started() and lab.held(node), 2, "nothing starts in its place")
    lab.daemon("start", "kube-apiserver")
    api_answers(lab)
    native.verify()
    lab.wait_gone(pod)
    settled(lab)


def test_hold_past_its_limit_asks_the_api_server_where_the_watch_says_nothing(lab):
    """A pod that was deleted by force is gone when the server says so, not when a watch that is late does; its node is not drained."""
    with FaultyApi(lab) as api:
        lab.daemon("pause", "hollow-kubelet")  # so it takes force
        pod = lab.wait_bound(lab.create())
        with api.hushed():
            lab.slurm.scancel(lab.job_id(pod))
            lab.wait_gone(pod)
            wait_for(lambda: not lab.held(), what="the place is free")
            wait_for(lambda: not lab.slurm.jobs(), what="the epilog returns")
            assert lab.slurm.nodes()[pod["spec"]["nodeName"]] == "idle", lab.slurm.node(pod["spec"]["nodeName"])
        lab.daemon("resume", "hollow-kubelet")
        settled(lab)


def test_end_between_the_binding_and_the_kubelets_first_look_is_held_until_it_has_looked(lab):
    lab.daemon("pause", "hollow-kubelet")
    pod = lab.wait_bound(lab.create())
    job = lab.job_id(pod)
    lab.slurm.scancel(job)
    wait_for(lambda: lab.get(pod)["metadata"].get("deletionTimestamp"), what="the pod is deleted")
    holds_for(lambda: completing(lab, pod) and lab.held(), 1, "an absent cgroup proves nothing")
    lab.daemon("resume", "hollow-kubelet")
    lab.wait_gone(pod)
    settled(lab)
    assert not lab.processes(pod)


def test_end_before_the_first_look_of_a_kubelet_that_stays_away_is_over_after_the_hold(lab):
    lab.daemon("pause", "hollow-kubelet")
    pod = lab.wait_bound(lab.create())
    began = time.monotonic()
    lab.slurm.scancel(lab.job_id(pod))
    lab.wait_gone(pod)  # by force: a kubelet that has not begun has nothing to end
    assert time.monotonic() - began >= LIMIT - 1
    wait_for(lambda: not lab.held(), what="the place is free")
    lab.daemon("resume", "hollow-kubelet")
    settled(lab)
    wait_for(lambda: not lab.processes(pod), what="what a kubelet began that looked too late is ended")


# --- epilogs

def seal(lab, text):
    with open(f"{lab.dir}/etc/berth.key", "rb") as file:
        return hmac.new(file.read().rstrip(b"\r\n"), text.encode(), hashlib.sha256).hexdigest() + "." + text


def epilog(lab, job, node):
    """Runs the SPANK epilog of the job on the node once more, as slurmd does."""
    record = lab.slurm.job(job)
    ids = {"SLURM_JOB_ID": str(job), "SLURM_JOBID": str(job), "SLURM_JOB_UID": "20001", "SLURM_UID": "20001", "SLURM_JOB_GID": "20001",
           "SLURM_GID": "20001", "SLURMD_NODENAME": node, "SPANK_BERTH": seal(lab, record["AdminComment"])}
    return subprocess.Popen([shutil.which("slurmstepd"), "spank", "epilog"], env={**os.environ, **lab.env, **ids}, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def returned(process, deadline=30):
    said, _ = process.communicate(timeout=deadline)
    assert process.returncode == 0, said
    return True


def test_epilogs_that_overlap_all_wait_and_all_return(lab):
    pod, job = running_pod(lab, die_after="4500ms")
    node = pod["spec"]["nodeName"]
    native = NativeJob(lab, pod)
    lab.slurm.scancel(job)
    wait_for(lambda: completing(lab, pod), what="Slurm's own epilog waits")
    more = [epilog(lab, job, node) for _ in range(3)]
    holds_for(lambda: all(each.poll() is None for each in more) and lab.processes(pod), 1, "the others wait as well")
    assert all(map(returned, more))
    assert not lab.processes(pod)
    native.verify()
    settled(lab)
    assert "Reason" not in lab.slurm.node(node)


def test_epilog_that_runs_again_later_harms_nobody(lab):
    pod, job = running_pod(lab, cpu=2)
    node = pod["spec"]["nodeName"]
    lab.slurm.scancel(job)
    lab.wait_gone(pod)
    wait_for(lambda: not completing(lab, pod), what="the epilog has returned")
    lab.slurm.update(f"NodeName={','.join(other for other in lab.nodes if other != node)}", "State=DRAIN", "Reason=test")
    try:
        next_pod, next_job = running_pod(lab, cpu=2)
    finally:
        lab.slurm.resume(",".join(other for other in lab.nodes if other != node))
    assert next_pod["spec"]["nodeName"] == node
    before = lab.processes(next_pod)
    assert all(map(returned, [epilog(lab, job, node) for _ in range(2)]))
    holds_for(lambda: lab.processes(next_pod) == before and lab.slurm.job_state(next_job) == "RUNNING", 1, "the next pod runs on")
    lab.slurm.scancel(next_job)
    lab.wait_gone(next_pod)
    settled(lab)


def test_epilog_that_never_ran_lets_nobody_in_before_the_pod_is_gone(lab):
    """slurmd is dead when the node is given up, and slurmctld has no end to tell it when it is back."""
    pod, job = running_pod(lab, **forgotten.SLOW)
    node = pod["spec"]["nodeName"]
    lab.daemon("kill", f"slurmd:{node}")
    lab.slurm.update(f"NodeName={node}", "State=DOWN", "Reason=test")
    wait_state(lab, job, "NODE_FAIL")
    lab.daemon("start", f"slurmd:{node}")
    lab.slurm.resume(node)
    native = NativeJob(lab, pod)
    native.verify()
    lab.wait_gone(pod)
    settled(lab)
