"""What a newer API server than the lab's own does with etc/kubernetes/: the admission policies (1.30), the FlowSchemas (1.29) and the uid
of a Binding (1.27). The policies are there during a test alone, for all other tests show that Berth holds without them. What they say to
each kind of request, one by one, is in test/policy."""

import contextlib
import json
import os
import re

from gangs import create_group, create_job, jobset_object, job_object, join_group, lws_object, name_of, template, wait_pods
from kube import ApiError
from lab import HERE, JOB_ID, wait_for
from witness import NODE, NONCE, asking, audit, bindings, pod_reads, running_pod, waiting_pod

MANIFESTS = os.path.join(os.path.dirname(os.path.dirname(HERE)), "etc", "kubernetes")
POLICY_FILE = MANIFESTS + "/admission-policy.yaml"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
KEYS = (JOB_ID, NODE, NONCE, "berth.dev/slot")
TRIAL = "?dryRun=All"  # judged like any other, and then forgotten


def refusal(ask, *arguments):
    """What the server says against a request; None when it takes it."""
    try:
        ask(*arguments)
    except ApiError as error:
        assert error.status == 403, error
        return str(error)
    return None


def refuses(policy, words, ask, *arguments):
    said = refusal(ask, *arguments)
    assert said and f"'{policy}'" in said and words in said, f"{policy} should say {words!r} to {arguments}, but the answer is {said}"


def takes(ask, *arguments):
    said = refusal(ask, *arguments)
    assert said is None, f"{arguments} are refused: {said}"


def try_pod(lab, pod):
    return lab.kube.post(f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods{TRIAL}", pod)


def placed(lab, node):
    pod = lab.pod()
    pod["spec"]["nodeName"] = node
    return pod


@contextlib.contextmanager
def policies(lab):
    """The shipped policies, in force while the block lasts. The server takes up each of them some time after it is written."""
    lab.needs_kubernetes(30)
    forbidden = [lab.pod(annotations={NONCE: "1"}), lab.pod(annotations=asking(user_id=0)), placed(lab, "n1")]
    pod = lab.create(scheduler="nobody")
    node = lab.kube_as("berth-node-n1")

    def answers():
        binding = refusal(node.post, lab.path(pod, "/binding") + TRIAL, binding_of(pod, "n2"))
        return [binding, *(refusal(try_pod, lab, one) for one in forbidden)]
    lab.kubectl("apply", "-f", POLICY_FILE)
    try:
        wait_for(lambda: all(answers()), what="all policies are in force")
        yield
    finally:
        lab.kubectl("delete", "-f", POLICY_FILE)
        wait_for(lambda: not any(answers()), what="no policy is in force")


def binding_of(pod, node, **metadata):
    meta = pod["metadata"]
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": meta["name"], "namespace": meta["namespace"], **metadata},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node}}


def test_all_manifests_apply_as_they_stand(lab):
    """With the server's check of every field, and its check of the types in every expression."""
    lab.needs_kubernetes(30)
    for file in sorted(os.listdir(MANIFESTS)):
        lab.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", f"{MANIFESTS}/{file}")
    with policies(lab):
        def checked():
            found = [item for item in lab.kube.get(POLICIES)["items"] if item["metadata"]["name"].startswith("berth-")]
            return len(found) == 4 and all(item["status"].get("observedGeneration") == item["metadata"]["generation"] for item in found) and found
        for policy in wait_for(checked, what="the server has checked the types"):
            doubts = policy["status"].get("typeChecking", {}).get("expressionWarnings")
            assert not doubts, f"{policy['metadata']['name']}: {json.dumps(doubts, indent=1)}"


def test_node_agent_binds_to_its_own_node_only(lab):
    with policies(lab):
        pod = lab.create(scheduler="nobody")
        path = lab.path(pod, "/binding") + TRIAL
        n1 = lab.kube_as("berth-node-n1")
        refuses("berth-node-binding", "berth-node:n1 may bind pods to node n1 only, not to n2", n1.post, path, binding_of(pod, "n2"))
        takes(n1.post, path, binding_of(pod, "n1"))
        takes(lab.kube.post, path, binding_of(pod, "n2"))
        with token_of_a_daemon(lab, "n1") as daemon:
            refuses("berth-node-binding", "to node n1 only, not to n2", daemon.post, path, binding_of(pod, "n2"))
            takes(daemon.post, path, binding_of(pod, "n1"))
        nowhere = lab.kube.with_token(lab.account_token("berth-system", "berth-node"))
        refuses("berth-node-binding", "no node", nowhere.post, path, binding_of(pod, "n1"))


@contextlib.contextmanager
def token_of_a_daemon(lab, node):
    """The service account's, as a pod of a DaemonSet gets it: with the name of its node."""
    pod = lab.pod(ns="berth-system", scheduler="nobody", grace=0)
    pod["spec"].update(nodeName=node, serviceAccountName="berth-node")
    pod = lab.create(pod)
    try:
        reference = {"kind": "Pod", "apiVersion": "v1", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        yield lab.kube.with_token(lab.account_token("berth-system", "berth-node", boundObjectRef=reference))
    finally:
        lab.delete(pod, grace=0)


def test_only_berth_writes_its_keys(lab):
    with policies(lab):
        pod, job = running_pod(lab)
        other = lab.create(scheduler="nobody")
        said = "are set by Berth alone"
        for key in KEYS:
            refuses("berth-annotations", said, try_pod, lab, lab.pod(annotations={key: "1"}))
            refuses("berth-annotations", said, lab.kube.post, lab.path(other, "/binding") + TRIAL, binding_of(other, "n1", annotations={key: "1"}))
            for rest in ("", "/status"):
                refuses("berth-annotations", said, lab.kube.patch, lab.path(other, rest) + TRIAL, {"metadata": {"annotations": {key: "1"}}})
        for key in (JOB_ID, NODE, NONCE):
            for value in ("another", None):
                refuses("berth-annotations", said, lab.kube.patch, lab.path(pod), {"metadata": {"annotations": {key: value}}})
        takes(lab.kube.patch, lab.path(pod), {"metadata": {"annotations": {"mine": "1"}}})
        assert lab.job_id(pod) == job


def test_nobody_places_or_resizes_a_pod_past_slurm(lab):
    with policies(lab):
        refuses("berth-placement", "leave out spec.nodeName", try_pod, lab, placed(lab, "n1"))
        pod, _ = waiting_pod(lab)  # the server takes a running one's only where its kubelet reports resources
        larger = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}}
        refuses("berth-placement", "instead of resizing it", lab.kube.patch, lab.path(pod, "/resize"), larger, "application/strategic-merge-patch+json")
        other = lab.pod(scheduler="nobody")
        other["spec"]["nodeName"] = "n1"
        takes(try_pod, lab, other)


def authors_of_wishes(lab, annotations):
    """(where it is created, object) of every kind whose annotations are read."""
    ns = "/namespaces/default"
    yield f"/api/v1{ns}/pods", lab.pod(annotations=annotations)
    yield f"/apis/batch/v1{ns}/jobs", job_object(lab, annotations=annotations)
    labels = {"app": "a"}
    of_pods = {"selector": {"matchLabels": labels}, "template": template(lab, labels, restart="Always")}
    for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"):
        spec = {**of_pods, "serviceName": "a"} if kind == "StatefulSet" else of_pods
        yield f"/apis/apps/v1{ns}/{kind.lower()}s", {"apiVersion": "apps/v1", "kind": kind, "spec": spec,
                                                     "metadata": {"name": name_of(kind), "annotations": annotations}}
    yield f"/apis/jobset.x-k8s.io/v1alpha2{ns}/jobsets", jobset_object(lab, {"a": (1, {})}, annotations=annotations)
    yield f"/apis/leaderworkerset.x-k8s.io/v1{ns}/leaderworkersets", lws_object(lab, 2, annotations=annotations)
    yield f"/apis/scheduling.x-k8s.io/v1alpha1{ns}/podgroups", {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "spec": {"minMember": 2},
        "metadata": {"name": name_of("PodGroup"), "annotations": annotations}}


def test_identities_are_asked_for_only_where_the_namespace_allows_it(lab):
    with policies(lab):
        for key, value in (("user-id", "0"), ("group-id", "0"), ("priority", "9")):
            for path, wish in authors_of_wishes(lab, asking(**{key: value})):
                refuses("berth-identity", f"may not ask Slurm for {key} {value}; its annotation berth.dev/allow-{key}", lab.kube.post, path + TRIAL, wish)
        for path, wish in authors_of_wishes(lab, asking(partition="main", timelimit="5")):
            takes(lab.kube.post, path + TRIAL, wish)
        mine, others = lab.pod(annotations=asking(user_id=8)), lab.pod(annotations=asking(user_id=9))
        lab.kube.patch("/api/v1/namespaces/default", {"metadata": {"annotations": {"berth.dev/allow-user-id": "7, 8"}}})
        try:
            wait_for(lambda: refusal(try_pod, lab, mine) is None, what="the namespace's list is known")
            refuses("berth-identity", "user-id 9", try_pod, lab, others)
        finally:
            lab.kube.patch("/api/v1/namespaces/default", {"metadata": {"annotations": {"berth.dev/allow-user-id": None}}})


def test_pods_and_gangs_run_under_all_policies(lab):
    with policies(lab):
        before = len(audit(lab))
        pod, _ = running_pod(lab)
        job = create_job(lab, 3)
        group = create_group(lab, 2)
        members = join_group(lab, group, 2)
        for one in [pod, *wait_pods(lab, job, 3), *members]:
            lab.wait_phase(one, "Running")
        ended = lab.create(run_for="0s", exit_code=3)
        lab.wait_phase(ended, "Failed")
        lab.slurm.scancel(lab.job_id(pod))
        lab.wait_gone(pod)
        assert not [w for w in audit(lab)[before:] if w["code"] == 403]


def dispatched(lab, schema):
    """How many requests the server has served by this FlowSchema."""
    found = re.findall(r'^apiserver_flowcontrol_dispatched_requests_total\{(.*?)\} (\S+)$', lab.kube.get("/metrics"), re.M)
    return sum(float(count) for labels, count in found if f'flow_schema="{schema}"' in labels)


def test_what_berth_asks_goes_by_its_flow_schemas(lab):
    lab.needs_kubernetes(29)
    before = {schema: dispatched(lab, schema) for schema in ("berth", "berth-leader-election")}
    pods = [lab.create() for _ in range(5)]
    for pod in pods:
        lab.wait_phase(pod, "Running")
    assert dispatched(lab, "berth") >= before["berth"] + len(pods), "a Binding each, at least"
    wait_for(lambda: dispatched(lab, "berth-leader-election") > before["berth-leader-election"], what="the lease is renewed by its own schema")
    for schema in before:
        conditions = lab.kube.get(f"/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/{schema}")["status"]["conditions"]
        assert {c["type"]: c["status"] for c in conditions} == {"Dangling": "False"}, conditions


def test_binding_names_the_uid_and_no_pod_is_read_before_it(lab):
    lab.needs_kubernetes(27)
    pod = lab.create(scheduler="nobody")
    try:
        lab.kube.post(lab.path(pod, "/binding"), binding_of(pod, "n1", uid="00000000-0000-0000-0000-000000000000"))
        raise AssertionError("the server binds a pod of another uid")
    except ApiError as error:
        assert error.status == 409, error
    before = pod_reads(lab)
    uids = {lab.create()["metadata"]["uid"] for _ in range(5)}
    # Lists only, for a GET of this test would count.
    wait_for(lambda: uids <= {p["metadata"]["uid"] for p in lab.pods() if p["status"]["phase"] == "Running"}, what="the pods run", interval=0.1)
    assert pod_reads(lab) == before and all(bindings(lab)[uid] == 1 for uid in uids)
