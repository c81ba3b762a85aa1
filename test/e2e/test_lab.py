"""The lab itself: real Slurm and real Kubernetes stand, and the hollow kubelet behaves like one. No Berth here."""

import os
import threading
import time

from lab import Skip, holds_for, wait_for

LAB = ["--nodes", "3", "--no-berth"]


def run_pod(lab, node="n1", **words):
    """A pod bound by hand, once it runs."""
    pod = lab.create(**words)
    lab.bind(pod, node)
    lab.wait_phase(pod, "Running")
    return pod


def test_native_job_runs_and_keeps_its_exit_code(lab):
    job = lab.slurm.sbatch(wrap="exit 3", user="lab_alice")
    wait_for(lambda: lab.slurm.job_state(job) == "FAILED", what="the job ends")
    assert lab.slurm.job(job)["ExitCode"] == "3:0"
    assert lab.slurm.job(job)["UserId"] == "lab_alice(20001)"


def test_nodes_are_ready_and_idle(lab):
    items = lab.kube.get("/api/v1/nodes")["items"]
    ready = {n["metadata"]["name"] for n in items for c in n["status"]["conditions"] if c["type"] == "Ready" and c["status"] == "True"}
    assert ready == set(lab.nodes) == set(lab.slurm.nodes())


def test_pod_bound_by_hand_runs_and_exits_with_its_code(lab):
    pod = run_pod(lab, run_for="1s", exit_code=3)
    assert len(lab.processes(pod)) == 1
    wait_for(lambda: lab.ended(pod), what="the pod ends")
    assert lab.phase(pod) == "Failed"
    assert lab.ended(pod)["exitCode"] == 3 and lab.ended(pod)["reason"] == "Error"
    assert not lab.cgroups(pod)


def test_pod_that_succeeds(lab):
    pod = lab.create(run_for="0s")
    lab.bind(pod, "n2")
    lab.wait_phase(pod, "Succeeded")
    assert lab.ended(pod)["exitCode"] == 0 and lab.ended(pod)["reason"] == "Completed"


def test_pod_killed_for_its_memory(lab):
    pod = run_pod(lab, run_for="200ms", oom=True)
    lab.wait_phase(pod, "Failed")
    assert lab.ended(pod)["exitCode"] == 137 and lab.ended(pod)["reason"] == "OOMKilled"


def test_pod_has_no_cgroup_before_it_starts(lab):
    pod = lab.create(start_delay="1s")
    lab.bind(pod, "n1")
    wait_for(lambda: (lab.get(pod)["status"].get("containerStatuses") or [{}])[0].get("state", {}).get("waiting"), what="pod waits")
    assert lab.phase(pod) == "Pending" and not lab.cgroups(pod)
    lab.wait_phase(pod, "Running")
    assert lab.processes(pod)


def test_pod_deleted_before_it_starts_never_starts(lab):
    pod = lab.create(start_delay="600s")
    lab.bind(pod, "n1")
    lab.delete(pod)
    lab.wait_gone(pod)
    assert not lab.cgroups(pod)


def test_slow_death_is_honoured(lab):
    pod = run_pod(lab, die_after="2s", grace=30)
    began = time.monotonic()
    lab.delete(pod)
    wait_for(lambda: not lab.processes(pod), what="the process dies")
    assert 1.9 < time.monotonic() - began < 15
    lab.wait_gone(pod)
    assert not lab.cgroups(pod)


def test_pod_that_ignores_term_dies_at_the_end_of_its_grace(lab):
    pod = run_pod(lab, ignore_term=True, grace=2)
    began = time.monotonic()
    lab.delete(pod)
    holds_for(lambda: lab.processes(pod), 1.5, "the pod lives through its grace")
    lab.wait_gone(pod)
    assert 1.9 < time.monotonic() - began < 15


def test_shorter_grace_later_counts(lab):
    pod = run_pod(lab, ignore_term=True)
    lab.delete(pod, grace=600)
    lab.delete(pod, grace=1)
    lab.wait_gone(pod)


def test_force_deleted_pod_lives_on_without_an_object(lab):
    pod = run_pod(lab, ignore_term=True)
    lab.delete(pod, grace=0)
    lab.wait_gone(pod)
    assert lab.processes(pod), "a kubelet takes two seconds to end a pod whose object is gone"
    wait_for(lambda: not lab.cgroups(pod), 60, "the kubelet cleans up")


def test_stuck_pod_ends_only_when_its_processes_are_killed(lab):
    pod = run_pod(lab, stuck=True, grace=1)
    lab.delete(pod)
    holds_for(lambda: lab.processes(pod) and lab.get(pod), 2, "a broken kubelet does nothing")
    lab.delete(pod, grace=0)
    lab.wait_gone(pod)
    for pid in lab.processes(pod):
        os.kill(pid, 9)
    wait_for(lambda: not lab.cgroups(pod), 60, "the cgroup is removed")


def test_unkillable_pod_survives_sigkill(lab):
    if not os.path.isdir("/sys/fs/cgroup/freezer"):
        raise Skip("needs the freezer of cgroup v1")
    pod = run_pod(lab, unkillable=True)
    for pid in lab.processes(pod):
        os.kill(pid, 9)
    holds_for(lambda: lab.processes(pod), 0.5, "the process is frozen")
    lab.release_unkillable()
    wait_for(lambda: not lab.processes(pod), 60, "the process dies once thawed")


def test_pod_without_room_is_refused_by_the_kubelet(lab):
    first = run_pod(lab, cpu=6)
    second = lab.create(cpu=3)
    lab.bind(second, "n1")
    lab.wait_phase(second, "Failed")
    assert lab.get(second)["status"]["reason"] == "OutOfcpu"
    assert lab.phase(first) == "Running"


def test_restarted_hollow_kubelet_takes_over_what_runs(lab):
    lives = run_pod(lab)
    ends = run_pod(lab, run_for="2s", exit_code=7)
    deleted = run_pod(lab)
    lab.daemon("kill", "hollow-kubelet")
    lab.delete(deleted, grace=5)
    before = lab.processes(lives)
    wait_for(lambda: not lab.processes(ends), what="the pod ends while nobody looks")
    lab.daemon("start", "hollow-kubelet")
    lab.wait_phase(ends, "Failed")
    assert lab.ended(ends)["exitCode"] == 7
    lab.wait_gone(deleted)
    assert lab.processes(lives) == before and lab.phase(lives) == "Running"
    lab.delete(lives)
    lab.wait_gone(lives)


def test_always_restarted_pod_goes_on(lab):
    pod = run_pod(lab, run_for="100ms", restart="Always")
    wait_for(lambda: lab.get(pod)["status"]["containerStatuses"][0]["restartCount"] >= 2, what="the pod is restarted twice")
    assert lab.phase(pod) == "Running"
    lab.delete(pod)
    lab.wait_gone(pod)


def test_three_hundred_pods_at_once(lab):
    pods = []

    def make(node):
        for _ in range(100):
            pod = lab.create(cpu="10m", memory="1Mi", run_for="1s")
            lab.bind(pod, node)
            pods.append(pod)

    threads = [threading.Thread(target=make, args=(node,)) for node in lab.nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_for(lambda: sum(p["status"]["phase"] == "Succeeded" for p in lab.pods()) == len(pods), 120, "all succeed", 0.2)


def test_daemons_die_and_return(lab):
    lab.daemon("kill", "slurmctld", "slurmd:n2")
    lab.daemon("start", "slurmctld", "slurmd:n2")
    wait_for(lambda: set(lab.slurm.nodes().values()) == {"idle"}, 60, "all nodes are idle again")
    lab.daemon("kill", "kube-apiserver", "etcd")
    lab.daemon("start", "etcd", "kube-apiserver")
    wait_for(lambda: lab.kube.get("/readyz") == "ok", 120, "the API server is back")
    pod = lab.create(run_for="0s")
    lab.bind(pod, "n3")
    lab.wait_phase(pod, "Succeeded", 60)


test_daemons_die_and_return.timeout = 300
test_three_hundred_pods_at_once.timeout = 300
