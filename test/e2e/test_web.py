"""Metrics, health and the status page: what berthd shows of itself, compared with what Slurm and Kubernetes say."""

import json
import os
import re
import signal
import time
import urllib.error
import urllib.request

from browser import Page
from gangs import create_group, join_group
from lab import wait_for

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


def test_requests_that_nobody_answers_are_counted(lab):
    """By both roles, and they go on counting answers when there are some again."""
    wait_for(lambda: get(lab, "/readyz")[0] == 200, what="the controller is ready")
    unanswered = lambda agent: total(metrics(lab, agent), "berth_kubernetes_requests_total", 'code="none"')
    answered = lambda agent: total(metrics(lab, agent), "berth_kubernetes_requests_total", 'code="2xx"')
    before = {agent: unanswered(agent) for agent in ("controller", "n1")}
    lab.daemon("stop", "kube-apiserver")
    try:
        for agent, count in before.items():
            wait_for(lambda agent=agent, count=count: unanswered(agent) > count, what=f"{agent} counts what the API server does not answer")
    finally:
        lab.daemon("start", "kube-apiserver")
    for agent in before:
        count = answered(agent)
        wait_for(lambda agent=agent, count=count: answered(agent) > count, what=f"{agent} has answers again")
    wait_for(lambda: get(lab, "/readyz")[0] == 200, what="the controller is ready again")


def open_page(lab, query=""):
    page = Page(f"http://127.0.0.1:{port(lab, 'controller')}/{query}")
    wait_for(lambda: page.js("document.getElementById('age') && document.getElementById('age').textContent") == "live", what="the page has heard from berthd")
    return page


def test_page_in_chromium_shows_who_waits_and_who_runs(lab):
    _, running_pod, waiting_pod = fill(lab)
    group = create_group(lab, 6, name="ring")
    join_group(lab, group, 4, cpu=1)
    lab.create(name="wrong-partition", ns="team-b", annotations={"slurmjob.slinky.slurm.net/partition": "secret"})
    wait_for(lambda: '"gathering"' in get(lab, "/status.json")[1] and '"refused"' in get(lab, "/status.json")[1], what="a gang and a refusal are known")
    wait_for(lambda: workload(lab, running_pod) and workload(lab, waiting_pod)["reason"].startswith("Resources"), what="both are known")
    wait_for(lambda: workload(lab, waiting_pod)["start"], what="Slurm expects a start")
    with open_page(lab, "?scheme=light") as page:
        # Slurm's nodes are asked for seldom, so the page may know them as they were before.
        wait_for(lambda: any("sweep" in text for text in page.text("#nodes .chip")) and len(page.text("#nodes .fill .k-pods")) >= len(lab.nodes),
                 what="the nodes show pods and the native job")
        # BERTH_SCREENSHOT=docs/status.png makes the picture of the README.
        if picture := os.environ.get("BERTH_SCREENSHOT"):
            page.picture(os.path.abspath(picture))
        queue, running = ({row.partition("/")[2]: row for row in page.text(f"#{name} .row")} for name in ("queue", "running"))
        row = lambda rows, name: next((text for key, text in rows.items() if key.startswith(name)), None)
        assert row(running, "running-one") and not row(queue, "running-one"), (queue, running)
        assert "Resources" in row(queue, "waiting-one") and not row(running, "waiting-one"), (queue, running)
        assert "4 of 6 pods are there" in row(queue, "ring") and len(page.text("#queue .gang .here")) == 4, queue
        assert "Refused" in row(queue, "wrong-partition") and "needs a change" in row(queue, "wrong-partition"), queue
        # Every node has a pod on it whose limit is 90 minutes.
        assert re.search(r"starts in ([789]\d min|2 h)", row(queue, "waiting-one")), row(queue, "waiting-one")
        assert "start not known" in row(queue, "ring"), queue
        # What a node runs natively is told by the next reconcile.
        expected = ("sweep", 'class="k-pods"', *[f"<b>{name}</b>" for name in lab.nodes])
        wait_for(lambda: all(words in page.js("document.getElementById('nodes').outerHTML") for words in expected),
                 what="all nodes are shown, with the native job and the pods on them")
        # The plot has a point for each pod that was bound, inside the picture, and says which.
        landings = status(lab)["landings"]
        points = page.js("[...document.querySelectorAll('#plot circle')].map(c => [c.textContent, c.cx.baseVal.value, c.cy.baseVal.value, "
                         "c.ownerSVGElement.viewBox.baseVal.width, c.ownerSVGElement.viewBox.baseVal.height])")
        assert len(points) == len(landings) >= 4 and any("running-one: " in point[0] for point in points), (points, landings)
        assert all(0 <= x <= width and 0 <= y <= height for _, x, y, width, height in points), points
        assert "median" in page.text("#plot svg")[0]
        # The events: how one came to its job, and why another did not.
        lines = page.text("#log li")
        assert any("waiting-one has job" in line for line in lines), lines
        assert any("wrong-partition" in line for line in lines), lines
        assert not page.js("document.querySelector('script[src], link[rel=stylesheet], img[src^=http]')"), "nothing from elsewhere"
test_page_in_chromium_shows_who_waits_and_who_runs.timeout = 400


def test_page_in_chromium_is_live(lab):
    with open_page(lab) as page:
        page.js("window.opened_once = 1")
        pod = lab.create(name="newcomer", run_for="10m")
        lab.wait_phase(pod, "Running")
        shows = lambda selector, words: any(words in text for text in page.text(selector))
        wait_for(lambda: shows("#running .row", "newcomer"), what="the newcomer appears")
        wait_for(lambda: shows("#plot circle", "newcomer: "), what="its point is in the plot")
        lab.delete(pod)
        lab.wait_gone(pod)
        wait_for(lambda: not shows("#running .row", "newcomer"), what="it has gone from the page")
        # An error of berthd's is on the page, and stands out.
        path = f"{lab.dir}/etc/berth-controller.yaml"
        with open(path, encoding="utf-8") as file:
            before = file.read()
        try:
            with open(path, "a", encoding="utf-8") as file:
                file.write("tenents: []\n")
            os.kill(int(lab.daemon("pid", "berthd:controller")), signal.SIGHUP)
            wait_for(lambda: shows("#log .error", "the new configuration is not used"), what="the error is shown")
        finally:
            with open(path, "w", encoding="utf-8") as file:
                file.write(before)
        # A page that hears nothing says so, and goes on by itself.
        lab.daemon("stop", "berthd:controller")
        wait_for(lambda: "berthd does not answer" in page.text("#trouble")[0].replace("Berthd", "berthd"), what="the page says that berthd is away")
        lab.daemon("start", "berthd:controller")
        wait_for(lambda: page.text("#trouble")[0] == "" and page.text("#age") == ["live"], what="the page is live again")
        assert page.js("window.opened_once") == 1, "it was never loaded again"
test_page_in_chromium_is_live.timeout = 400


def test_page_in_chromium_can_be_used_by_keyboard(lab):
    fill(lab)
    with open_page(lab) as page:
        wait_for(lambda: len(page.text("[data-row]")) >= 5, what="the workloads are listed")
        focus = lambda: page.js("document.activeElement.id || document.activeElement.dataset.key || document.activeElement.className || ''")
        for key, where in (("1", "h-nodes"), ("2", "h-queue"), ("3", "h-running"), ("4", "h-plot"), ("5", "h-log")):
            page.key(key)
            assert focus() == where, (key, focus())
        page.key("j")
        assert focus() == "w default/waiting-one", focus()
        page.key("j")
        first = focus()
        assert first.startswith("w default/") and first != "w default/waiting-one", first
        page.key("k")
        assert focus() == "w default/waiting-one", focus()
        # The reader's place stays when the page is drawn anew.
        waited = page.text("#queue .sub")
        wait_for(lambda: page.text("#queue .sub") != waited, what="the queue was drawn anew")
        assert focus() == "w default/waiting-one", focus()
        page.key("/")
        assert focus() == "find", focus()
        for letter in "train-1":
            page.key(letter)
        assert len(page.text("#running .row")) == 1 and "train-1" in page.text("#running .row")[0], page.text("#running .row")
        assert page.text("#queue .empty") == ["Nothing that waits matches."], page.text("#queue .empty")
        page.key("Escape")
        assert len(page.text("#running .row")) == 4 and page.js("document.getElementById('find').value") == "", page.text("#running .row")
        pressed = lambda: page.js("document.getElementById('only-bad').getAttribute('aria-pressed')")
        page.key("w")
        assert pressed() == "true" and not page.text("#log .info"), page.text("#log .info")
        page.key("Escape")
        assert pressed() == "false" and page.text("#log .info")
        scheme = page.js("getComputedStyle(document.body).backgroundColor")
        page.key("t")
        assert page.js("getComputedStyle(document.body).backgroundColor") != scheme, "light or dark"
        page.key("?")
        assert page.js("document.getElementById('help').open")
        page.key("Escape")
        wait_for(lambda: not page.js("document.getElementById('help').open"), what="the help is closed")
        # By Tab alone everything that can be used is reached, and the focus is seen.
        page.js("document.activeElement.blur(); window.scrollTo(0, 0)")
        reached = set()
        for _ in range(40):
            page.key("Tab")
            reached.add(focus())
            outline = page.js("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none" or page.js("document.activeElement === document.body"), focus()
        assert {"skip", "scheme", "keys", "find", "only-bad", "log", "w default/waiting-one"} <= reached, reached
test_page_in_chromium_can_be_used_by_keyboard.timeout = 400


def test_page_in_chromium_fits_a_small_screen(lab):
    fill(lab)
    lab.create(name="a-pod-with-a-name-that-is-as-long-as-people-make-them-when-a-tool-does-it-for-them", ns="team-b",
               annotations={"slurmjob.slinky.slurm.net/partition": "secret"})
    wait_for(lambda: '"refused"' in get(lab, "/status.json")[1], what="the refusal is known")
    with open_page(lab) as page:
        wait_for(lambda: len(page.text("[data-row]")) >= 6, what="the workloads are listed")
        for width in (360, 768, 1180):
            page.resize(width, 740)
            wait_for(lambda width=width: page.js("innerWidth") == width, what="the screen is small")
            # What is clipped or scrolls inside its own box is not counted; the skip link is out of sight until it has the focus.
            wide = page.js("[...document.querySelectorAll('body *')].filter(e => !e.closest('.skip, svg, dialog') && e.getBoundingClientRect().right > innerWidth + 0.5)"
                           ".map(e => e.tagName + '#' + e.id + '.' + e.className)")
            assert page.js("document.documentElement.scrollWidth") <= width and not wide, (width, page.js("document.documentElement.scrollWidth"), wide)
            assert page.js("document.getElementById('plot').getBoundingClientRect().width") > width / 4
            assert page.js("getComputedStyle(document.getElementById('queue')).display") != "none"
test_page_in_chromium_fits_a_small_screen.timeout = 400
