"""Metrics, health and the status page: what berthd shows of itself, compared with what Slurm and Kubernetes say."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from gangs import create_group, join_group
from lab import Skip, wait_for

LAB = ["--nodes", "4", "--gpus", "4", "--slurm-conf", os.path.join(os.path.dirname(os.path.abspath(__file__)), "gang_slurm.conf")]
LIMIT = {"slurmjob.slinky.slurm.net/timelimit": "90"}


def port(lab, agent):
    return int(lab.env["BERTH_LAB_PORT"]) + (22 if agent == "controller" else 30 + int(agent[1:]))


def get(lab, path, agent="controller", method="GET", host=None):
    """(status, text)"""
    request = urllib.request.Request(f"http://127.0.0.1:{port(lab, agent)}{path}", method=method, headers={"Host": host} if host else {})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def metrics(lab, agent="controller"):
    """Sample with its labels -> value."""
    status, text = get(lab, "/metrics", agent)
    assert status == 200, text
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if not line.startswith("#")}


def total(samples, name, part=""):
    return sum(value for key, value in samples.items() if key.split("{")[0] == name and part in key)


def status(lab):
    return json.loads(get(lab, "/status.json")[1])


def workload(lab, pod):
    return next((w for w in status(lab)["workloads"] if w["name"] == pod["metadata"]["name"]), None)


def test_health_and_leadership_are_told(lab):
    assert get(lab, "/healthz") == (200, "ok\n")
    wait_for(lambda: get(lab, "/readyz")[0] == 200, what="the controller is ready")
    wait_for(lambda: get(lab, "/readyz", "n1")[0] == 200, what="the node's agent is ready")
    seen = metrics(lab)
    assert seen["berth_leader"] == 1 and seen["berth_ready"] == 1 and total(seen, "berth_build_info") == 1
    assert "berth_leader" not in metrics(lab, "n1")
    assert get(lab, "/status.json", "n1")[0] == 404
    assert get(lab, "/", method="POST")[0] == 405
    assert get(lab, "/", host="evil.example")[0] == 403
    assert get(lab, "/nothing")[0] == 404
    # Without the API server's lists a controller that starts anew lives, and is not ready.
    lab.daemon("stop", "kube-apiserver")
    lab.daemon("restart", "berthd:controller")
    wait_for(lambda: get(lab, "/healthz")[0] == 200, what="the new controller lives")
    code, why = get(lab, "/readyz")
    assert code == 503 and "lease" in why, (code, why)
    assert metrics(lab)["berth_leader"] == 0
    lab.daemon("start", "kube-apiserver")
    wait_for(lambda: get(lab, "/readyz")[0] == 200, what="the controller is ready again")
    assert metrics(lab)["berth_leader"] == 1


def test_pods_way_is_counted(lab):
    before, nodes_before = metrics(lab), {name: metrics(lab, name) for name in lab.nodes}
    pod = lab.create(run_for="1s")
    node = lab.wait_bound(pod)["spec"]["nodeName"]
    lab.wait_phase(pod, "Succeeded")
    job = lab.job_id(pod)
    wait_for(lambda: lab.slurm.job_state(job) == "COMPLETED", what="the job is completed")
    grown = lambda name, part="": total(metrics(lab), name, part) - total(before, name, part)
    wait_for(lambda: grown("berth_create_to_bound_seconds_count") == 1, what="one pod was bound")
    assert grown("berth_create_to_bound_seconds_bucket", 'le="+Inf"') == 1
    assert 0 < grown("berth_create_to_bound_seconds_sum") < 60
    assert grown("berth_slurm_requests_total", 'kind="submit",outcome="ok"') == 1
    assert total(metrics(lab), "berth_kubernetes_requests_total", 'verb="GET",code="2xx"') > 0
    there = lambda name, part="": total(metrics(lab, node), name, part) - total(nodes_before[node], name, part)
    wait_for(lambda: there("berth_hold_seconds_count", 'end="pod"') == 1, what="its end was counted")
    assert there("berth_allocation_to_bound_seconds_count") == 1
    assert there("berth_slurm_requests_total", 'kind="complete_job",outcome="ok"') == 1
    second = lab.create(run_for="10m")
    node = lab.wait_bound(second)["spec"]["nodeName"]
    lab.wait_phase(second, "Running")
    lab.slurm.scancel(str(lab.job_id(second)))
    lab.wait_gone(second)
    wait_for(lambda: there("berth_hold_seconds_count", 'end="job"') == 1, what="its hold was counted")


def fill(lab):
    """A native job on one node, a pod on another, and a pod that no node has room for now."""
    cpus = int(lab.settings["cpus"])
    native = lab.slurm.sbatch("-w", lab.nodes[0], "-n", str(cpus - 2), "--mem=100", "-J", "sweep", "-t", "40")
    wait_for(lambda: lab.slurm.job_state(native) == "RUNNING", what="the native job runs")
    running = lab.create(name="running-one", cpu=2, gpus=1, run_for="10m", annotations=LIMIT)
    lab.wait_phase(running, "Running")
    others = [lab.create(name=f"train-{i}", cpu=cpus - 2, run_for="10m", annotations=LIMIT) for i in range(3)]
    for pod in others:
        lab.wait_phase(pod, "Running")
    waiting = lab.create(name="waiting-one", cpu=cpus - 1, run_for="10m", annotations=LIMIT)
    wait_for(lambda: "Resources" in lab.condition(waiting, "PodScheduled").get("message", ""), what="it is told why it waits")
    return native, running, waiting


def test_queue_and_nodes_are_shown(lab):
    native, running, waiting = fill(lab)
    wait_for(lambda: metrics(lab).get('berth_queue_workloads{reason="Resources"}') == 1, what="the reason is counted")
    shown = wait_for(lambda: (w := workload(lab, waiting)) and w["state"] == "pending" and w, what="the waiting pod is shown")
    assert shown["reason"].startswith("Resources") and shown["job"] > 0 and shown["bound"] == 0, shown
    shown = workload(lab, running)
    assert shown["state"] == "running" and shown["bound"] == 1 and shown["job"] == lab.job_id(running), shown

    def both_sides():
        now = status(lab)
        nodes = {node["name"]: node for node in now["nodes"]}
        here = nodes[lab.get(running)["spec"]["nodeName"]]
        return "default/running-one" in here["pods"] and here["gpus"] == {"total": 4, "pods": 1, "jobs": 0} and \
            any(str(native) in job for job in nodes[lab.nodes[0]]["jobs"]) and nodes[lab.nodes[0]]["cpus"]["jobs"] >= 1 and now
    now = wait_for(both_sides, what="pods, GPUs and native jobs are on their nodes")
    assert now["role"] == "leader" and now["ages"]["jobs"] is not None and now["counts"]["native_running"] == 1, now["ages"]
    for node in now["nodes"]:
        assert node["cpus"]["pods"] + node["cpus"]["jobs"] == int(lab.slurm.node(node["name"])["CPUAlloc"]), node
    # Every event is one of the log.
    assert any("waiting-one has job" in event["text"] for event in now["events"]), now["events"][-5:]


def test_end_that_nobody_told_is_healed_and_counted(lab):
    _, _, waiting = fill(lab)
    job = wait_for(lambda: (w := workload(lab, waiting)) and w["job"], what="it has a job")
    lab.daemon("stop", "berthd:controller")
    lab.slurm.scancel(job)
    ended = time.time()
    # What is this young may just have been told.
    wait_for(lambda: time.time() > ended + 4, what="the end is old")
    lab.daemon("start", "berthd:controller")
    lab.wait_gone(waiting)
    assert metrics(lab)['berth_healed_total{what="missed_end"}'] == 1


def test_drained_nodes_are_counted_by_cause(lab):
    wait_for(lambda: metrics(lab).get('berth_nodes_drained{cause="kubernetes"}') == 0, what="no node is drained")
    before = metrics(lab)['berth_node_drains_total{cause="kubernetes"}']
    lab.kube.patch(f"/api/v1/nodes/{lab.nodes[0]}", {"spec": {"unschedulable": True}})
    wait_for(lambda: metrics(lab)['berth_nodes_drained{cause="kubernetes"}'] == 1, what="the drain is seen")
    assert metrics(lab)['berth_node_drains_total{cause="kubernetes"}'] == before + 1
    node = next(node for node in status(lab)["nodes"] if node["name"] == lab.nodes[0])
    assert "drain" in node["slurm"] and "cordoned" in node["kubernetes"] and "berth" in node["reason"], node
    lab.kube.patch(f"/api/v1/nodes/{lab.nodes[0]}", {"spec": {"unschedulable": None}})
    wait_for(lambda: metrics(lab)['berth_nodes_drained{cause="kubernetes"}'] == 0, what="it is resumed")


def chromium(directory, url, *options):
    """What Chromium makes of the page."""
    done = subprocess.run(["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                           f"--user-data-dir={directory}/profile", "--virtual-time-budget=4000", *options, url],
                          capture_output=True, text=True, check=False, timeout=150, env={**os.environ, "HOME": directory})
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_page_in_chromium_shows_who_waits_and_who_runs(lab):
    if not shutil.which("chromium"):
        raise Skip("chromium is not installed: test/install-packages")
    fill(lab)
    group = create_group(lab, 6, name="ring")
    join_group(lab, group, 4, cpu=1)
    lab.create(name="wrong-partition", ns="team-b", annotations={"slurmjob.slinky.slurm.net/partition": "secret"})
    wait_for(lambda: '"gathering"' in get(lab, "/status.json")[1] and '"refused"' in get(lab, "/status.json")[1], what="a gang and a refusal are known")
    wait_for(lambda: '"running-one"' in get(lab, "/status.json")[1] and '"reason":"Resources' in get(lab, "/status.json")[1], what="both are known")
    url = f"http://127.0.0.1:{port(lab, 'controller')}/"
    with tempfile.TemporaryDirectory() as directory:
        page = chromium(directory, url, "--dump-dom")
        # BERTH_SCREENSHOT=docs/status.png makes the picture of the README.
        if picture := os.environ.get("BERTH_SCREENSHOT"):
            chromium(directory, url + "?scheme=light", "--window-size=1180,1010", f"--screenshot={os.path.abspath(picture)}")
    queue = re.search(r'<ol[^>]* id="queue">(.*?)</ol>', page, re.S)[1]
    running = re.search(r'<ol[^>]* id="running">(.*?)</ol>', page, re.S)[1]
    assert "waiting-one" in queue and "Resources" in queue and "running-one" not in queue, queue
    assert "4 of 6 pods are there" in queue and queue.count('class="here"') == 4, queue
    assert "wrong-partition" in queue and "Refused" in queue, queue
    assert "running-one" in running and "waiting-one" not in running, running
    nodes = re.search(r'<div id="nodes".*?</section>', page, re.S)[0]
    assert all(f"<b>{name}</b>" in nodes for name in lab.nodes) and "sweep" in nodes and 'class="k-pods"' in nodes, nodes
test_page_in_chromium_shows_who_waits_and_who_runs.timeout = 400
