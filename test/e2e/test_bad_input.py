"""Bad input: objects that a real API server lets through and no sensible author writes, and an API server that is not sensible itself
(a fake, hostile_api.py). Each gets its answer in clear words, and nothing else is harmed: another pod starts meanwhile, no agent
restarts or grows. Malformed messages on the agent's socket are in test_guard.py."""

import contextlib
import http.client
import json
import re
import socket
import ssl

from hostile_api import MIB, HostileApi
from kube import ApiError
from lab import wait_for
from witness import asking, jobs_of, wait_unschedulable

LAB = ["--nodes", "2"]
MOST_MEMORY = 400 * MIB  # of one agent at its worst moment; it idles at some 20


def agents(lab):
    return {name: lab.daemon("pid", name) for name in lab.daemons() if name.startswith("berthd:")}


def peak_memory(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))


@contextlib.contextmanager
def nothing_else_is_harmed(lab):
    """Around a test: the agents are the same afterwards, and no larger than they may be; and an ordinary pod starts."""
    before = agents(lab)
    yield
    lab.wait_phase(lab.create(run_for="0s"), "Succeeded", 60)
    assert agents(lab) == before
    for name, pid in before.items():
        assert peak_memory(pid) < MOST_MEMORY, f"{name} took {peak_memory(pid) / MIB:.0f} MiB"


def create_if_taken(lab, pod):
    """The pod as the server has it; None where the server itself refuses it, as newer ones do more and more."""
    try:
        return lab.create(pod)
    except ApiError as error:
        assert error.status in (400, 413, 422), error
        return None


def own(**words):
    return {"berth.dev/" + key.replace("_", "-"): value for key, value in words.items()}


# --- objects

REFUSED = {
    # What the pod asks by annotation, and words that its condition must have: the annotation, and what is accepted.
    "a negative number of nodes": (asking(min_nodes="-1"), ("min-nodes", "-1", "accepted")),
    "nodes beyond counting": (asking(max_nodes="18446744073709551617"), ("max-nodes", "accepted")),
    "memory beyond all numbers": (asking(mem_per_node="1e400"), ("mem-per-node", "1e400", "too large")),
    "negative memory": (asking(mem_per_node="-1Gi"), ("mem-per-node", "negative")),
    "CPUs beyond all numbers": (asking(cpu_per_task="1e18Ei"), ("cpu-per-task", "1e18Ei", "not a quantity")),
    "more CPUs than Slurm can count": (asking(cpu_per_task="65534"), ("cpu-per-task", "out of range")),
    "a negative time": (asking(timelimit="-5"), ("timelimit", "accepted")),
    "a time beyond the calendar": (asking(timelimit="99999999w"), ("timelimit", "too long")),
    "a negative count of devices": (asking(gres="gpu:-1"), ("gres", "accepted")),
    "a negative priority": (asking(priority="-7"), ("priority", "accepted")),
    "a reservation that looks like a hostlist": (asking(reservation="n[1-2]"), ("reservation", "n[1-2]", "accepted")),
    "a partition that looks like a hostlist": (asking(partition="main,n[1-2]"), ("partition", "accepted")),
    "an account that is a path": (asking(account="../../etc/shadow"), ("account", "accepted")),
    "constraints that look like a hostlist": (asking(constraints="n[1-2]"), ("Slurm", "feature")),
    "a name that would write a second line": (asking(job_name="a\nJobId=1 UserId=root"), ("job-name", "printable")),
    "a name of 200 KB": (asking(job_name="x" * 200_000), ("job-name", "256")),
    "a comment of 200 KB": (own(comment="y" * 200_000), ("comment", "1024")),
    "a terminal's commands": (own(comment="\x1b[2J\x07"), ("comment", "printable")),
    "an unending hostlist": (own(exclude="n[1-999999999]"), ("exclude", "accepted")),
    "a hostlist of hostlists": (own(exclude="n[1-9999]" + "x[1-9999]" * 20), ("exclude", "accepted")),
    "a broken hostlist": (own(exclude="n[1"), ("exclude", "accepted")),
    "a dependency on everything": (own(dependency="afterok:" + "x," * 5000), ("dependency",)),
}


def test_absurd_annotations_are_refused_in_words(lab):
    with nothing_else_is_harmed(lab):
        pods = {what: lab.create(annotations=annotations) for what, (annotations, _) in REFUSED.items()}
        for what, pod in pods.items():
            message = wait_unschedulable(lab, pod, *REFUSED[what][1])
            assert len(message) < 1500 and message.isprintable(), (what, message)
        for what, pod in pods.items():
            assert not jobs_of(lab, pod), what


def test_absurd_quantities_are_refused_in_words(lab):
    with nothing_else_is_harmed(lab):
        taken = 0
        for quantity in ("1e400", "1e18Ei", "9223372036854775807", "8Ei", "99999999999999999999"):
            for words in ({"cpu": quantity}, {"memory": quantity}):
                pod = create_if_taken(lab, lab.pod(**words))
                if pod is None:
                    continue
                taken += 1
                wait_unschedulable(lab, pod)
                assert not any(job["JobState"] == "RUNNING" for job in jobs_of(lab, pod)), words
        assert taken > 0


def test_places_that_look_like_hostlists_are_no_places(lab):
    """Slurm is told which nodes a pod must not get, as a hostlist: a label's value must not become part of it."""
    def at(value, operator="In"):
        pod = lab.pod()
        pod["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": operator, "values": [value]}]}]}}}
        return create_if_taken(lab, pod)
    with nothing_else_is_harmed(lab):
        for value in ("n[1-2]", "n1,n2", "n1\n", "ALL", ""):
            pod = at(value)
            if pod:
                wait_unschedulable(lab, pod, "node")
                assert not jobs_of(lab, pod), value
        pod = at("n[1-2]", "NotIn")
        if pod:
            lab.wait_bound(pod)


def test_huge_pods_start_like_others(lab):
    def with_spec(**spec):
        pod = lab.pod()
        pod["spec"].update(spec)
        return pod
    env = with_spec()
    env["spec"]["containers"][0]["env"] = [{"name": "BIG", "value": "v" * 1_000_000}]
    notes = lab.pod(annotations={f"example.com/{i}": "n" * 1000 for i in range(250)})
    labels = lab.pod()
    labels["metadata"]["labels"] = {f"label-{i}": "v" for i in range(10_000)}
    tolerations = with_spec(tolerations=[{"key": f"example.com/{i}", "operator": "Exists"} for i in range(10_000)])
    containers = with_spec()
    small = {**containers["spec"]["containers"][0], "resources": {"requests": {"cpu": "1m", "memory": "64Ki"}}}
    containers["spec"]["containers"] = [{**small, "name": f"c{i}"} for i in range(1_000)]
    with nothing_else_is_harmed(lab):
        for what, pod in {"env": env, "notes": notes, "labels": labels, "tolerations": tolerations, "containers": containers}.items():
            made = create_if_taken(lab, pod)
            assert made is not None, what
            lab.wait_bound(made)
            lab.delete(made, grace=1)
            lab.wait_gone(made)


def test_a_thousand_wishes_are_no_thousand_events(lab):
    pod = lab.pod()
    pod["spec"]["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": [f"model-{i}"]}]}} for i in range(3_000)]}}
    with nothing_else_is_harmed(lab):
        pod = lab.wait_phase(lab.create(pod), "Running")
        wait_for(lambda: any("more wishes" in event["message"] for event in lab.events(pod)), what="the rest is told in one sentence")
        assert len(lab.events(pod)) < 20


def test_bytes_that_are_no_utf_8_are_no_harm(lab):
    """The server makes U+FFFD of them; Slurm must never see those."""
    with open(f"{lab.dir}/kubernetes/admin.token", encoding="ascii") as file:
        token = file.read().strip()
    context = ssl.create_default_context(cafile=f"{lab.dir}/kubernetes/ca.crt")
    pods = [lab.pod(annotations=own(comment="COMMENT")), lab.pod(annotations=asking(job_name="COMMENT")), lab.pod(annotations={"example.com/x": "COMMENT"})]
    with nothing_else_is_harmed(lab):
        made = []
        for pod in pods:
            connection = http.client.HTTPSConnection("127.0.0.1", int(lab.env["BERTH_LAB_PORT"]), context=context, timeout=30)
            body = json.dumps(pod).encode().replace(b"COMMENT", b"a\xff\xc3\x28\xed\xa0\x80b")
            connection.request("POST", "/api/v1/namespaces/default/pods", body, {"Authorization": "Bearer " + token, "Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
            assert answer.status == 201, text
            made.append(json.loads(text))
        wait_unschedulable(lab, made[0], "comment", "printable")
        wait_unschedulable(lab, made[1], "job-name", "printable")
        lab.wait_bound(made[2])


def test_bells_are_not_read(lab):
    """The doorbell and the notify socket mean "look now", whatever is sent to them."""
    port = int(lab.env["BERTH_LAB_PORT"]) + 20
    with nothing_else_is_harmed(lab):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bell:
            for data in (b"", b"\0" * 60_000, b"berth 1 ended\njob=1\n", b"%n%s%x" * 100):
                bell.sendto(data, f"{lab.run_dir}/controller/notify.sock")
        for data in (b"", b"x" * MIB, b"GET / HTTP/1.1\r\n\r\n", b"\xff\xff\xff\xff" + b"\0" * 1000):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as link:
                link.sendall(data)


# --- a server gone mad

ONCE_SAID = {  # what the controller's log says of each
    "deep": "not JSON that can be read", "deep_object": "not JSON that can be read", "endless": "bytes", "html": "not JSON that can be read",
    "cut": "not JSON that can be read", "redirect": "HTTP 307", "bomb": "not JSON that can be read", "pages": "the same page",
    # A watch is resumed until it was refused three times, then there is a new list: so both have been tasted.
    "no_utf_8": r"(?s)watch of /api/v1/pods: not JSON that can be read: .*UTF-8.*GET /api/v1/pods: not JSON that can be read: .*UTF-8",
}


def check_mood(lab, api, mood):
    log = len(lab.log("berthd:controller"))
    pid = lab.daemon("pid", "berthd:controller")
    api.turn(mood)
    # One that drips is still at its first answer.
    wait_for(lambda: api.asked() >= len(lab.nodes) + 1 and (mood == "slow" or api.answered()[0] >= 2 * (len(lab.nodes) + 1)), 60,
             f"{mood}: all agents have tasted it")
    if mood in ONCE_SAID:
        wait_for(lambda: re.search(ONCE_SAID[mood], lab.log("berthd:controller")[log:]), 60, f"{mood}: the log says {ONCE_SAID[mood]}")
    answers, longest = api.answered()
    assert answers < 400, f"{mood}: {answers} requests are a storm"
    assert longest < 80 * MIB, f"{mood}: {longest / MIB:.0f} MiB were taken before the client hung up"
    pod = lab.create(run_for="0s")
    api.turn("sane")
    lab.wait_phase(pod, "Succeeded", 90)
    assert lab.daemon("pid", "berthd:controller") == pid, mood


def test_an_api_server_gone_mad_is_survived(lab):
    with HostileApi(lab) as api:
        before = agents(lab)
        for mood in ("deep", "deep_object", "endless", "types", "doubled", "no_utf_8", "version", "pages", "html", "cut", "slow", "bomb", "redirect"):
            check_mood(lab, api, mood)
        assert agents(lab) == before
        for name, pid in before.items():
            assert peak_memory(pid) < MOST_MEMORY, f"{name} took {peak_memory(pid) / MIB:.0f} MiB"


test_an_api_server_gone_mad_is_survived.timeout = 600
