"""A node that is lost: slurmd, agent, kubelet and all processes on it die at once, and with them what lay in its memory. And a node that
comes back without it."""

import contextlib
import os
import re
import shutil
import signal
import time

from gangs import create_job, live_pods, name_of, pods_of, template, wait_running
from handover import IMPATIENT, settled
from lab import holds_for, wait_for
from test_nodes import configured, look
from witness import jobs_of, running_pod, wait_state

LAB = IMPATIENT


# --- tools of these tests

def steps_on(lab, node):
    """Slurm's own processes of jobs on the node, which outlive its slurmd."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/environ", "rb") as file:
                words = file.read().split(b"\0")
            if f"SLURMD_NODENAME={node}".encode() in words and f"SLURM_CONF={lab.env['SLURM_CONF']}".encode() in words:
                yield int(pid)


def kubelets(lab, nodes):
    """The hollow kubelet plays these nodes from now on."""
    path = f"{lab.dir}/daemons/hollow-kubelet/run"
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(re.sub(r"--nodes \S+", f"--nodes {','.join(nodes)}", text))
    lab.daemon("kill", "hollow-kubelet")
    lab.daemon("start", "hollow-kubelet")


def set_ready(lab, node, status):
    """What Kubernetes' node controller writes of a node that says nothing, after 40 s; in the lab it never does."""
    lab.kube.patch(f"/api/v1/nodes/{node}/status", {"status": {"conditions": [{"type": "Ready", "status": status, "message": "test"}]}},
                   "application/strategic-merge-patch+json")


def power_off(lab, node, pods):
    lab.daemon("kill", f"berthd:{node}", f"slurmd:{node}")
    kubelets(lab, [other for other in lab.nodes if other != node])
    for pid in [*steps_on(lab, node), *(pid for pod in pods for pid in lab.processes(pod))]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(f"{lab.run_dir}/{node}")  # it is on tmpfs
    set_ready(lab, node, "Unknown")


def power_on(lab, node):
    lab.daemon("start", f"slurmd:{node}", f"berthd:{node}")
    kubelets(lab, lab.nodes)
    wait_for(lambda: "*" not in lab.slurm.nodes()[node], 60, "slurmd has registered")
    lab.slurm.resume(node)


@contextlib.contextmanager
def lost(lab, pod):
    """The pod's node is without power meanwhile, and Slurm knows."""
    node = pod["spec"]["nodeName"]
    power_off(lab, node, [pod])
    try:
        lab.slurm.update(f"NodeName={node}", "State=DOWN", "Reason=Not responding")
        yield node
    finally:
        power_on(lab, node)


def terminating(lab, pod):
    now = lab.get(pod)
    return now and now["metadata"].get("deletionTimestamp")


def stateful_set(lab, **words):
    name = name_of("set")
    return lab.create_owner({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name, "namespace": "default"},
                             "spec": {"replicas": 1, "serviceName": name, "selector": {"matchLabels": {"set": name}},
                                      "template": template(lab, {"set": name}, restart="Always", **words)}})


def pod_of(lab, owner, other_than=None, deadline=60):
    """The pod of a StatefulSet with one replica, once it runs."""
    def runs():
        pod = lab.kube.find(f"/api/v1/namespaces/default/pods/{owner['metadata']['name']}-0")
        return pod if pod and pod["status"]["phase"] == "Running" and pod["metadata"]["uid"] != other_than else None
    return wait_for(runs, deadline, "the set's pod runs")


# --- the tests

def test_lost_nodes_pod_goes_and_the_next_one_starts_elsewhere(lab):
    owner = create_job(lab, 1, gang=False, grace=1)
    pod, = wait_running(lab, owner, 1)
    job = lab.job_id(pod)
    with lost(lab, pod) as node:
        wait_state(lab, job, "NODE_FAIL")
        wait_for(lambda: terminating(lab, pod), 60, "the controller deletes the pod")
        wait_for(lambda: any(p["status"]["phase"] == "Running" and p["spec"]["nodeName"] != node for p in live_pods(lab, owner)), 60,
                 "its replacement runs elsewhere")
        holds_for(lambda: terminating(lab, pod), 4, "nobody can say what the old one's kubelet does: it waits")
        assert not lab.held(node)
    replacement, = live_pods(lab, owner)
    before = lab.processes(replacement)
    lab.wait_gone(pod)
    wait_for(lambda: lab.slurm.nodes()[node] == "idle" and not lab.held(node), 60, "the node is as new")
    assert lab.processes(replacement) == before and [p["metadata"]["uid"] for p in pods_of(lab, owner)] == [replacement["metadata"]["uid"]]
    assert [j["JobState"] for j in jobs_of(lab, pod)] == ["NODE_FAIL"] and lab.slurm.job_state(lab.job_id(replacement)) == "RUNNING"


def test_lost_nodes_pod_is_deleted_by_force_where_the_site_says_so(lab):
    """The replicas of a StatefulSet have one name: until the old object is gone there is no next one."""
    with configured(lab, lost="force"):
        owner = stateful_set(lab, grace=1)
        pod = pod_of(lab, owner)
        with lost(lab, pod) as node:
            lab.wait_gone(pod)
            replacement = pod_of(lab, owner, pod["metadata"]["uid"])
            assert replacement["spec"]["nodeName"] != node
        before = lab.processes(replacement)
        wait_for(lambda: lab.slurm.nodes()[node] == "idle" and not lab.held(node), 60, "the node is as new")
        assert lab.processes(replacement) == before


def test_node_that_only_slurm_has_lost_is_not_forced(lab):
    with configured(lab, lost="force"):
        pod, job = running_pod(lab, die_after="4s", grace=20)
        node = pod["spec"]["nodeName"]
        lab.daemon("kill", f"slurmd:{node}", f"berthd:{node}")
        lab.slurm.update(f"NodeName={node}", "State=DOWN", "Reason=Not responding")
        wait_state(lab, job, "NODE_FAIL")
        wait_for(lambda: terminating(lab, pod), 60, "the controller deletes the pod")
        assert lab.get(pod)["metadata"]["deletionGracePeriodSeconds"] == 20
        began = time.monotonic()
        wait_for(lambda: not lab.processes(pod), what="it has its time")
        assert time.monotonic() - began > 2
        lab.wait_gone(pod)
        lab.daemon("start", f"slurmd:{node}", f"berthd:{node}")
        wait_for(lambda: "*" not in lab.slurm.nodes()[node], 60, "slurmd has registered")
        lab.slurm.resume(node)
        look(lab)
        settled(lab)
