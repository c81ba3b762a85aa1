"""A pod's way in: from the API through Slurm to its node, and what it is told while it waits."""

import contextlib

from lab import holds_for, wait_for
from witness import (NODE, NONCE, annotate, asking, audit, bindings, jobs_of, placeholders, running_pod, scheduled, wait_job,
                     wait_state, wait_unschedulable, waiting_pod, warnings, writes)


# --- with room

def test_pod_with_room_becomes_a_placeholder_and_is_bound(lab):
    pod = lab.create()
    bound = lab.wait_bound(pod)
    job, = jobs_of(lab, pod)
    assert job["JobState"] == "RUNNING" and job["NodeList"] == bound["spec"]["nodeName"]
    assert scheduled(lab, pod)[0] == "True"
    lab.wait_phase(pod, "Running")


def test_one_write_binds_a_pod(lab):
    pod = lab.create()
    node = lab.wait_bound(pod)["spec"]["nodeName"]
    lab.wait_phase(pod, "Running")
    wait_for(lambda: lab.events(pod), what="the event is there")
    assert writes(lab, pod) == [(f"berth-node:{node}", "create", "pods/binding", 201)]
    event, = lab.events(pod)
    assert event["type"] == "Normal" and event["reason"] == "Scheduled"
    assert f"Slurm job {lab.job_id(pod)}" in event["message"] and node in event["message"]


def test_bound_pod_names_its_job_and_node(lab):
    pod = lab.wait_bound(lab.create())
    job, = jobs_of(lab, pod)
    annotations = pod["metadata"]["annotations"]
    assert annotations["scheduler.slinky.slurm.net/slurm-jobid"] == job["JobId"]
    assert annotations[NODE] == pod["spec"]["nodeName"] == job["NodeList"]
    assert f'"nonce":"{annotations[NONCE]}"' in job["AdminComment"]


def test_squeue_shows_namespace_and_pod(lab):
    pod = lab.wait_bound(lab.create(ns="team-a"))
    job, = lab.slurm.jobs()
    assert job["name"] == f"team-a/{pod['metadata']['name']}"


def test_comment_names_the_pod(lab):
    pod = lab.wait_bound(lab.create())
    assert jobs_of(lab, pod)[0]["Comment"] == f"pod default/{pod['metadata']['name']}"


def test_job_belongs_to_the_namespaces_user(lab):
    alice, bob = lab.wait_bound(lab.create(ns="team-a")), lab.wait_bound(lab.create(ns="team-b"))
    assert jobs_of(lab, alice)[0]["UserId"] == "lab_alice(20001)"
    assert jobs_of(lab, bob)[0]["UserId"] == "lab_bob(20002)"
    assert jobs_of(lab, bob)[0]["GroupId"] == "lab_bob(20002)"


def test_user_can_cancel_the_own_pods_job_and_nobody_elses(lab):
    pod, job = running_pod(lab, ns="team-b")
    lab.slurm.run("scancel", job, user="lab_alice", check=False)
    holds_for(lambda: lab.slurm.job_state(job) == "RUNNING", 1, "a stranger's scancel does nothing")
    lab.slurm.scancel(job, user="lab_bob")
    lab.wait_gone(pod)


def test_memory_is_rounded_up_to_whole_mebibytes(lab):
    for asked, mib in (("64Mi", 64), ("65537Ki", 65), ("100000001", 96), ("1", 1)):
        pod = lab.wait_bound(lab.create(memory=asked))
        assert jobs_of(lab, pod)[0]["MinMemoryNode"] == f"{mib}M", asked


def test_cpu_is_rounded_up_to_whole_cpus(lab):
    for asked, cpus in (("100m", 1), ("1", 1), ("1001m", 2), ("1500m", 2), ("3", 3)):
        pod = lab.wait_bound(lab.create(cpu=asked))
        assert jobs_of(lab, pod)[0]["NumCPUs"] == str(cpus), asked


def test_all_containers_count(lab):
    pod = lab.pod(cpu=1, memory="64Mi")
    second = dict(pod["spec"]["containers"][0], name="second", resources={"requests": {"cpu": "1500m", "memory": "32Mi"}})
    first_step = dict(second, name="init", resources={"requests": {"cpu": "500m", "memory": "1Gi"}})
    pod["spec"]["containers"].append(second)
    pod["spec"]["initContainers"] = [first_step]
    job, = jobs_of(lab, lab.wait_bound(lab.create(pod)))
    assert job["NumCPUs"] == "3" and job["MinMemoryNode"] == "1G"


def test_timelimit_annotation_limits_the_job(lab):
    for asked, limit in (("90", "01:30:00"), ("2h", "02:00:00"), ("1-00:00:00", "1-00:00:00")):
        pod = lab.wait_bound(lab.create(annotations=asking(timelimit=asked)))
        assert jobs_of(lab, pod)[0]["TimeLimit"] == limit, asked


def test_pod_of_another_scheduler_is_left_alone(lab):
    other, ours = lab.create(scheduler="default-scheduler"), lab.create(run_for="0s")
    lab.wait_phase(ours, "Succeeded")
    holds_for(lambda: not jobs_of(lab, other), 2, "no job for another scheduler's pod")
    assert not writes(lab, other) and not lab.events(other) and not lab.condition(other, "PodScheduled")
    assert "nodeName" not in lab.get(other)["spec"]


# --- refused

def refused(lab, *words, **pod):
    """A pod that is told these words in its condition and in one event, and gets no job."""
    pod = lab.create(**pod)
    message = wait_unschedulable(lab, pod, *words)
    assert not jobs_of(lab, pod)
    wait_for(lambda: warnings(lab, pod), what="the pod gets an event")
    assert warnings(lab, pod) == [("FailedScheduling", message)]
    return pod


def test_partition_outside_the_tenants_list_is_refused_by_name(lab):
    refused(lab, "slurmjob.slinky.slurm.net/partition", '"secret"', "main", annotations=asking(partition="secret"))


def test_account_outside_the_tenants_list_is_refused_by_name(lab):
    refused(lab, "slurmjob.slinky.slurm.net/account", '"theirs"', annotations=asking(account="theirs"))


def test_priority_is_refused_where_the_site_does_not_allow_it(lab):
    refused(lab, "slurmjob.slinky.slurm.net/priority", annotations=asking(priority="100000"))


def test_another_user_is_refused_by_name(lab):
    refused(lab, "slurmjob.slinky.slurm.net/user-id", annotations=asking(user_id="0"))
    refused(lab, "slurmjob.slinky.slurm.net/user-id", annotations=asking(user_id="lab_bob"))


def test_bad_quantity_is_named(lab):
    refused(lab, "slurmjob.slinky.slurm.net/mem-per-node", '"lots"', annotations=asking(mem_per_node="lots"))


def test_bad_timelimit_is_named(lab):
    refused(lab, "slurmjob.slinky.slurm.net/timelimit", '"soon"', annotations=asking(timelimit="soon"))


def test_unknown_annotation_is_named(lab):
    refused(lab, "slurmjob.slinky.slurm.net/partitoin", annotations=asking(partitoin="main"))


def test_unknown_extended_resource_is_named(lab):
    pod = lab.pod()
    pod["spec"]["containers"][0]["resources"]["limits"]["example.com/fpga"] = "1"
    pod["spec"]["containers"][0]["resources"]["requests"]["example.com/fpga"] = "1"
    refused(lab, "example.com/fpga", pod=pod)


def test_refused_pod_goes_on_when_its_author_mends_it(lab):
    pod = refused(lab, "partition", annotations=asking(partition="secret"))
    annotate(lab, pod, partition="main")
    assert scheduled(lab, lab.wait_bound(pod))[0] == "True"
    assert jobs_of(lab, pod)[0]["Partition"] == "main"


def test_refused_pod_is_told_once(lab):
    pod = refused(lab, "partition", annotations=asking(partition="secret"))
    version = lab.get(pod)["metadata"]["resourceVersion"]
    # Longer than the first tries again, and than the reconcile.
    holds_for(lambda: lab.get(pod)["metadata"]["resourceVersion"] == version, 8, "the pod is not written again", 0.2)
    assert len(lab.events(pod)) == 1


def test_refused_pod_can_be_deleted(lab):
    pod = refused(lab, "partition", annotations=asking(partition="secret"))
    lab.delete(pod)
    lab.wait_gone(pod)


def test_what_slurm_refuses_is_told_in_slurms_words(lab):
    pod = lab.create(cpu=9)  # no node has as many
    message = wait_unschedulable(lab, pod, "Slurm")
    assert "Requested node configuration is not available" in message, message
    assert not lab.slurm.jobs()


@contextlib.contextmanager
def namespace(lab, name):
    """A namespace that lives as long as the block."""
    lab.kube.post("/api/v1/namespaces", {"metadata": {"name": name}})
    try:
        wait_for(lambda: lab.takes_pods(name), 60, "it takes pods")
        yield
    finally:
        lab.kube.delete(f"/api/v1/namespaces/{name}")
        wait_for(lambda: not lab.kube.find(f"/api/v1/namespaces/{name}"), 60, "the namespace is gone")


def test_namespace_without_a_tenant_entry_is_told_so(lab):
    with namespace(lab, "strangers"):
        pod = refused(lab, "tenant", "namespace strangers", "berth.yaml", ns="strangers")
        lab.delete(pod)
        lab.wait_gone(pod)


# --- not enough room

def test_pod_without_room_is_told_the_job_and_slurms_reason(lab):
    pod, job = waiting_pod(lab)
    message = wait_unschedulable(lab, pod, f"job {job}")
    assert lab.slurm.job(job)["Reason"] in message, message


def test_pod_with_room_is_never_told_to_wait(lab):
    pod, _ = running_pod(lab)
    assert not any(resource == "pods/status" for _, _, resource, _ in writes(lab, pod))


def test_waiting_pod_is_not_written_again_while_nothing_changes(lab):
    pod, job = waiting_pod(lab)
    reason = wait_for(lambda: (r := lab.slurm.job(job)["Reason"]) != "None" and r, what="slurmctld has a reason")
    wait_unschedulable(lab, pod, reason)
    version = lab.get(pod)["metadata"]["resourceVersion"]
    other = lab.create(cpu=8)  # its own looks at slurmctld do not concern this pod
    wait_unschedulable(lab, other, "job")
    holds_for(lambda: lab.get(pod)["metadata"]["resourceVersion"] == version, 7, "the pod is not written again", 0.2)
    assert lab.slurm.job(job)["Reason"] == reason
    assert [resource for _, _, resource, _ in writes(lab, pod)] == ["pods/status"]


def test_condition_follows_the_reason(lab):
    pod, job = waiting_pod(lab)
    wait_unschedulable(lab, pod, f"job {job}")
    lab.slurm.run("scontrol", "hold", job)
    wait_unschedulable(lab, pod, f"job {job}", "JobHeldAdmin")
    lab.slurm.run("scontrol", "release", job)
    wait_for(lambda: "JobHeldAdmin" not in scheduled(lab, pod)[2], what="the pod is told that the hold is over")
    assert len(jobs_of(lab, pod)) == 1


def test_waiting_pod_starts_by_itself_when_room_comes(lab):
    pod, job = waiting_pod(lab)
    wait_unschedulable(lab, pod, f"job {job}")
    lab.slurm.scancel("--user=root")
    lab.wait_bound(pod, 60)
    assert lab.job_id(pod) == job and scheduled(lab, pod)[0] == "True"
    lab.wait_phase(pod, "Running")


def test_pods_and_native_jobs_take_turns(lab):
    first, _ = running_pod(lab, cpu=8, run_for="2s")
    rest = [running_pod(lab, cpu=8)[0] for _ in lab.nodes[1:]]
    native = lab.slurm.sbatch("--exclusive", "--nodes=1", wrap="true")
    last = lab.create(cpu=8, run_for="0s")
    lab.wait_phase(last, "Succeeded", 60)
    wait_state(lab, native, "COMPLETED", deadline=60)
    assert lab.phase(first) == "Succeeded" and all(lab.phase(pod) == "Running" for pod in rest)


def test_pod_recreated_under_its_name_gets_a_job_of_its_own(lab):
    old, job = waiting_pod(lab, name="twice")
    lab.delete(old)
    lab.wait_gone(old)
    new = lab.create(name="twice")
    second = int(wait_job(lab, new)["JobId"])
    assert second != job
    wait_state(lab, job, "CANCELLED")
    lab.slurm.scancel("--user=root")
    lab.wait_bound(new, 60)
    assert lab.job_id(new) == second
    assert old["metadata"]["uid"] not in bindings(lab) and bindings(lab)[new["metadata"]["uid"]] == 1


def test_pod_recreated_at_once_is_bound_by_its_own_job_alone(lab):
    """With room, so that deletion, submission and binding race."""
    uids = []
    for _ in range(8):
        pod = lab.create(name="again")
        uids.append(pod["metadata"]["uid"])
        lab.delete(pod, grace=0)
    last = lab.create(name="again")
    lab.wait_phase(last, "Running", 60)
    job = lab.job_id(last)
    assert str(job) == jobs_of(lab, last)[0]["JobId"]
    wait_for(lambda: [j["id"] for j in lab.slurm.jobs()] == [job], 60, "the jobs of the others are gone")
    assert lab.phase(last) == "Running"
    assert max(len(placeholders(lab).get(uid, [])) for uid in uids) <= 1
    assert not [w for w in audit(lab) if w["code"] == 403], "a right is missing"


def test_agents_need_no_right_that_they_do_not_have(lab):
    """What Berth asked for in all tests before this one."""
    refusals = {(w["user"], w["verb"], w["resource"]) for w in audit(lab) if w["code"] == 403}
    assert not refusals


def test_agents_rights_are_no_wider_than_their_part(lab):
    def may(identity, verb, resource, namespace_="default"):
        user, groups = identity
        group, _, name = resource.partition(":")
        name, _, sub = name.partition("/")
        review = lab.kube.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", {
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": user, "groups": groups, "resourceAttributes": {
                "namespace": namespace_, "verb": verb, "group": group, "resource": name, "subresource": sub}}})
        return review["status"]["allowed"]
    controller = ("system:serviceaccount:berth-system:berth-controller", ["system:serviceaccounts", "system:authenticated"])
    node = ("berth-node:n1", ["berth-nodes", "system:authenticated"])
    assert may(controller, "patch", ":pods/status") and may(node, "create", ":pods/binding")
    assert may(controller, "create", ":pods/eviction") and not may(node, "create", ":pods/eviction")
    assert not may(controller, "create", ":pods/binding") and not may(node, "patch", ":nodes")
    # Of claims a node's agent changes what is there, and finds none that it does not know.
    claims = ":persistentvolumeclaims"
    assert {verb for verb in ("get", "patch", "list", "watch", "create", "update", "delete", "deletecollection") if may(node, verb, claims)} == {"get", "patch"}
    assert not may(node, "patch", claims + "/status") and not may(node, "get", ":persistentvolumes")
    assert not any(may(controller, verb, claims) for verb in ("get", "patch", "create", "update", "delete"))
    for identity in (controller, node):
        for verb, resource in (("get", ":secrets"), ("create", ":pods"), ("update", ":pods"), ("patch", ":pods"), ("create", ":pods/exec"),
                               ("update", ":nodes"), ("delete", ":nodes"), ("patch", ":nodes/status"), ("list", ":configmaps"),
                               ("create", "apps:deployments")):
            assert not may(identity, verb, resource), (identity[0], verb, resource)
