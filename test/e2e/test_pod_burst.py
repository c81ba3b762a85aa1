"""Many pods at once, and agents that die among them: every pod is bound once, by one job, and all comes to an end."""

import random
import threading
import time

from lab import wait_for
from witness import bindings, placeholders, running_pod, wait_job, wait_unschedulable, waiting_pod, warnings


def burst(lab, count, **words):
    """Creates pods as fast as one client can, in the background: (thread, list that fills)."""
    pods = []

    def create():
        for _ in range(count):
            pods.append(lab.create(**words))

    thread = threading.Thread(target=create)
    thread.start()
    return thread, pods


def all_succeed(lab, pods, deadline):
    names = {pod["metadata"]["uid"] for pod in pods}
    wait_for(lambda: sum(p["metadata"]["uid"] in names and p["status"]["phase"] == "Succeeded" for p in lab.pods()) == len(names),
             deadline, f"all {len(names)} pods succeed", 0.2)


def check_each_was_bound_once_by_one_job(lab, pods):
    wait_for(lambda: not lab.slurm.jobs(), 60, "no job is left")
    wait_for(lambda: not lab.held(), 60, "no held record is left")
    wait_for(lambda: set(lab.slurm.nodes().values()) == {"idle"}, 60, "all nodes are idle")
    bound, known = bindings(lab), placeholders(lab)
    for pod in pods:
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        # An agent that dies with its Binding under way may leave one that took effect and was never answered.
        assert bound.get(uid, 0) <= 1, f"{name} was bound {bound.get(uid)} times"
        completed = [job for job in known[uid] if job["JobState"] == "COMPLETED"]
        assert len(completed) == 1 and completed[0]["ExitCode"] == "0:0", f"{name}: {known[uid]}"
        assert lab.job_id(pod) == int(completed[0]["JobId"])
        assert not warnings(lab, pod), f"{name}: {warnings(lab, pod)}"
        yield uid, known[uid]


def test_sixty_pods_at_once_on_three_nodes_all_run_to_completion(lab):
    thread, pods = burst(lab, 60, run_for="1s")
    thread.join()
    all_succeed(lab, pods, 60)
    for uid, jobs in check_each_was_bound_once_by_one_job(lab, pods):
        assert len(jobs) == 1, uid


def test_no_more_pods_run_on_a_node_than_it_has_room_for(lab):
    thread, pods = burst(lab, 30, cpu=3, run_for="300ms")  # two fit on a node
    most = 0
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        now = lab.pods()
        on = [p["spec"]["nodeName"] for p in now if p["spec"].get("nodeName") and p["status"]["phase"] in ("Pending", "Running")]
        most = max([most] + [on.count(node) for node in lab.nodes])
        if len(now) == 30 and all(p["status"]["phase"] in ("Succeeded", "Failed") for p in now):
            break
    thread.join()
    all_succeed(lab, pods, 10)
    assert most <= 2


def test_restarted_controller_submits_nothing_twice(lab):
    running = [running_pod(lab, cpu=7)[0] for _ in lab.nodes]
    waiting = [lab.create(cpu=2) for _ in range(5)]
    for pod in waiting:
        wait_unschedulable(lab, pod, "job")
    before = {uid: [job["JobId"] for job in jobs] for uid, jobs in placeholders(lab).items()}
    for _ in range(2):
        lab.daemon("kill", "berthd:controller")
        lab.daemon("start", "berthd:controller")
        new = lab.create(cpu=2)
        before[new["metadata"]["uid"]] = [wait_job(lab, new)["JobId"]]  # so the new controller is at work
    after = {uid: [job["JobId"] for job in jobs] for uid, jobs in placeholders(lab).items()}
    assert after == before
    assert all(lab.phase(pod) == "Running" for pod in running) and all(lab.phase(pod) == "Pending" for pod in waiting)


def test_what_happened_while_the_controller_was_away_is_caught_up_with(lab):
    waits, job = waiting_pod(lab)
    lab.daemon("kill", "berthd:controller")
    lab.delete(waits)
    new = lab.create(run_for="0s")
    lab.slurm.scancel("--user=root")
    lab.daemon("start", "berthd:controller")
    lab.wait_phase(new, "Succeeded", 60)
    wait_for(lambda: lab.slurm.job_state(job) in ("CANCELLED", "FAILED"), 90, "the deleted pod's job is ended")
    assert waits["metadata"]["uid"] not in bindings(lab)


def test_controller_killed_during_a_burst_loses_and_doubles_nothing(lab):
    thread, pods = burst(lab, 30, run_for="500ms")
    moment = random.randint(3, 25)
    wait_for(lambda: len(pods) >= moment, interval=0.005)
    lab.daemon("kill", "berthd:controller")
    lab.daemon("start", "berthd:controller")
    thread.join()
    all_succeed(lab, pods, 60)
    for uid, jobs in check_each_was_bound_once_by_one_job(lab, pods):
        # A submission in flight at the kill may have left a job that Slurm ended itself, unbound.
        assert len(jobs) <= 2, uid


def test_node_agent_killed_during_a_burst_loses_and_doubles_nothing(lab):
    thread, pods = burst(lab, 30, run_for="500ms")
    for node in lab.nodes:
        wait_for(lambda: random.random() < 0.02, interval=0.005)
        lab.daemon("kill", "berthd:" + node)
        lab.daemon("start", "berthd:" + node)
    thread.join()
    all_succeed(lab, pods, 60)
    for uid, jobs in check_each_was_bound_once_by_one_job(lab, pods):
        assert len(jobs) == 1, uid


def test_all_agents_killed_during_a_burst_loses_and_doubles_nothing(lab):
    agents = ["berthd:controller"] + ["berthd:" + node for node in lab.nodes]
    thread, pods = burst(lab, 30, run_for="500ms")
    moment = random.randint(3, 25)
    wait_for(lambda: len(pods) >= moment, interval=0.005)
    lab.daemon("kill", *agents)
    lab.daemon("start", *agents)
    thread.join()
    all_succeed(lab, pods, 60)
    for uid, jobs in check_each_was_bound_once_by_one_job(lab, pods):
        assert len(jobs) <= 2, uid
