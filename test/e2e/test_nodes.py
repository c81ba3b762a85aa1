"""Nodes, both ways: what Slurm says of a node shows in Kubernetes, and the other way round; each undoes its own and nothing else."""

import contextlib
import re
import shlex
import socket
import subprocess

from gangs import annotation
from lab import CORDONED, holds_for, wait_for
from slurm import CommandError
from witness import NODE, audit, jobs_of, running_pod, wait_job, wait_state

SLURM_NAME = "slinky.slurm.net/slurm-nodename"
TAINT = "slinky.slurm.net/managed-node"


# --- both sides

def kube_node(lab, name):
    return lab.kube.get(f"/api/v1/nodes/{name}")


def is_cordoned(lab, name):
    return kube_node(lab, name)["spec"].get("unschedulable", False)


def cordoned_for(lab, name):
    """What Berth wrote when it cordoned the node, or None."""
    return kube_node(lab, name)["metadata"].get("annotations", {}).get(CORDONED)


def look(lab):
    """Rings the controller's doorbell: Slurm has no push for its nodes, so their changes are seen at the next look at its jobs."""
    socket.create_connection(("127.0.0.1", int(lab.env["BERTH_LAB_PORT"]) + 20), 5).close()


def wait_seen(lab, condition, what, deadline=30):
    """Waits for what follows from a look."""
    def seen():
        look(lab)
        return condition()
    return wait_for(seen, deadline, what, interval=0.1)


def wait_cordoned(lab, name, why):
    wait_seen(lab, lambda: is_cordoned(lab, name) and cordoned_for(lab, name) == why, f"node {name} is cordoned for {why}")


def wait_open(lab, name):
    wait_seen(lab, lambda: not is_cordoned(lab, name) and cordoned_for(lab, name) is None, f"node {name} is open")


def is_drained(lab, name):
    return "drain" in lab.slurm.nodes()[name]


def reason(lab, name):
    """Why the Slurm node is off, without who said it and when."""
    return re.sub(r" \[.*\]$", "", lab.slurm.node(name).get("Reason", ""))


def wait_drained(lab, name, why):
    wait_for(lambda: is_drained(lab, name) and reason(lab, name) == why, 30, f"node {name} is drained: {why}")


def wait_resumed(lab, name):
    wait_seen(lab, lambda: lab.slurm.nodes()[name] == "idle", f"Slurm node {name} is idle")


def drain(lab, name, why="bad disk", state="DRAIN"):
    lab.slurm.update(f"NodeName={name}", f"State={state}", f"Reason={why}")


def node_events(lab, name):
    path = f"/api/v1/events?fieldSelector=involvedObject.kind%3DNode,involvedObject.name%3D{name}"
    return {(e["reason"], e["message"]) for e in lab.kube.get(path)["items"]}


def node_writes(lab):
    return [w for w in audit(lab) if w["resource"] == "nodes"]


def at_rest(lab, name):
    """Nobody writes any more, although the controller looks again and again: the API server's record of Berth's writes does not grow,
    and Slurm's reason keeps its time."""
    writes, said = len(node_writes(lab)), lab.slurm.node(name).get("Reason")

    def still():
        look(lab)
        return len(node_writes(lab)) == writes and lab.slurm.node(name).get("Reason") == said
    holds_for(still, 1.5, "both sides are at rest", interval=0.1)


@contextlib.contextmanager
def condition(lab, name, kind, status, message):
    """The node has this condition. Its kubelet is stopped meanwhile, for it would say otherwise."""
    def patch(value, text):
        lab.kube.patch(f"/api/v1/nodes/{name}/status", {"status": {"conditions": [{"type": kind, "status": value, "message": text}]}},
                       "application/strategic-merge-patch+json")
    before = next(c["status"] for c in kube_node(lab, name)["status"]["conditions"] if c["type"] == kind)
    lab.daemon("pause", "hollow-kubelet")
    patch(status, message)
    try:
        yield
    finally:
        patch(before, "hollow kubelet")
        lab.daemon("resume", "hollow-kubelet")


@contextlib.contextmanager
def configured(lab, **words):
    """The controller runs with these keys under `nodes`."""
    path = f"{lab.dir}/etc/berth-controller.yaml"
    with open(path, encoding="utf-8") as file:
        before = file.read()

    def restart(text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        lab.daemon("restart", "berthd:controller")
        wait_for(lambda: look(lab) is None, what="the controller is back")
    section = "nodes:\n" + "".join(f"  {key}: {value}\n" for key, value in {"not_ready_patience": "2s", **words}.items())
    try:
        restart(re.sub(r"^nodes:\n(  .*\n)*", section, before, flags=re.M))
        yield
    finally:
        restart(before)


# --- from Slurm to Kubernetes

def test_drain_in_slurm_cordons_with_its_reason_and_resume_undoes_it(lab):
    drain(lab, "n1")
    # By the reconcile alone: nothing happens in Slurm that rings.
    wait_for(lambda: is_cordoned(lab, "n1"), 30, "the node is cordoned")
    assert cordoned_for(lab, "n1") == "DRAIN: bad disk" and not is_cordoned(lab, "n2")
    wait_for(lambda: ("SlurmDrained", "cordoned, because Slurm says DRAIN: bad disk") in node_events(lab, "n1"), what="the node has an event")
    lab.slurm.resume("n1")
    wait_for(lambda: not is_cordoned(lab, "n1"), 30, "the node is uncordoned")
    assert cordoned_for(lab, "n1") is None
    wait_for(lambda: "SlurmResumed" in {word for word, _ in node_events(lab, "n1")}, what="the node has another event")


def test_pod_on_a_drained_node_runs_to_its_end(lab):
    pod, job = running_pod(lab, run_for="6s")
    node = pod["spec"]["nodeName"]
    drain(lab, node)
    wait_cordoned(lab, node, "DRAIN: bad disk")
    lab.wait_phase(pod, "Succeeded")
    wait_state(lab, job, "COMPLETED")
    lab.slurm.resume(node)
    wait_open(lab, node)


def test_job_that_was_allocated_before_the_drain_still_gets_its_pod(lab):
    lab.daemon("stop", "berthd:n1")
    pod = lab.pod()
    pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n1"}
    pod = lab.create(pod)
    wait_state(lab, wait_job(lab, pod)["JobId"], "RUNNING")
    drain(lab, "n1")
    wait_cordoned(lab, "n1", "DRAIN: bad disk")
    lab.daemon("start", "berthd:n1")
    lab.wait_phase(pod, "Running")
    lab.slurm.resume("n1")
    wait_open(lab, "n1")


def test_down_and_fail_cordon_too(lab):
    for state in ("DOWN", "FAIL"):
        drain(lab, "n2", "broken", state)
        wait_cordoned(lab, "n2", f"{state}: broken")
        lab.slurm.resume("n2")
        wait_open(lab, "n2")


def test_maintenance_reservation_cordons_while_it_lasts(lab):
    lab.slurm.run("scontrol", "create", "reservation", "ReservationName=fix", "StartTime=now", "Duration=60", "Nodes=n3", "Users=root",
                  "Flags=MAINT,IGNORE_JOBS")
    try:
        wait_seen(lab, lambda: is_cordoned(lab, "n3"), "the node is cordoned", 60)
        assert cordoned_for(lab, "n3") == "MAINT" and not is_drained(lab, "n3")
    finally:
        lab.slurm.run("scontrol", "delete", "ReservationName=fix")
    wait_seen(lab, lambda: not is_cordoned(lab, "n3"), "the node is open", 60)


def test_person_who_uncordons_is_not_overruled(lab):
    drain(lab, "n1")
    wait_cordoned(lab, "n1", "DRAIN: bad disk")
    lab.kubectl("uncordon", "n1")
    at_rest(lab, "n1")
    assert not is_cordoned(lab, "n1")
    lab.slurm.resume("n1")
    wait_open(lab, "n1")


def test_drain_is_only_marked_or_not_shown_by_config(lab):
    drain(lab, "n1")
    with configured(lab, on_slurm_drain="mark"):
        wait_seen(lab, lambda: kube_node(lab, "n1")["metadata"].get("annotations", {}).get("berth.dev/slurm-state") == "DRAIN: bad disk",
                  "the node is marked")
        wait_open(lab, "n1")
    with configured(lab, on_slurm_drain="nothing"):
        wait_seen(lab, lambda: "berth.dev/slurm-state" not in kube_node(lab, "n1")["metadata"].get("annotations", {}), "the mark goes")
        wait_open(lab, "n1")
        at_rest(lab, "n1")
        assert not is_cordoned(lab, "n1")
    lab.slurm.resume("n1")
    wait_open(lab, "n1")


# --- from Kubernetes to Slurm

def test_cordon_drains_and_uncordon_resumes(lab):
    lab.kubectl("cordon", "n2")
    wait_drained(lab, "n2", "berth: kubernetes node n2 is cordoned")
    wait_for(lambda: "DrainedInSlurm" in {word for word, _ in node_events(lab, "n2")}, what="the node has an event")
    at_rest(lab, "n2")
    assert cordoned_for(lab, "n2") is None and lab.slurm.nodes()["n1"] == "idle"
    lab.kubectl("uncordon", "n2")
    wait_for(lambda: lab.slurm.nodes()["n2"] == "idle", 30, "Slurm node n2 is resumed")
    assert not lab.slurm.node("n2").get("Reason")
    at_rest(lab, "n2")


def test_resume_while_the_node_is_cordoned_is_taken_back(lab):
    lab.kubectl("cordon", "n2")
    wait_drained(lab, "n2", "berth: kubernetes node n2 is cordoned")
    lab.slurm.resume("n2")
    look(lab)
    wait_drained(lab, "n2", "berth: kubernetes node n2 is cordoned")
    lab.kubectl("uncordon", "n2")
    wait_resumed(lab, "n2")


def test_drains_of_others_stay(lab):
    for why in ("bad disk", "berth: pod default/p of job 1 cannot be killed"):
        lab.kubectl("cordon", "n1")
        wait_drained(lab, "n1", "berth: kubernetes node n1 is cordoned")
        drain(lab, "n1", why)
        lab.kubectl("uncordon", "n1")
        # Now the node is cordoned for Slurm's sake.
        wait_cordoned(lab, "n1", f"DRAIN: {why}")
        at_rest(lab, "n1")
        assert is_drained(lab, "n1") and reason(lab, "n1") == why
        lab.slurm.resume("n1")
        wait_open(lab, "n1")


def test_node_that_is_not_ready_is_drained_until_it_is(lab):
    with condition(lab, "n3", "Ready", "Unknown", "Kubelet stopped posting node status."):
        wait_drained(lab, "n3", "berth: kubernetes node n3 is NotReady (Kubelet stopped posting node status.)")
    wait_resumed(lab, "n3")


def test_node_that_is_not_ready_for_a_moment_is_left_alone(lab):
    with configured(lab, not_ready_patience="60s"):
        with condition(lab, "n3", "Ready", "False", "restarting"):
            at_rest(lab, "n3")
            assert lab.slurm.nodes()["n3"] == "idle"


def test_pressure_drains(lab):
    for kind in ("DiskPressure", "MemoryPressure", "PIDPressure"):
        with condition(lab, "n1", kind, "True", "too little"):
            wait_drained(lab, "n1", f"berth: kubernetes node n1 has {kind} (too little)")
        wait_resumed(lab, "n1")


def test_deleted_node_is_drained_until_it_comes_back(lab):
    lab.kube.delete("/api/v1/nodes/n3")
    try:
        wait_drained(lab, "n3", "berth: kubernetes node n3 is deleted")
        # Who wants it for Slurm alone takes it.
        lab.slurm.resume("n3")
        at_rest(lab, "n3")
        assert lab.slurm.nodes()["n3"] == "idle"
    finally:
        lab.daemon("restart", "hollow-kubelet")
    wait_for(lambda: lab.kube.find("/api/v1/nodes/n3"), what="the node is back")
    lab.kube.delete("/api/v1/nodes/n3")
    wait_drained(lab, "n3", "berth: kubernetes node n3 is deleted")
    lab.daemon("restart", "hollow-kubelet")
    wait_resumed(lab, "n3")
    lab.wait_phase(lab.create(annotations={"slurmjob.slinky.slurm.net/min-nodes": "1"}), "Running")


def test_trouble_in_kubernetes_is_kept_from_slurm_by_config(lab):
    lab.kubectl("cordon", "n2")
    wait_drained(lab, "n2", "berth: kubernetes node n2 is cordoned")
    with configured(lab, on_kubernetes_trouble="nothing"):
        wait_resumed(lab, "n2")
        at_rest(lab, "n2")
        lab.kubectl("uncordon", "n2")


# --- both

def test_both_at_once_come_to_rest_whoever_ends_first(lab):
    for uncordon_first in (True, False):
        lab.kubectl("cordon", "n1")
        wait_drained(lab, "n1", "berth: kubernetes node n1 is cordoned")
        drain(lab, "n1")
        at_rest(lab, "n1")
        assert reason(lab, "n1") == "bad disk" and is_cordoned(lab, "n1") and cordoned_for(lab, "n1") is None
        if uncordon_first:
            lab.kubectl("uncordon", "n1")
            wait_cordoned(lab, "n1", "DRAIN: bad disk")
            at_rest(lab, "n1")
            lab.slurm.resume("n1")
        else:
            lab.slurm.resume("n1")
            look(lab)
            wait_drained(lab, "n1", "berth: kubernetes node n1 is cordoned")
            at_rest(lab, "n1")
            lab.kubectl("uncordon", "n1")
        wait_open(lab, "n1")
        wait_resumed(lab, "n1")
        at_rest(lab, "n1")


def test_restarted_controller_knows_what_was_its_own(lab):
    drain(lab, "n1")
    lab.kubectl("cordon", "n2")
    wait_cordoned(lab, "n1", "DRAIN: bad disk")
    wait_drained(lab, "n2", "berth: kubernetes node n2 is cordoned")
    lab.kubectl("cordon", "n3")
    wait_drained(lab, "n3", "berth: kubernetes node n3 is cordoned")
    drain(lab, "n3", "bad disk")
    lab.daemon("kill", "berthd:controller")
    lab.slurm.resume("n1")
    lab.kubectl("uncordon", "n2")
    lab.kubectl("uncordon", "n3")
    lab.daemon("start", "berthd:controller")
    wait_for(lambda: look(lab) is None, what="the controller is back")
    wait_open(lab, "n1")
    wait_resumed(lab, "n2")
    wait_cordoned(lab, "n3", "DRAIN: bad disk")
    assert reason(lab, "n3") == "bad disk"
    lab.slurm.resume("n3")
    wait_open(lab, "n3")


# --- names, taint, guests

def label(lab, node, name):
    lab.kube.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {SLURM_NAME: name}}})


def test_nodes_without_a_partner_get_no_pod_and_names_may_differ(lab):
    label(lab, "n3", "elsewhere")
    worker = kube_node(lab, "n1")
    worker["metadata"] = {"name": "worker-3", "labels": {SLURM_NAME: "n3"}}
    try:
        jobs = [lab.slurm.sbatch("--exclusive", "-w", name) for name in ("n1", "n2")]
        for job in jobs:
            wait_state(lab, job, "RUNNING")
        pod = lab.create()
        job = wait_for(lambda: jobs_of(lab, pod), what="the pod has a job")[0]
        assert job["JobState"] == "PENDING" and job["ExcNodeList"] == "n3", job
        lab.slurm.scancel(*jobs)
        assert lab.wait_bound(pod)["spec"]["nodeName"] in ("n1", "n2")
        # What Slurm calls n3 has another name here.
        lab.kube.post("/api/v1/nodes", worker)
        lab.kubectl("cordon", "worker-3")
        wait_drained(lab, "n3", "berth: kubernetes node worker-3 is cordoned")
        lab.kubectl("uncordon", "worker-3")
        wait_resumed(lab, "n3")
        drain(lab, "n3")
        wait_cordoned(lab, "worker-3", "DRAIN: bad disk")
        assert not is_cordoned(lab, "n3")
    finally:
        lab.unless_gone(lambda: lab.kube.delete("/api/v1/nodes/worker-3"))
        label(lab, "n3", None)
        with contextlib.suppress(CommandError):
            lab.slurm.resume("n3")
    wait_open(lab, "n3")
    wait_resumed(lab, "n3")


@contextlib.contextmanager
def renamed(lab, slurm_name, kube_name):
    """The Slurm node has another name in Kubernetes: a node and a kubelet of that name, which its agent is told by nodes.map."""
    path, run = f"{lab.dir}/etc/berth-{slurm_name}.yaml", f"{lab.dir}/daemons/hollow-kubelet/run"
    with open(path, encoding="utf-8") as file:
        before = file.read()
    with open(run, encoding="utf-8") as file:
        command = shlex.split(file.read().splitlines()[-1])[1:]
    for option, value in (("--nodes", kube_name), ("--cgroup-root", f"/{lab.name}/{slurm_name}"), ("--state", f"{lab.dir}/hollow-{kube_name}")):
        command[command.index(option) + 1] = value
    entry = f"  map:\n    - {{slurm: {slurm_name}, kubernetes: {kube_name}}}\n"

    def restart(text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        lab.daemon("restart", f"berthd:{slurm_name}")
    kubelet = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: lab.kube.find(f"/api/v1/nodes/{kube_name}"), what="the node is there")
        restart(re.sub(r"^nodes:\n", "nodes:\n" + entry, before, flags=re.M))
        with configured(lab, map=f"[{{slurm: {slurm_name}, kubernetes: {kube_name}}}]"):
            yield
    finally:
        restart(before)
        lab.clean()  # while somebody plays the node
        kubelet.terminate()
        kubelet.wait()
        lab.unless_gone(lambda: lab.kube.delete(f"/api/v1/nodes/{kube_name}"))


def test_pod_is_bound_and_held_under_the_nodes_name_in_kubernetes(lab):
    with renamed(lab, "n3", "worker-3"):
        wait_resumed(lab, "n3")
        drain(lab, "n1,n2")
        pod, job = running_pod(lab, die_after="1500ms")
        assert pod["spec"]["nodeName"] == "worker-3" and annotation(pod, NODE) == "n3"
        assert lab.slurm.job(job)["NodeList"] == "n3" and len(lab.held("n3")) == 1
        lab.slurm.scancel(job)
        holds_for(lambda: "completing" in lab.slurm.nodes()["n3"] and lab.held("n3"), 1, "the Slurm node waits for the pod")
        lab.wait_gone(pod)
        wait_for(lambda: not lab.held() and lab.slurm.job_state(job) == "CANCELLED", what="the place is free")
        lab.slurm.resume("n1,n2")


def test_managed_taint_is_kept_while_it_is_wanted_and_only_ours_removed(lab):
    def taints(name):
        return [t["key"] for t in kube_node(lab, name)["spec"].get("taints", []) if "node.kubernetes.io" not in t["key"]]
    lab.kubectl("taint", "node", "n1", f"{TAINT}=slurm:NoSchedule")
    lab.kubectl("taint", "node", "n2", "test.berth.dev/other=x:PreferNoSchedule")
    try:
        with configured(lab, taint="true"):
            wait_seen(lab, lambda: taints("n2") == ["test.berth.dev/other", TAINT] and taints("n3") == [TAINT], "the nodes are tainted")
            lab.kubectl("taint", "node", "n3", f"{TAINT}-")
            wait_for(lambda: taints("n3") == [TAINT], 30, "the taint is put back")
            at_rest(lab, "n3")
            lab.wait_phase(lab.create(), "Running")
        wait_seen(lab, lambda: taints("n2") == ["test.berth.dev/other"] and not taints("n3"), "our taints go")
        assert taints("n1") == [TAINT], "one that a person set stays"
    finally:
        lab.kubectl("taint", "node", "n1", f"{TAINT}-")
        lab.kubectl("taint", "node", "n2", "test.berth.dev/other-")


def test_foreign_pod_on_a_node_is_reported_and_one_of_the_nodes_own_is_not(lab):
    guest = lab.create(scheduler="test.berth.dev/none", cpu="2", memory="128Mi")
    lab.bind(guest, "n2")
    name = guest["metadata"]["name"]
    wait_for(lambda: ("ForeignPods", f"a pod on this node is not Slurm's (default/{name}): it does not know of its 2 CPUs and 128 MiB")
             in node_events(lab, "n2"), what="the node has an event")
    static = lab.pod(scheduler="test.berth.dev/none")
    static["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Node", "name": "n3", "controller": True,
                                              "uid": kube_node(lab, "n3")["metadata"]["uid"]}]
    static = lab.create(static)
    lab.bind(static, "n3")
    lab.wait_phase(static, "Running")
    assert "ForeignPods" not in {word for word, _ in node_events(lab, "n3")}
    assert lab.slurm.nodes()["n2"] == "idle", "it is told, not drained for"
