"""PodGroups and Workloads of scheduling.k8s.io, which Kubernetes has from 1.36 on, each version by its own names. The server for them
is a fake in front of the lab's own (newer_api.py); Slurm, nodes, pods and rights are real."""

import os

from gangs import annotation, by_slot, jobs_of_owner, job_object, name_of, occupy, uids, wait_all_gone, wait_gang_job
from lab import JOB_ID, holds_for, wait_for
from newer_api import JOIN, NewerApi
from witness import asking, bindings, fill, jobs_of, wait_unschedulable

HERE = os.path.dirname(os.path.abspath(__file__))
LAB = ["--nodes", "3", "--slurm-conf", HERE + "/gang.conf", "--berth-yaml", HERE + "/gang.yaml"]
OLD, NEW = "PodGroupScheduled", "PodGroupInitiallyScheduled"


def create_group(api, min_count=None, workload=None, annotations=None, name=None):
    """With a gang policy where min_count is given."""
    spec = {"schedulingPolicy": {"gang": {"minCount": min_count}} if min_count else {"basic": {}}}
    if workload and api.version == "v1alpha2":
        spec["podGroupTemplateRef"] = {"workload": {"workloadName": workload, "podGroupTemplateName": "workers"}}
    elif workload:
        spec["workloadRef"] = {"workloadName": workload, "templateName": "workers"}
    return api.kube.post(api.path("podgroups"), {"metadata": {"name": name or name_of("group"), "annotations": annotations or {}}, "spec": spec})


def create_workload(api, annotations):
    return api.kube.post(api.path("workloads"), {"metadata": {"name": name_of("workload"), "annotations": annotations},
                                                 "spec": {"podGroupTemplates": [{"name": "workers"}]}})


def join(lab, group, count, annotations=None, **words):
    return [lab.create(annotations={JOIN: group["metadata"]["name"], **(annotations or {})}, **words) for _ in range(count)]


def pods_of(lab, group):
    return sorted((pod for pod in lab.pods() if annotation(pod, JOIN) == group["metadata"]["name"]), key=lambda pod: pod["metadata"]["name"])


def conditions(api, group):
    """{type: (status, reason, message)}"""
    now = api.kube.get(api.path("podgroups", name=group["metadata"]["name"]))
    return {c["type"]: (c["status"], c["reason"], c["message"]) for c in now.get("status", {}).get("conditions", [])}


def wait_condition(api, group, kind, status, *words, deadline=60):
    """Waits until the group has this condition, and no other, with these words in its reason and message."""
    def there():
        now = conditions(api, group)
        return list(now) == [kind] and now[kind][0] == status and all(word in " ".join(now[kind][1:]) for word in words)
    try:
        wait_for(there, deadline)
    except AssertionError:
        raise AssertionError(f"the group is not told {kind} {status} {words}, but {conditions(api, group)}") from None


def wait_whole(lab, group, count, deadline=60):
    """(pods, job record), once the group runs in one job."""
    def run():
        pods = [pod for pod in pods_of(lab, group) if pod["status"]["phase"] == "Running" and not pod["metadata"].get("deletionTimestamp")]
        return len(pods) == count and pods
    pods = wait_for(run, deadline, f"{count} pods of {group['metadata']['name']} run", 0.1)
    job = wait_gang_job(lab, group, "RUNNING")
    assert {annotation(pod, JOB_ID) for pod in pods} == {job["JobId"]}
    return pods, job


def check_life_of_a_gang(lab, version, kind):
    """A group from its first pod over its start to its second life, by the API's version and the name of its condition there."""
    with NewerApi(lab, version) as api:
        native = fill(lab)
        group = create_group(api, 3)
        pods = join(lab, group, 2)
        wait_condition(api, group, kind, "False", "WaitingForGang", "2 of 3")
        assert not jobs_of_owner(lab, group) and not any(jobs_of(lab, pod) for pod in pods)
        pods += join(lab, group, 1)
        waiting = wait_gang_job(lab, group, "PENDING")
        wait_condition(api, group, kind, "False", "Unschedulable", f"Slurm job {waiting['JobId']} is pending: Resources")
        for pod in pods:
            wait_unschedulable(lab, pod, f"job {waiting['JobId']}")
        lab.slurm.scancel(native)
        started, job = wait_whole(lab, group, 3)
        assert uids(started) == uids(pods) and job["JobId"] == waiting["JobId"] and len(jobs_of_owner(lab, group)) == 1
        assert (job["JobName"], job["NumTasks"]) == (group["metadata"]["name"], "3")
        assert sorted(by_slot(started)) == ["0.0", "0.1", "0.2"] and all(bindings(lab)[uid] == 1 for uid in uids(pods))
        wait_condition(api, group, kind, "True", "Scheduled")
        lab.daemon("kill", "berthd:controller")
        lab.daemon("start", "berthd:controller")
        lab.slurm.scancel(job["JobId"])
        wait_all_gone(lab, pods)
        again = join(lab, group, 2)
        wait_for(lambda: "2 of 3" in lab.condition(again[0], "PodScheduled").get("message", ""), what="the pods wait for the third")
        if kind == OLD:
            wait_condition(api, group, kind, "False", "WaitingForGang", "2 of 3")
        else:
            holds_for(lambda: conditions(api, group)[kind][0] == "True", 1, "the group was scheduled once, and that stays true")
        again += join(lab, group, 1)
        started, other = wait_whole(lab, group, 3)
        assert uids(started) == uids(again) and other["JobId"] != job["JobId"]
        wait_condition(api, group, kind, "True", "Scheduled")


def test_gang_of_v1alpha2_waits_for_its_pods_and_starts_whole(lab):
    check_life_of_a_gang(lab, "v1alpha2", OLD)


def test_gang_of_v1alpha3_waits_for_its_pods_and_starts_whole(lab):
    check_life_of_a_gang(lab, "v1alpha3", NEW)


def test_gang_of_v1beta1_waits_for_its_pods_and_starts_whole(lab):
    check_life_of_a_gang(lab, "v1beta1", NEW)


def check_annotations(lab, version):
    with NewerApi(lab, version) as api:
        workload = create_workload(api, asking(timelimit="30m"))
        group = create_group(api, 2, workload["metadata"]["name"],
                             {**asking(timelimit="10m", job_name="by-group"), "berth.dev/nice": "5", "berth.dev/comment": "of the group"})
        owner = job_object(lab, 2, gang=False, annotations={**asking(timelimit="20m", job_name="by-job"), "berth.dev/nice": "7"})
        owner["spec"]["template"]["metadata"]["annotations"].update(
            {JOIN: group["metadata"]["name"], "berth.dev/comment": "of the pod", **asking(timelimit="5m")})
        lab.create_owner(owner)
        _, job = wait_whole(lab, group, 2)
        assert (job["TimeLimit"], job["JobName"], job["Nice"]) == ("00:30:00", "by-job", "7"), job
        assert "of the group" in job["Comment"] and "of the pod" not in job["Comment"], job["Comment"]


def test_annotations_of_v1alpha2_reach_the_job_workload_before_job_before_group(lab):
    check_annotations(lab, "v1alpha2")


def test_annotations_of_v1beta1_reach_the_job_workload_before_job_before_group(lab):
    check_annotations(lab, "v1beta1")


def test_group_without_gang_policy_has_one_job_per_pod(lab):
    with NewerApi(lab, "v1beta1") as api:
        group = create_group(api, annotations=asking(timelimit="15m"))
        first, = join(lab, group, 1)
        lab.wait_phase(first, "Running")
        pods = [first] + join(lab, group, 2)
        for pod in pods:
            lab.wait_phase(pod, "Running")
        jobs = [job for pod in pods for job in jobs_of(lab, pod)]
        assert len({job["JobId"] for job in jobs}) == len(jobs) == 3 and {job["NumTasks"] for job in jobs} == {"1"}
        assert {job["TimeLimit"] for job in jobs} == {"00:15:00"} and not jobs_of_owner(lab, group)
        late, = join(lab, group, 1, annotations={"berth.dev/begin": "now+1h"})
        wait_unschedulable(lab, late, "pending: BeginTime")
        assert not conditions(api, group), "what one of its pods waits for is not said of the group"


def test_pod_waits_for_its_group_to_be_made_and_late_ones_do_not_change_what_is_said_of_it(lab):
    with NewerApi(lab, "v1alpha2") as api:
        occupy(lab, lab.nodes[-1])
        pods = [lab.create(annotations={JOIN: "not-yet"}, cpu=8) for _ in range(2)]
        wait_for(lambda: "not-yet" in lab.condition(pods[0], "PodScheduled").get("message", ""), what="it is told what it waits for")
        group = create_group(api, 2, name="not-yet")
        wait_whole(lab, group, 2)
        wait_condition(api, group, OLD, "True", "Scheduled")
        late, = join(lab, group, 1, cpu=8)
        wait_for(lambda: "pending" in lab.condition(late, "PodScheduled").get("message", ""), what="the late pod waits in Slurm")
        assert conditions(api, group)[OLD][0] == "True"
