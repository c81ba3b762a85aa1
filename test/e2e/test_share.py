"""Sharing a node: a pod that its kubelet would refuse is not bound, and a pod without limits cannot take more memory than Slurm gave it."""

import os

from gangs import create_job, running_gang
from lab import holds_for, wait_for
from witness import running_pod, wait_job, wait_state, warnings

HERE = os.path.dirname(os.path.abspath(__file__))
LAB = ["--nodes", "3", "--slurm-conf", HERE + "/gang.conf", "--berth-yaml", HERE + "/gang.yaml"]
FULL = "NodeFull"


# --- tools of these tests

def on(pod, node):
    pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    return pod


class Allocatable:
    """What a Node says that its kubelet has for pods; put back at the end."""

    def __init__(self, lab, node, **amounts):
        self._lab, self._path = lab, f"/api/v1/nodes/{node}"
        self._before = lab.kube.get(self._path)["status"]["allocatable"]
        self.set(**amounts)

    def set(self, **amounts):
        self._lab.kube.patch(self._path + "/status", {"status": {"allocatable": {**self._before, **amounts}}})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.set()


def full(lab, pod):
    return [message for reason, message in warnings(lab, pod) if reason == FULL]


def wait_full(lab, pod):
    """The one sentence that the pod is told."""
    messages = wait_for(lambda: full(lab, pod), what=f"pod {pod['metadata']['name']} is told {FULL}")
    assert not lab.get(pod)["spec"].get("nodeName")
    return messages[0]


def memory_limit(lab, pod):
    """The bound of the pod's own cgroup in bytes, or None before there is one."""
    for directory in lab.cgroups(pod):
        for file in ("memory.limit_in_bytes", "memory.max"):
            try:
                with open(f"{directory}/{file}", encoding="ascii") as limit:
                    text = limit.read().strip()
                    return int(text) if text.isdigit() and int(text) < 1 << 60 else None
            except OSError:
                pass
    return None


# --- capacity

def test_pod_that_the_kubelet_would_refuse_is_told_and_bound_when_there_is_room(lab):
    with Allocatable(lab, "n1", cpu="2") as n1:
        pod = lab.create(on(lab.pod(cpu=4), "n1"))
        sentence = wait_full(lab, pod)
        assert "node n1" in sentence and "of cpu it asks for 4, and 2 of 2 are free" in sentence, sentence
        job = int(wait_job(lab, pod)["JobId"])
        assert lab.slurm.job_state(job) == "RUNNING", "its job holds the room"
        n1.set(memory="32Mi", cpu="8")
        wait_for(lambda: any("of memory it asks for 64 MiB, and 32 MiB of 32 MiB" in text for text in full(lab, pod)), what="memory counts too")
        n1.set()
        lab.wait_phase(pod, "Running")
        assert lab.job_id(pod) == job and len(full(lab, pod)) == 2


def test_pods_that_slurm_does_not_know_of_count(lab):
    daemon = lab.create(scheduler="none", cpu=6)
    lab.bind(daemon, "n1")
    lab.wait_phase(daemon, "Running")
    pod = lab.create(on(lab.pod(cpu=4), "n1"))
    assert "of cpu it asks for 4, and 2 of 8 are free" in wait_full(lab, pod)
    small = lab.create(on(lab.pod(cpu=2), "n1"))
    lab.wait_phase(small, "Running")
    lab.delete(daemon, grace=1)
    lab.wait_phase(pod, "Running")
    assert len(full(lab, pod)) == 1, "told once"


def test_waiting_pod_that_does_not_fit_can_be_cancelled(lab):
    with Allocatable(lab, "n1", cpu="1"):
        pod = lab.create(on(lab.pod(cpu=2), "n1"))
        wait_full(lab, pod)
        job = int(wait_job(lab, pod)["JobId"])
        lab.slurm.scancel(job)
        lab.wait_gone(pod)
        wait_state(lab, job, "CANCELLED")


def test_full_node_takes_pod_after_pod(lab):
    for _ in range(3):
        pods = [lab.create(cpu=8, run_for="300ms") for _ in lab.nodes]
        for pod in pods:
            lab.wait_phase(pod, "Succeeded")


# --- memory

def test_pod_without_a_memory_limit_is_bounded_by_what_slurm_allotted(lab):
    pod, job = running_pod(lab, memory="100Mi")
    wait_for(lambda: memory_limit(lab, pod) == 100 << 20, what="the bound is there")
    assert lab.slurm.job(job)["MinMemoryNode"] == "100M"


def test_pod_with_a_memory_limit_is_left_to_the_kubelet(lab):
    pod = lab.pod(memory="100Mi")
    pod["spec"]["containers"][0]["resources"]["limits"] = {"memory": "100Mi"}
    pod = lab.wait_phase(lab.create(pod), "Running")
    holds_for(lambda: memory_limit(lab, pod) is None, 1, "Berth writes nothing")


def test_each_pod_of_a_gang_is_bounded_by_its_own_part(lab):
    pods, _ = running_gang(lab, create_job(lab, pods=4, cpu=2, memory="80Mi"), 4)
    for pod in pods:
        wait_for(lambda: memory_limit(lab, pod) == 80 << 20, what="the bound is there")


def test_bound_is_written_by_an_agent_that_was_away(lab):
    lab.daemon("pause", "hollow-kubelet")
    pod = lab.create(memory="100Mi")
    node = lab.wait_bound(pod)["spec"]["nodeName"]
    lab.daemon("kill", "berthd:" + node)
    lab.daemon("resume", "hollow-kubelet")
    lab.wait_phase(pod, "Running")
    assert memory_limit(lab, pod) is None
    lab.daemon("start", "berthd:" + node)
    wait_for(lambda: memory_limit(lab, pod) == 100 << 20, what="the bound is there")
