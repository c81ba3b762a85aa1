"""PodGroups and Workloads of scheduling.k8s.io, which Kubernetes has from 1.36 on, each version by its own names. The server for them
is a fake in front of the lab's own (newer_api.py); Slurm, nodes, pods and rights are real. Where the lab's server has them itself, the same
is tried on that."""

import os

from gangs import annotation, by_slot, jobs_of_owner, job_object, name_of, occupy, uids, wait_all_gone, wait_gang_job
from lab import JOB_ID, Skip, holds_for, wait_for
from newer_api import GROUP, JOIN, NewerApi
from witness import asking, bindings, fill, jobs_of, wait_state, wait_unschedulable

HERE = os.path.dirname(os.path.abspath(__file__))
LAB = ["--nodes", "3", "--slurm-conf", HERE + "/gang.conf", "--berth-yaml", HERE + "/gang.yaml"]
OLD, NEW = "PodGroupScheduled", "PodGroupInitiallyScheduled"


class OwnApi:
    """The lab's own server where it has this version, in the place of NewerApi."""

    def __init__(self, lab, version):
        self._lab, self.version, self.kube = lab, version, lab.kube
        known = lab.kube.find(f"/apis/{GROUP}/{version}")
        if not known or "podgroups" not in [resource["name"] for resource in known["resources"]]:
            raise Skip(f"needs a server with PodGroups of {GROUP}/{version}, as 1.36 has them, and this lab has 1.{lab.kube_minor}")

    def __enter__(self):
        return self

    def __exit__(self, kind, _value, _trace):
        for resource in ("podgroups", "workloads"):
            self.kube.delete(self.path(resource))
        if kind is None:
            self._lab.clean()  # the server keeps a group as long as it has pods
            wait_for(lambda: not self.kube.get(self.path("podgroups"))["items"], what="the groups are gone")

    path = NewerApi.path


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
                                                 "spec": {"podGroupTemplates": [{"name": "workers", "schedulingPolicy": {"basic": {}}}]}})


def member(name, pod):
    """The pod, or a template of pods, in the group of this name: by the field that newer servers have, and for the fake by an annotation."""
    pod["metadata"]["annotations"][JOIN] = name
    pod["spec"]["schedulingGroup"] = {"podGroupName": name}
    return pod


def join(lab, group, count, **words):
    return [lab.create(member(group["metadata"]["name"], lab.pod(**words))) for _ in range(count)]


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


def check_life_of_a_gang(lab, server, kind):
    """A group from its first pod over its start to its second life, by the name of its condition in this version of the API."""
    with server as api:
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
    check_life_of_a_gang(lab, NewerApi(lab, "v1alpha2"), OLD)


def test_gang_of_the_servers_own_v1alpha2_waits_for_its_pods_and_starts_whole(lab):
    check_life_of_a_gang(lab, OwnApi(lab, "v1alpha2"), OLD)


def test_gang_of_v1alpha3_waits_for_its_pods_and_starts_whole(lab):
    check_life_of_a_gang(lab, NewerApi(lab, "v1alpha3"), NEW)


def test_gang_of_v1beta1_waits_for_its_pods_and_starts_whole(lab):
    check_life_of_a_gang(lab, NewerApi(lab, "v1beta1"), NEW)


def check_annotations(lab, server):
    with server as api:
        workload = create_workload(api, asking(timelimit="30m"))
        group = create_group(api, 2, workload["metadata"]["name"],
                             {**asking(timelimit="10m", job_name="by-group"), "berth.dev/nice": "5", "berth.dev/comment": "of the group"})
        owner = job_object(lab, 2, gang=False, annotations={**asking(timelimit="20m", job_name="by-job"), "berth.dev/nice": "7"})
        pods = member(group["metadata"]["name"], owner["spec"]["template"])
        pods["metadata"]["annotations"].update({"berth.dev/comment": "of the pod", **asking(timelimit="5m")})
        lab.create_owner(owner)
        _, job = wait_whole(lab, group, 2)
        assert (job["TimeLimit"], job["JobName"], job["Nice"]) == ("00:30:00", "by-job", "7"), job
        assert "of the group" in job["Comment"] and "of the pod" not in job["Comment"], job["Comment"]


def test_annotations_of_v1alpha2_reach_the_job_workload_before_job_before_group(lab):
    check_annotations(lab, NewerApi(lab, "v1alpha2"))


def test_annotations_of_the_servers_own_v1alpha2_reach_the_job(lab):
    check_annotations(lab, OwnApi(lab, "v1alpha2"))


def test_annotations_of_v1beta1_reach_the_job_workload_before_job_before_group(lab):
    check_annotations(lab, NewerApi(lab, "v1beta1"))


def check_without_gang_policy(lab, server):
    with server as api:
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


def test_group_without_gang_policy_has_one_job_per_pod(lab):
    check_without_gang_policy(lab, NewerApi(lab, "v1beta1"))


def test_group_of_the_servers_own_without_gang_policy_has_one_job_per_pod(lab):
    check_without_gang_policy(lab, OwnApi(lab, "v1alpha2"))


def check_group_made_late(lab, server):
    with server as api:
        occupy(lab, lab.nodes[-1])
        pods = [lab.create(member("not-yet", lab.pod(cpu=8))) for _ in range(2)]
        wait_for(lambda: "not-yet" in lab.condition(pods[0], "PodScheduled").get("message", ""), what="it is told what it waits for")
        group = create_group(api, 2, name="not-yet")
        wait_whole(lab, group, 2)
        wait_condition(api, group, OLD, "True", "Scheduled")
        late, = join(lab, group, 1, cpu=8)
        wait_for(lambda: "pending" in lab.condition(late, "PodScheduled").get("message", ""), what="the late pod waits in Slurm")
        assert conditions(api, group)[OLD][0] == "True"


def test_pod_waits_for_its_group_to_be_made_and_late_ones_do_not_change_what_is_said_of_it(lab):
    check_group_made_late(lab, NewerApi(lab, "v1alpha2"))


def test_pod_waits_for_its_group_of_the_servers_own_to_be_made(lab):
    check_group_made_late(lab, OwnApi(lab, "v1alpha2"))


def test_group_that_the_server_keeps_for_its_pods_lets_them_run_to_their_end(lab):
    """The real server does not let go of a deleted group before its last pod has ended. It is deleted while it waits, and while it runs."""
    with OwnApi(lab, "v1alpha2") as api:
        for while_it in ("waits", "runs"):
            native = fill(lab) if while_it == "waits" else None
            group = create_group(api, 2)
            pods = join(lab, group, 2, run_for="4s")
            job = wait_gang_job(lab, group, "PENDING")["JobId"] if native else wait_whole(lab, group, 2)[1]["JobId"]
            path = api.path("podgroups", name=group["metadata"]["name"])
            api.kube.delete(path)
            assert api.kube.get(path)["metadata"].get("deletionTimestamp")
            if native:
                lab.slurm.scancel(native)
            wait_state(lab, job, "COMPLETED")
            assert {lab.phase(pod) for pod in pods} == {"Succeeded"}
            wait_for(lambda: api.kube.find(path) is None, what="the group is gone")
