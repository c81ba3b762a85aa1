"""The gate of a node with many pods: it asks slurmctld for one of them, and still keeps every job out that Slurm lets in too early."""

import re
from contextlib import contextmanager

import forgotten
from handover import SHORT_HOLD, NativeJob, settled
from lab import wait_for
from witness import running_pod

LAB = SHORT_HOLD


@contextmanager
def paused(lab, daemon):
    lab.daemon("pause", daemon)
    try:
        yield
    finally:
        lab.daemon("resume", daemon)


def record(lab, node, name):
    """The fields of a record of the gate's; nothing where there is none."""
    try:
        with open(f"{lab.run_dir}/{node}/gate/{name}", encoding="utf-8") as file:
            return dict(line.rstrip("\n").split("=", 1) for line in file.readlines()[1:])
    except FileNotFoundError:
        return {}


def neighbours(lab, **words):
    """Three pods on one node whom the gate has asked for; and the node."""
    pods = [running_pod(lab, cpu=1, **words) for _ in range(3)]
    nodes = {pod["spec"]["nodeName"] for pod, _ in pods}
    assert len(nodes) == 1, nodes
    node = nodes.pop()
    pass_gate(lab, node)
    assert on_roll(lab, node) >= {job for _, job in pods}
    return [pod for pod, _ in pods], node


def pass_gate(lab, node):
    job = lab.slurm.sbatch("-w", node, "--mem=64", wrap="true", user="lab_bob")
    wait_for(lambda: lab.slurm.job_state(job) == "COMPLETED", what="a native job passes the gate")


def on_roll(lab, node):
    return {int(name.split(".")[0]) for name in record(lab, node, "roll")["jobs"].split(",")}


def end_all(lab, pods):
    for pod in pods:
        lab.delete(pod, grace=0)
    for pod in pods:
        lab.wait_gone(pod)
    settled(lab)


def questions(lab):
    """How often slurmctld was asked for one job."""
    found = re.search(r"REQUEST_JOB_INFO_SINGLE\s.*count:(\d+)", lab.slurm.run("sdiag"))
    return int(found[1]) if found else 0


def test_full_node_asks_for_one_of_its_placeholders(lab):
    """For each prolog and each step, however many there are."""
    pods = [running_pod(lab, cpu=1) for _ in range(6)]
    node = pods[0][0]["spec"]["nodeName"]
    assert all(pod["spec"]["nodeName"] == node for pod, _ in pods)
    pass_gate(lab, node)
    with paused(lab, f"berthd:{node}"):  # it has questions of its own
        before = questions(lab)
        lab.slurm.run("sbatch", "--wait", "-w", node, "--mem=64", "-o", "/dev/null", "--wrap", "true")
        assert questions(lab) - before <= 3, "prolog and step ask for one each"
    end_all(lab, [pod for pod, _ in pods])


def test_full_node_set_down_and_resumed_takes_no_job(lab):
    pods, node = neighbours(lab, **forgotten.SLOW)
    native = NativeJob(lab, pods[0])
    lab.slurm.update(f"NodeName={node}", "State=DOWN", "Reason=test")
    lab.slurm.resume(node)
    native.verify()
    for pod in pods:
        lab.wait_gone(pod)
    settled(lab)


def test_job_lost_beside_pods_that_the_gate_knows_keeps_others_out(lab):
    pods, node = neighbours(lab)
    before = record(lab, node, "roll")["epoch"]
    pod, job = forgotten.lose_job(lab, cpu=1, **forgotten.SLOW)
    assert pod["spec"]["nodeName"] == node
    native = NativeJob(lab, pod, whole=False)
    assert native.job == job, "slurmctld gives the lost job's id to the next one"
    native.verify(others=pods)
    lab.wait_gone(pod)
    pass_gate(lab, node)
    assert record(lab, node, "roll")["epoch"] != before, "the roll is of the slurmctld that runs"
    end_all(lab, pods)


def test_slurmd_that_starts_makes_the_roll_void(lab):
    pods, node = neighbours(lab)
    before = record(lab, node, "roll")["watch"]
    assert record(lab, node, "watch")["name"] == before
    lab.daemon("kill", f"slurmd:{node}")
    lab.daemon("start", f"slurmd:{node}")
    wait_for(lambda: record(lab, node, "watch").get("name") != before, what="slurmd tells the gate that it is new")
    wait_for(lambda: lab.slurm.nodes()[node].startswith(("mix", "alloc")), what="the node is back")
    pass_gate(lab, node)
    assert record(lab, node, "roll")["watch"] != before
    end_all(lab, pods)
