"""PodGroups, whose controller Berth is: their status through their life, late members, and groups that do not start in time."""

import os

from gangs import (GROUP, create_group, create_job, events_on, jobs_of_owner, join_group, on_nodes, pods_of, running_gang, uids,
                   wait_all_gone, wait_free, wait_gang_job, wait_running)
from lab import holds_for, wait_for
from witness import bindings, fill, jobs_of, wait_state, wait_unschedulable, warnings

HERE = os.path.dirname(os.path.abspath(__file__))
LAB = ["--nodes", "3", "--slurm-conf", HERE + "/gang.conf", "--berth-yaml", HERE + "/gang.yaml"]


def status(lab, group):
    return lab.get_owner(group).get("status", {})


def wait_status(lab, group, deadline=60, **wanted):
    """The status, once it has these values; a count that is 0 may be left out of it."""
    def there():
        now = status(lab, group)
        return all(now.get(key, 0 if isinstance(value, int) else None) == value for key, value in wanted.items()) and now
    try:
        return wait_for(there, deadline)
    except AssertionError:
        raise AssertionError(f"the status does not become {wanted}, it is {status(lab, group)}") from None


def restart_controller(lab):
    lab.daemon("kill", "berthd:controller")
    lab.daemon("start", "berthd:controller")


def test_group_status_is_true_through_its_life_and_the_controllers_deaths(lab):
    native = fill(lab)
    group = create_group(lab, 2)
    wait_status(lab, group, phase="Pending", scheduled=0, running=0)
    words = {"start_delay": "4s", "run_for": "4s"}
    first, = join_group(lab, group, 1, **words)
    wait_status(lab, group, phase="PreScheduling", occupiedBy="Pod/" + first["metadata"]["name"])
    restart_controller(lab)
    second, = join_group(lab, group, 1, **words)
    began = wait_status(lab, group, phase="Scheduling", scheduled=0)["scheduleStartTime"]
    restart_controller(lab)
    wait_for(lambda: lab.condition(second, "PodScheduled").get("reason") == "Unschedulable", what="the new controller is at work")
    assert status(lab, group)["phase"] == "Scheduling" and status(lab, group)["scheduleStartTime"] == began
    lab.slurm.scancel(native)
    wait_status(lab, group, phase="Scheduled", scheduled=2, running=0)
    restart_controller(lab)
    now = wait_status(lab, group, phase="Running", scheduled=2, running=2)
    assert now["scheduleStartTime"] == began
    lab.daemon("kill", "berthd:controller")
    for pod in (first, second):
        lab.wait_phase(pod, "Succeeded")
    lab.daemon("start", "berthd:controller")
    wait_status(lab, group, phase="Finished", running=0, succeeded=2, failed=0)
    lab.delete(first)
    lab.delete(second)
    wait_all_gone(lab, [first, second])
    holds_for(lambda: status(lab, group)["phase"] == "Finished", 1, "what it came to stays")
    assert len(jobs_of_owner(lab, group)) == 1


def test_group_whose_pods_fail_is_failed(lab):
    group = create_group(lab, 2)
    join_group(lab, group, 2, run_for="500ms", exit_code=3)
    wait_status(lab, group, phase="Failed", failed=2, running=0)


def test_columns_of_kubectl_get_podgroup_say_how_it_goes(lab):
    group = create_group(lab, 2, name="columns")
    job = create_job(lab, 3, gang=False, labels={GROUP: "columns"})
    wait_running(lab, group, 3)
    wait_status(lab, group, phase="Running", running=3)
    head, line = lab.kubectl("get", "podgroups.scheduling.x-k8s.io", "columns", "-o", "wide").splitlines()
    titles = [title for title in head.split("  ") if title]
    assert [title.strip() for title in titles] == ["NAME", "PHASE", "MIN", "SCHEDULED", "RUNNING", "SUCCEEDED", "FAILED", "OCCUPIED BY", "AGE"]
    start = {title.strip(): head.index(title.strip()) for title in titles}

    def cell(title):
        return line[start[title]:].split("  ")[0].strip()
    assert [cell(title) for title in ("NAME", "PHASE", "MIN", "SCHEDULED", "RUNNING")] == ["columns", "Running", "2", "3", "3"]
    assert cell("OCCUPIED BY") == "Job/" + job["metadata"]["name"]
    narrow = lab.kubectl("get", "pg", "columns").splitlines()[0]
    assert "OCCUPIED" not in narrow and "PHASE" in narrow


def test_pod_waits_for_its_group_to_be_made(lab):
    group = {"kind": "PodGroup", "metadata": {"name": "not-yet", "namespace": "default"}}
    pods = join_group(lab, group, 2)
    wait_for(lambda: "not-yet" in lab.condition(pods[0], "PodScheduled").get("message", ""), what="it is told what it waits for")
    assert not any(jobs_of(lab, pod) for pod in pods)
    group = create_group(lab, 2, name="not-yet")
    running_gang(lab, group, 2)


def test_group_deleted_while_it_waits_leaves_its_pods_their_place(lab):
    native = fill(lab)
    group = create_group(lab, 2)
    pods = join_group(lab, group, 2, run_for="500ms")
    job = int(wait_gang_job(lab, group, "PENDING")["JobId"])
    lab.delete_owner(group)
    wait_for(lambda: not lab.get_owner(group), what="the group is gone")
    lab.slurm.scancel(native)
    wait_state(lab, job, "COMPLETED")
    assert {lab.phase(pod) for pod in pods} == {"Succeeded"}
    wait_free(lab)


def test_group_deleted_while_it_runs_leaves_its_pods_in_their_job(lab):
    group = create_group(lab, 2)
    join_group(lab, group, 2, run_for="4s")
    pods, job = running_gang(lab, group, 2)
    lab.delete_owner(group)
    holds_for(lambda: lab.slurm.job_state(job["JobId"]) == "RUNNING", 1, "its pods run on")
    wait_state(lab, job["JobId"], "COMPLETED")
    assert {lab.phase(pod) for pod in pods} == {"Succeeded"}
    wait_free(lab)


def test_group_deleted_with_its_pods_gives_its_place_back(lab):
    fill(lab)
    group = create_group(lab, 2)
    pods = join_group(lab, group, 2)
    job = int(wait_gang_job(lab, group, "PENDING")["JobId"])
    lab.delete_owner(group)
    for pod in pods:
        lab.delete(pod)
    wait_state(lab, job, "CANCELLED")
    wait_all_gone(lab, pods)


def test_late_members_all_run(lab):
    group = create_group(lab, 2)
    join_group(lab, group, 2, cpu=4)
    first, job = running_gang(lab, group, 2)
    late = join_group(lab, group, 3, cpu=4)
    pods = wait_running(lab, group, 5)
    assert uids(pods) == uids(first) | uids(late)
    wait_status(lab, group, phase="Running", scheduled=5, running=5)
    assert len(jobs_of_owner(lab, group)) == 1 and lab.slurm.job_state(job["JobId"]) == "RUNNING"
    # Slurm knows of every CPU that is used.
    assert all(4 * count <= 8 for count in on_nodes(pods).values())
    assert sum(int(j["NumCPUs"]) for pod in late for j in jobs_of(lab, pod)) == 12
    for pod in late:
        lab.delete(pod)
    wait_all_gone(lab, late)
    assert lab.slurm.job_state(job["JobId"]) == "RUNNING"


def test_larger_pod_in_the_place_of_another_gets_a_place_of_its_size(lab):
    native = fill(lab)
    group = create_group(lab, 1)
    small, = join_group(lab, group, 1, cpu=1)
    assert int(wait_gang_job(lab, group, "PENDING")["NumCPUs"]) == 1
    lab.delete(small)
    large, = join_group(lab, group, 1, cpu=4)
    lab.slurm.scancel(native)
    lab.wait_phase(large, "Running")
    assert int(wait_gang_job(lab, group, "RUNNING")["NumCPUs"]) == 4


def test_label_does_not_open_another_tenants_place(lab):
    lab.kube.post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "bob"}})
    try:
        group = create_group(lab, 2)
        alices = join_group(lab, group, 2)
        running_gang(lab, group, 2)
        lab.delete(alices[0])  # its slot is free
        wait_all_gone(lab, alices[:1])
        bobs = lab.pod()
        bobs["metadata"]["labels"] = {GROUP: group["metadata"]["name"]}
        bobs["spec"]["serviceAccountName"] = "bob"
        bobs = lab.create(bobs)
        lab.wait_phase(bobs, "Running")
        job, = jobs_of(lab, bobs)
        assert job["UserId"].startswith("lab_bob("), job
        assert lab.job_id(bobs) == int(job["JobId"])
    finally:
        lab.kube.delete("/api/v1/namespaces/default/serviceaccounts/bob")


def test_all_members_of_a_group_that_is_larger_than_its_minimum_run(lab):
    group = create_group(lab, 3)
    job = create_job(lab, 8, gang=False, labels={GROUP: group["metadata"]["name"]}, run_for="3s")
    wait_running(lab, group, 8)
    wait_status(lab, group, phase="Finished", succeeded=8, failed=0, deadline=60)
    wait_for(lambda: lab.get_owner(job)["status"].get("succeeded") == 8, what="the Job is done")
    wait_free(lab)


def test_group_that_does_not_start_in_time_is_rejected_and_tried_again(lab):
    native = fill(lab)
    group = create_group(lab, 2, scheduleTimeoutSeconds=3)
    pods = join_group(lab, group, 2)
    first = wait_gang_job(lab, group, "PENDING")
    wait_state(lab, first["JobId"], "CANCELLED")
    for pod in pods:
        wait_unschedulable(lab, pod, "did not start within 3 s", f"job {first['JobId']}")
        wait_for(lambda: any("within 3 s" in message for _, message in warnings(lab, pod)), what="the pod gets an event")
    wait_for(lambda: any(reason == "ScheduleTimeout" and "3 s" in message for reason, message in events_on(lab, group)),
             what="the group gets an event")
    wait_status(lab, group, phase="PreScheduling", scheduled=0)
    assert not lab.slurm.jobs("-u", "lab_alice") and all(lab.phase(pod) == "Pending" for pod in pods)
    lab.slurm.scancel(native)
    started, record = running_gang(lab, group, 2, 60)
    assert uids(started) == uids(pods) and record["JobId"] != first["JobId"]


def test_group_that_starts_in_time_is_not_rejected_later(lab):
    group = create_group(lab, 2, scheduleTimeoutSeconds=2)
    join_group(lab, group, 2)
    _, job = running_gang(lab, group, 2)
    holds_for(lambda: lab.slurm.job_state(job["JobId"]) == "RUNNING", 3, "its time to start is over, and it runs")
    assert not events_on(lab, group)


def test_groups_of_one_name_in_two_namespaces_stay_apart(lab):
    alice, bob = create_group(lab, 2, name="same", ns="team-a"), create_group(lab, 3, name="same", ns="team-b")
    join_group(lab, alice, 2)
    join_group(lab, bob, 2)
    _, job = running_gang(lab, alice, 2)
    holds_for(lambda: not jobs_of_owner(lab, bob), 1, "the other group still lacks a pod")
    wait_status(lab, bob, phase="PreScheduling")
    join_group(lab, bob, 1)
    pods, other = running_gang(lab, bob, 3)
    assert job["UserId"].startswith("lab_alice") and other["UserId"].startswith("lab_bob") and job["NumTasks"] == "2"
    lab.slurm.scancel(job["JobId"])
    wait_status(lab, alice, phase="Pending", scheduled=0, running=0, failed=0)
    assert all(lab.phase(pod) == "Running" for pod in pods) and status(lab, bob)["running"] == 3


def test_min_resources_make_the_job_larger(lab):
    group = create_group(lab, 2, minResources={"cpu": "6", "memory": "2Gi"})
    join_group(lab, group, 2, cpu=1)
    _, job = running_gang(lab, group, 2)
    assert int(job["NumCPUs"]) == 6


def test_bad_spec_is_refused_by_the_server(lab):
    from kube import ApiError
    for words in ({"min_member": 0}, {"min_member": 1, "scheduleTimeoutSeconds": 0}, {"min_member": 1, "minResources": {"cpu": "lots"}}):
        try:
            create_group(lab, **words)
        except ApiError as error:
            assert error.status == 422, error
        else:
            raise AssertionError(f"{words} is accepted")


def test_each_pod_of_a_group_is_bound_once(lab):
    """After all that this file did."""
    assert all(count == 1 for count in bindings(lab).values())
    assert not pods_of(lab, {"kind": "PodGroup", "metadata": {"name": "same", "namespace": "team-a"}})


def test_pod_whose_companions_are_over_starts_after_a_restart_of_the_controller(lab):
    """They were bound by a job that has ended: no place of theirs is the new one's."""
    group = create_group(lab, 1)
    done, = join_group(lab, group, 1, run_for="0s")
    lab.wait_phase(done, "Succeeded")
    wait_gang_job(lab, group, "COMPLETED")
    lab.daemon("kill", "berthd:controller")
    new, = join_group(lab, group, 1, run_for="0s")
    lab.daemon("start", "berthd:controller")
    lab.wait_phase(new, "Succeeded")
    assert len(jobs_of_owner(lab, group)) == 2
