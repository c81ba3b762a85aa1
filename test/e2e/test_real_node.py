"""The lab's real node: a real kubelet and containerd run what is bound to them."""

from lab import wait_for

LAB = ["--nodes", "1", "--no-berth", "--real-node"]


def test_pod_on_the_real_node_exits_with_its_code(lab):
    pod = lab.create(cpu="100m", command=["sh", "-c", "sleep 2; exit 3"])
    lab.bind(pod, "real")
    lab.wait_phase(pod, "Running", 60)
    assert lab.processes(pod)
    wait_for(lambda: lab.ended(pod), 60, "the pod ends")
    assert lab.ended(pod)["exitCode"] == 3
    assert lab.phase(pod) == "Failed"


def test_deleted_pod_on_the_real_node_is_gone(lab):
    pod = lab.create(cpu="100m", grace=1, command=["sleep", "1000"])
    lab.bind(pod, "real")
    lab.wait_phase(pod, "Running", 60)
    lab.delete(pod)
    wait_for(lambda: not lab.processes(pod), 60, "its processes are gone")
    lab.wait_gone(pod, 150)
