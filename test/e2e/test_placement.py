"""Where pods may be: node selectors, affinities, taints, and volumes that are made where the pod comes to be."""

import contextlib
import os

from gangs import create_job, job_object, on_nodes, running_gang, wait_pods
from lab import holds_for, wait_for
from witness import jobs_of, wait_unschedulable, warnings

HERE = os.path.dirname(os.path.abspath(__file__))
LAB = ["--nodes", "3", "--slurm-conf", HERE + "/gang.conf", "--berth-yaml", HERE + "/gang.yaml"]
DISK = "test.berth.dev/disk"


@contextlib.contextmanager
def labelled(lab, node, **labels):
    """The node has these labels (test.berth.dev/KEY) while the block lasts."""
    def patch(values):
        lab.kube.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": values}})
    patch({f"test.berth.dev/{key}": value for key, value in labels.items()})
    try:
        yield
    finally:
        patch({f"test.berth.dev/{key}": None for key in labels})


@contextlib.contextmanager
def tainted(lab, node, key, effect="NoSchedule"):
    lab.kube.patch(f"/api/v1/nodes/{node}", {"spec": {"taints": [{"key": key, "value": "yes", "effect": effect}]}})
    try:
        yield
    finally:
        lab.kube.patch(f"/api/v1/nodes/{node}", {"spec": {"taints": None}})


def required(operator, *values, key=DISK):
    expression = {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}


def with_spec(lab, spec, **words):
    pod = lab.pod(**words)
    pod["spec"].update(spec)
    return lab.create(pod)


def test_node_selector_is_kept_by_every_pod_of_a_gang(lab):
    with labelled(lab, "n2", disk="ssd"):
        job = job_object(lab, 4, cpu=2)
        job["spec"]["template"]["spec"]["nodeSelector"] = {DISK: "ssd"}
        gang = lab.create_owner(job)
        pods, record = running_gang(lab, gang, 4)
        assert on_nodes(pods) == {"n2": 4} and record["NodeList"] == "n2"


def test_gang_waits_for_the_matching_node_although_others_are_free(lab):
    with labelled(lab, "n2", disk="ssd"):
        native = lab.slurm.sbatch("-w", "n2", "--exclusive")
        job = job_object(lab, 2)
        job["spec"]["template"]["spec"]["nodeSelector"] = {DISK: "ssd"}
        gang = lab.create_owner(job)
        pods = wait_pods(lab, gang, 2)
        wait_unschedulable(lab, pods[0], "pending")
        lab.slurm.scancel(native)
        pods, _ = running_gang(lab, gang, 2)
        assert on_nodes(pods) == {"n2": 2}


def test_required_affinity_is_kept(lab):
    with labelled(lab, "n1", disk="ssd", size="10"), labelled(lab, "n2", disk="hdd", size="20"):
        for affinity, nodes in ((required("In", "ssd", "nvme"), {"n1"}), (required("NotIn", "ssd", "hdd"), {"n3"}),
                                (required("DoesNotExist"), {"n3"}), (required("Exists"), {"n1", "n2"}),
                                (required("Gt", "15", key="test.berth.dev/size"), {"n2"}), (required("Lt", "15", key="test.berth.dev/size"), {"n1"})):
            pods = [with_spec(lab, {"affinity": affinity}, run_for="100ms") for _ in range(3)]
            assert {lab.wait_bound(pod)["spec"]["nodeName"] for pod in pods} <= nodes, affinity


def test_pod_that_no_node_matches_is_told_so_at_once(lab):
    pod = with_spec(lab, {"nodeSelector": {DISK: "tape"}})
    message = wait_unschedulable(lab, pod, "no node", f"{DISK}=tape")
    wait_for(lambda: warnings(lab, pod), what="the pod gets an event")
    assert warnings(lab, pod) == [("FailedScheduling", message)] and not jobs_of(lab, pod)
    with labelled(lab, "n3", disk="tape"):
        assert lab.wait_bound(pod, 60)["spec"]["nodeName"] == "n3"


def test_preferred_affinity_is_not_required(lab):
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "preference": {"matchExpressions": [{"key": DISK, "operator": "In", "values": ["none-has-this"]}]}}]}}
    pod = with_spec(lab, {"affinity": affinity})
    lab.wait_phase(pod, "Running")
    wait_for(lambda: any("preferred" in message for _, message in warnings(lab, pod)), what="it is told that it was ignored")


def test_taint_keeps_off_pods_that_do_not_tolerate_it(lab):
    with tainted(lab, "n1", "test.berth.dev/reserved"), tainted(lab, "n2", "test.berth.dev/reserved"):
        plain = create_job(lab, 4)
        pods, _ = running_gang(lab, plain, 4)
        assert on_nodes(pods) == {"n3": 4}
        job = job_object(lab, 2, cpu=8)
        job["spec"]["template"]["spec"]["tolerations"] = [{"key": "test.berth.dev/reserved", "operator": "Exists"}]
        pods, _ = running_gang(lab, lab.create_owner(job), 2)
        assert on_nodes(pods) == {"n1": 1, "n2": 1}


def test_taint_of_managed_nodes_keeps_nobody_off(lab):
    with contextlib.ExitStack() as stack:
        for node in lab.nodes:
            stack.enter_context(tainted(lab, node, "slinky.slurm.net/managed-node"))
        lab.wait_phase(lab.create(), "Running")


def test_pod_affinity_is_refused_loudly(lab):
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}]}}
    pod = with_spec(lab, {"affinity": affinity})
    wait_unschedulable(lab, pod, "affinity to other pods", "berth.dev/spread")
    assert not jobs_of(lab, pod)


# --- volumes

@contextlib.contextmanager
def storage_class(lab, name):
    path = "/apis/storage.k8s.io/v1/storageclasses"
    lab.kube.post(path, {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
                         "provisioner": "test.berth.dev/by-hand", "volumeBindingMode": "WaitForFirstConsumer"})
    try:
        yield
    finally:
        lab.kube.delete(f"{path}/{name}")


def provision(lab, claim):
    """What a provisioner does once a node is selected."""
    meta = claim["metadata"]
    lab.kube.post("/api/v1/persistentvolumes", {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-" + meta["uid"]},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": claim["spec"]["storageClassName"],
                 "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/nonexistent"},
                 "claimRef": {"kind": "PersistentVolumeClaim", "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}}})


def test_claim_that_waits_for_its_first_consumer_gets_the_node_that_slurm_chose(lab):
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    with storage_class(lab, "late"):
        claim = lab.kube.post(claims, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "scratch"},
                                       "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"],
                                                "resources": {"requests": {"storage": "1Gi"}}}})
        path, volume = f"{claims}/scratch", "/api/v1/persistentvolumes/pv-" + claim["metadata"]["uid"]
        try:
            pod = with_spec(lab, {"volumes": [{"name": "scratch", "persistentVolumeClaim": {"claimName": "scratch"}}]})
            node = wait_for(lambda: lab.kube.get(path)["metadata"].get("annotations", {}).get("volume.kubernetes.io/selected-node"),
                            what="a node is selected for the claim")
            job, = jobs_of(lab, pod)
            assert job["JobState"] == "RUNNING" and job["NodeList"] == node
            holds_for(lambda: not lab.get(pod)["spec"].get("nodeName"), 2, "there is no volume yet, and the pod is not bound")
            provision(lab, claim)
            assert lab.wait_bound(pod)["spec"]["nodeName"] == node
            assert lab.kube.get(path)["status"]["phase"] == "Bound"
            lab.wait_phase(pod, "Running")
            lab.delete(pod)
            lab.wait_gone(pod)
        finally:
            lab.kube.delete(path)
            lab.unless_gone(lambda: lab.kube.delete(volume))
            wait_for(lambda: not lab.kube.find(path) and not lab.kube.find(volume), what="claim and volume are gone")
