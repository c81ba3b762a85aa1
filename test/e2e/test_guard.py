"""The plugins and their wire: who may make a placeholder, who may change one, and what neither a user nor a broken or flooded
agent can do to Slurm. Forged submissions come from forge.cc, for no command of Slurm can make them."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import threading
import time

from lab import holds_for, wait_for
from slurm import CommandError

ALICE, BOB = 20001, 20002
ONLY_BRIDGE = "placeholders for pods come from the bridge (slurm) alone"


# --- tools of these tests

def build_directory(lab):
    return os.path.dirname(lab.settings["berthd"])


def forge(lab, *words, user=None):
    """The id of a job that forge submits as this user; CommandError with slurmctld's words when it is refused."""
    program = os.path.join(lab.dir, "forge")
    if not os.path.exists(program):
        shutil.copy(os.path.join(build_directory(lab), "test/e2e/forge"), program)  # where every user can run it
    return int(lab.slurm.run(program, *words, user=user))


def answer(function, *arguments, **words):
    """What was said when the call was refused; empty when it was not."""
    try:
        function(*arguments, **words)
    except CommandError as error:
        return error.text
    return ""


def refusal(function, *arguments, **words):
    """What was said when the call was refused; fails when it was not."""
    said = answer(function, *arguments, **words)
    assert said, f"not refused: {arguments}"
    return said


def ticket(uid="11111111-2222-3333-4444-555555555555", user=ALICE, group=ALICE, name="forged", nonce="0123456789abcdef"):
    return json.dumps({"berth": 1, "cluster": "lab", "ns": "default", "kind": "Pod", "name": name, "uid": uid, "nonce": nonce,
                       "user": user, "group": group, "size": 1, "cpus": 1, "memory": 16}, separators=(",", ":"))


def as_bridge(lab, **words):
    """Submits a ticket with these members as the bridge itself would."""
    return forge(lab, "--admin-comment", ticket(**words), "--env", "SPANK_BERTH=unsealed", user="slurm")


@contextlib.contextmanager
def changed_file(path, text):
    """The file has this text meanwhile (None: it is not there), with its old owner and mode."""
    with open(path, encoding="utf-8") as file:
        before = file.read()
    mode = os.stat(path)

    def put(content):
        with open(path + ".edit", "w", encoding="utf-8") as file:
            file.write(content)
        os.chown(path + ".edit", mode.st_uid, mode.st_gid)
        os.chmod(path + ".edit", mode.st_mode & 0o7777)
        os.rename(path + ".edit", path)

    try:
        if text is None:
            os.unlink(path)
        else:
            put(text)
        yield
    finally:
        put(before)


def berth_conf(lab):
    path = f"{lab.dir}/etc/berth.conf"
    with open(path, encoding="utf-8") as file:
        return path, file.read()


def restart_slurmctld(lab):
    lab.daemon("restart", "slurmctld")
    wait_for(lambda: set(lab.slurm.nodes().values()) == {"idle"}, 60, "slurmctld is back and all nodes are idle")


def placeholder_of(lab, pod, state, deadline=60):
    """The id of the pod's job once it is in this state."""
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"

    def found():
        return next((job["id"] for job in lab.slurm.jobs() if job["name"] == name and job["state"] == state), None)
    return wait_for(found, deadline, f"{name} has a job that is {state}")


def fill(lab):
    """Native jobs that take all nodes."""
    jobs = [lab.slurm.sbatch("--exclusive", f"--nodelist={node}", user="lab_bob") for node in lab.nodes]
    wait_for(lambda: all(lab.slurm.job_state(job) == "RUNNING" for job in jobs), what="the nodes are taken")
    return jobs


@contextlib.contextmanager
def only_node(lab, node):
    """No job starts on any other node meanwhile."""
    others = ",".join(name for name in lab.nodes if name != node)
    lab.slurm.update(f"NodeName={others}", "State=DRAIN", "Reason=test")
    try:
        yield
    finally:
        lab.slurm.resume(others)


def agents(lab):
    return [name for name in lab.daemons() if name.startswith("berthd:")]


def agent_socket(lab, node):
    return f"{lab.run_dir}/{node}/agent.sock"


def send(lab, node, data):
    """One packet to the node's agent, on a connection of its own that is closed again."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
        link.connect(agent_socket(lab, node))
        try:
            link.send(data)
        except OSError:
            pass  # too long for a packet, or the agent closed first


def message(verb, **fields):
    return "".join([f"berth 1 {verb}\n"] + [f"{key}={value}\n" for key, value in fields.items()]).encode()


def native_jobs_work(lab, count=20, deadline=90):
    """So many native jobs are submitted, shown, started (their prologs) and ended (their epilogs). The deadline says only
    that nothing waits for ever: this is no measurement."""
    jobs = [lab.slurm.sbatch(wrap="true", user="lab_bob") for _ in range(count)]
    assert lab.slurm.run("squeue", "-h", timeout=deadline) is not None
    wait_for(lambda: all(lab.slurm.job_state(job) == "COMPLETED" for job in jobs), deadline, "native jobs come and go", 0.2)


# --- who may make a placeholder

def test_forged_markers_are_refused_with_a_sentence(lab):
    for words in (["--env", "SPANK_BERTH=1"], ["--env", "SPANK_BERTH=" + "0" * 64 + "." + ticket()],
                  ["--env", "SPANK_OTHER=1", "--env", "SPANK_BERTH=" + ticket()]):
        for kind in ([], ["--script"]):
            assert ONLY_BRIDGE in refusal(forge, lab, *words, *kind, user="lab_alice"), words
            assert ONLY_BRIDGE in refusal(forge, lab, *words, *kind), "root is not the bridge"
    for kind in ([], ["--script"]):
        assert ONLY_BRIDGE in refusal(forge, lab, "--admin-comment", ticket(), *kind)
        assert ONLY_BRIDGE in refusal(forge, lab, "--admin-comment", ' {\n"berth" : 7}', *kind)
        assert refusal(forge, lab, "--admin-comment", ticket(), *kind, user="lab_alice")  # Slurm itself says no
    assert not lab.slurm.jobs()


def test_other_spank_variables_are_none_of_our_business(lab):
    job = forge(lab, "--env", "SPANK_BERTHA=1", "--env", "SPANK_X=SPANK_BERTH=1", "--script", user="lab_alice")
    wait_for(lambda: lab.slurm.job_state(job) == "RUNNING", what="the job runs")


def test_tenant_must_be_one_the_site_allows(lab):
    assert "never belongs to user or group 0" in refusal(as_bridge, lab, user=0)
    assert "never belongs to user or group 0" in refusal(as_bridge, lab, group=0)
    assert "below MinUid=1000" in refusal(as_bridge, lab, user=999)
    for nobody in (99, 0xfffffffe, 0xffffffff):
        assert "berth:" in refusal(as_bridge, lab, user=nobody)
    assert not lab.slurm.jobs()


def test_bridge_itself_must_send_a_good_ticket(lab):
    assert "carries its ticket once" in refusal(forge, lab, "--admin-comment", ticket(), user="slurm")
    assert "carries its ticket once" in refusal(forge, lab, "--admin-comment", ticket(), "--env", "SPANK_BERTH=1", "--script", user="slurm")
    assert "carries its ticket once" in refusal(forge, lab, "--admin-comment", ticket(), "--env", "SPANK_BERTH=1", "--env",
                                                "SPANK_BERTH=2", user="slurm")
    assert "nonce" in refusal(as_bridge, lab, nonce="short")
    assert "version" in refusal(forge, lab, "--admin-comment", '{"berth":2}', "--env", "SPANK_BERTH=1", user="slurm")
    assert "ticket" in refusal(forge, lab, "--env", "SPANK_BERTH=1", user="slurm")


def test_owner_of_a_placeholder_is_who_the_ticket_says(lab):
    job = as_bridge(lab)
    assert lab.slurm.job(job)["UserId"] == f"lab_alice({ALICE})"
    # No such pod: nothing is bound, and the placeholder does not stay.
    wait_for(lambda: lab.slurm.job_state(job) not in ("RUNNING", "COMPLETING"), what="a placeholder without a pod ends")


# --- who may change one

IDENTITY_AND_SIZE = {
    "NumTasks=2": "NumTasks", "NumCPUs=2": "NumCPUs", "CPUsPerTask=2": "CPUsPerTask", "NumNodes=2": "NumNodes",
    "MinMemoryNode=10": "MinMemory", "MinMemoryCPU=10": "MinMemory", "ReqNodeList=n2": "NodeList", "ExcNodeList=n3": "ExcNodeList",
    "JobName=mine": "JobName", "Partition=main": "Partition", "Account=other": "Account", "QOS=normal": "QOS",
    "Features=fast": "Features", "Gres=gpu:1": "Gres", "ReservationName=r": "Reservation", "OverSubscribe=yes": "OverSubscribe",
}
SHOWN = ("NumTasks", "NumCPUs", "NumNodes", "CPUs/Task", "MinMemoryNode", "ReqNodeList", "ExcNodeList", "JobName", "Partition",
         "Account", "QOS", "Features", "UserId")


def refuses_owner(lab, job):
    before = {key: lab.slurm.job(job).get(key) for key in SHOWN}
    for word, what in IDENTITY_AND_SIZE.items():
        said = refusal(lab.slurm.run, "scontrol", "update", f"JobId={job}", word, user="lab_alice")
        if lab.slurm.version() < (23, 2):
            said = lab.log("slurmctld")  # a plugin has no other place for it there
        assert f"{what} of job {job} cannot be changed" in said, f"{word}: {said}"
    assert {key: lab.slurm.job(job).get(key) for key in SHOWN} == before


def test_owner_cannot_alter_identity_or_size_of_a_pending_placeholder(lab):
    fill(lab)
    pod = lab.create(cpu=2)
    job = placeholder_of(lab, pod, "PENDING")
    refuses_owner(lab, job)
    lab.slurm.run("scontrol", "update", f"JobId={job}", "TimeLimit=5", user="lab_alice")
    assert lab.slurm.job(job)["TimeLimit"] == "00:05:00"
    lab.slurm.update(f"JobId={job}", "JobName=renamed-by-root")
    assert lab.slurm.job(job)["JobName"] == "renamed-by-root"
    lab.slurm.scancel(job, user="lab_alice")
    wait_for(lambda: lab.slurm.job_state(job) == "CANCELLED", what="the owner's scancel counts")


def test_owner_cannot_alter_identity_or_size_of_a_running_placeholder(lab):
    pod = lab.create(cpu=2)
    lab.wait_phase(pod, "Running")
    job = lab.job_id(pod)
    refuses_owner(lab, job)
    lab.slurm.run("scontrol", "update", f"JobId={job}", "TimeLimit=5", user="lab_alice")
    assert lab.slurm.job(job)["TimeLimit"] == "00:05:00"
    assert lab.phase(pod) == "Running"
    lab.slurm.scancel(job, user="lab_alice")
    lab.wait_gone(pod)


def test_placeholder_is_guarded_from_its_first_moment_on(lab):
    """Also while the controller compares its table with slurmctld's: what was submitted during a look is not in it."""
    fill(lab)
    for _ in range(15):
        pod = lab.create()
        job = placeholder_of(lab, pod, "PENDING")
        for word in ("NumCPUs=2", "JobName=mine") * 5:
            refusal(lab.slurm.run, "scontrol", "update", f"JobId={job}", word, user="lab_alice")


def test_placeholders_stay_guarded_while_the_controller_is_away_or_cannot_see(lab):
    fill(lab)
    pod = lab.create()
    job = placeholder_of(lab, pod, "PENDING")
    change = ("scontrol", "update", f"JobId={job}", "JobName=mine")
    wait_for(lambda: answer(lab.slurm.run, *change, user="lab_alice"), what="the owner is refused")
    lab.daemon("stop", "berthd:controller")
    refusal(lab.slurm.run, *change, user="lab_alice")
    lab.daemon("stop", "kube-apiserver")
    try:
        lab.daemon("start", "berthd:controller")
        wait_for(lambda: lab.daemons()["berthd:controller"] == "running", what="the controller starts")
        holds_for(lambda: refusal(lab.slurm.run, *change, user="lab_alice"), 3, "the owner is refused")
    finally:
        lab.daemon("start", "kube-apiserver")
    wait_for(lambda: lab.kube.get("/readyz") == "ok", 60, "the API server is back")
    assert lab.slurm.job(job)["JobName"] == f"default/{pod['metadata']['name']}"


def test_nobody_can_make_a_placeholder_of_an_ordinary_job(lab):
    job = lab.slurm.sbatch(user="lab_alice")
    for user in ("lab_alice", None):
        refusal(lab.slurm.run, "scontrol", "update", f"JobId={job}", "AdminComment=" + ticket(), user=user)
    assert "berth" not in lab.slurm.job(job).get("AdminComment", "")
    lab.slurm.update(f"JobId={job}", "AdminComment=berth is nice")  # free text stays free
    assert lab.slurm.job(job)["AdminComment"] == "berth is nice"
    lab.slurm.run("scontrol", "update", f"JobId={job}", "JobName=mine", user="lab_alice")


def test_ticket_of_a_placeholder_cannot_be_changed_even_by_root(lab):
    pod = lab.create()
    lab.wait_phase(pod, "Running")
    job = lab.job_id(pod)
    for text in (ticket(), "x", ""):
        refusal(lab.slurm.run, "scontrol", "update", f"JobId={job}", "AdminComment=" + text)
    lab.slurm.run("scontrol", "update", f"JobId={job}", "Comment=a note of mine", user="lab_alice")
    assert lab.phase(pod) == "Running"


def test_nobody_starts_a_step_in_a_placeholder(lab):
    pod = lab.create()
    lab.wait_phase(pod, "Running")
    job = lab.job_id(pod)
    trace = f"/tmp/berth-test-{os.getpid()}-{job}"
    node = lab.get(pod)["spec"]["nodeName"]
    for user in ("lab_alice", None, "lab_bob"):
        # srun of 22.05 says that the launch failed and exits with 0.
        lab.slurm.run("srun", "--overlap", f"--jobid={job}", "-n1", "touch", trace, user=user, check=False)
        refusal(lab.slurm.run, "sattach", f"{job}.0", user=user)
        assert not os.path.exists(trace), user
    assert f"job {job} holds the place of a Kubernetes pod: no step can run in it" in lab.log("slurmd:" + node)
    assert lab.phase(pod) == "Running" and lab.slurm.job_state(job) == "RUNNING"
    assert not any("drain" in state for state in lab.slurm.nodes().values())
    native_jobs_work(lab, 3)


# --- what the node believes

def test_unsealed_and_wrongly_sealed_tickets_bind_nothing(lab):
    path = f"{lab.dir}/etc/slurm.conf"
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with changed_file(path, text.replace("JobSubmitPlugins=berth\n", "")):
        restart_slurmctld(lab)
        pod = lab.create()
        placeholder_of(lab, pod, "RUNNING")  # its ticket is unsealed: the plugin that would do it is not there
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        forged = [forge(lab, "--env", "SPANK_BERTH=" + seal + ticket(uid=uid, name=name, nonce=nonce), user="lab_alice")
                  for seal, nonce in (("", "1" * 16), ("0" * 64 + ".", "2" * 16), ("." * 65, "3" * 16))]
        wait_for(lambda: all(lab.slurm.job_state(job) == "RUNNING" for job in forged), what="the forged jobs run")
        logs = wait_for(lambda: (text := "".join(lab.log("slurmd:" + node) for node in lab.nodes)).count("gets no pod") >= 4 and text,
                        what="the nodes say so")
        assert all(f"job {job} gets no pod: its ticket is not sealed" in logs for job in forged)
        holds_for(lambda: "nodeName" not in lab.get(pod)["spec"], 3, "the pod is not bound")
        lab.slurm.scancel(*forged)
        lab.delete(pod)
        lab.wait_gone(pod)
        wait_for(lambda: not lab.slurm.jobs(), 60, "no job is left")
    restart_slurmctld(lab)


def test_allocation_replayed_for_another_job_or_with_a_broken_seal_binds_nothing(lab):
    with only_node(lab, "n1"):
        lab.daemon("stop", "berthd:n1")
        pod = lab.create()
        job = placeholder_of(lab, pod, "RUNNING")
        jobs = f"{lab.run_dir}/n1/jobs"
        name = wait_for(lambda: os.path.isdir(jobs) and next((f for f in os.listdir(jobs) if f.startswith(f"{job}.")), None),
                        what="the prolog has recorded the allocation")
        with open(f"{jobs}/{name}", "rb") as file:
            record = file.read()
        os.unlink(f"{jobs}/{name}")
        other = forge(lab, "--node", "n1", user="lab_alice")
        wait_for(lambda: lab.slurm.job_state(other) == "RUNNING", what="another job of the tenant runs here")
        lab.daemon("start", "berthd:n1")
        wait_for(lambda: send(lab, "n1", message("check")) is None, what="the agent listens")
        seal_at = record.index(b"\nticket=") + len(b"\nticket=")
        broken = bytearray(record)
        broken[seal_at] = ord("0") if broken[seal_at] != ord("0") else ord("1")
        bigger = record.replace(b'"memory":', b'"memory":9')
        foreign = record.replace(b"user=%d" % ALICE, b"user=%d" % BOB)
        for forged in (record.replace(b"job=%d\n" % job, b"job=%d\n" % other), record.replace(b"job=%d\n" % job, b"job=999999\n"),
                       bytes(broken), bigger, foreign):
            assert forged != record
            send(lab, "n1", forged)
        # The agent of a node where the job is not.
        send(lab, "n2", record)
        holds_for(lambda: "nodeName" not in lab.get(pod)["spec"], 3, "the pod is not bound")
        assert lab.slurm.job_state(other) == "RUNNING", "nor is the other job touched"
        send(lab, "n1", record)
        assert lab.wait_bound(pod)["spec"]["nodeName"] == "n1"
        lab.slurm.scancel(other)


# --- the socket

def test_only_root_and_slurm_are_heard(lab):
    program = ("import socket,sys\ns=socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
               "try:\n s.connect(sys.argv[1])\nexcept PermissionError:\n sys.exit('not let in')\n"
               "s.settimeout(10)\ntry:\n s.send(b'berth 1 check\\n')\n s.recv(10)\nexcept OSError:\n pass\nsys.exit('hung up')\n")
    path = agent_socket(lab, "n1")
    assert "not let in" in refusal(lab.slurm.run, "python3", "-c", program, path, user="lab_alice")
    os.chmod(path, 0o666)  # an admin's mistake must not be enough
    try:
        assert "hung up" in refusal(lab.slurm.run, "python3", "-c", program, path, user="lab_alice")
    finally:
        os.chmod(path, 0o600)
    assert f"a connection from uid {ALICE} is refused" in lab.log("berthd:n1")
    notify = f"{lab.run_dir}/controller/notify.sock"
    program = "import socket,sys\nsocket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'!', sys.argv[1])\n"
    assert "PermissionError" in refusal(lab.slurm.run, "python3", "-c", program, notify, user="lab_alice")


def test_malformed_messages_do_not_harm_the_agent(lab):
    pid = lab.daemon("pid", "berthd:n1")
    good = message("allocated", job=1, user=ALICE, node="n1", ticket="0" * 64 + "." + ticket())
    bad = [b"\0", b"\n", b"\xff" * 4000, b"berth", b"berth 1 ", b"berth 1 \n", b"berth 2 allocated\njob=1\n", b"berth 1 allocated",
           b"berth 1 nonsense\n", b"berth 1 allocated\njob\n", b"berth 1 allocated\njob=1\njob=2\n", b"berth 1 allocated\n\0=1\n",
           message("allocated", job="99999999999999999999"), message("allocated", job=-1), message("allocated"),
           message("ended"), message("ended", job=1), message("ended", job=1, nonce="../../../../etc/passwd"),
           message("ended", job="x", nonce="n" * 30000), b"berth 1 allocated\nx=" + b"y" * 40000 + b"\n", b"z" * 200000,
           good, good.replace(b"user", b"u\0er")]
    bad += [good[:length] for length in range(1, len(good), 7)]
    for data in bad:
        send(lab, "n1", data)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:  # nothing at all, and many on one connection
        link.connect(agent_socket(lab, "n1"))
        for _ in range(100):
            link.send(message("ended", job=1, nonce="0" * 16))
    with only_node(lab, "n1"):
        pod = lab.create(run_for="0s")
        lab.wait_phase(pod, "Succeeded")
    assert lab.daemon("pid", "berthd:n1") == pid


# --- berth.conf

def test_berth_conf_counts_without_a_restart(lab):
    path, text = berth_conf(lab)
    pid = lab.daemon("pid", "slurmctld")
    with changed_file(path, text + "AllowUsers=lab_bob\n"):
        wait_for(lambda: "not among AllowUsers" in answer(as_bridge, lab), what="AllowUsers counts")
        bobs = lab.create(ns="team-b", run_for="0s")
        lab.wait_phase(bobs, "Succeeded")
        alices = lab.create(run_for="0s")
        wait_for(lambda: lab.condition(alices, "PodScheduled").get("reason") == "Unschedulable", what="alice's pod is told")
        holds_for(lambda: "nodeName" not in lab.get(alices)["spec"], 1, "alice's pod is not bound")
    lab.wait_phase(alices, "Succeeded", 60)
    with changed_file(path, text.replace("MinUid=1000", "MinUid=20002")):
        wait_for(lambda: "below MinUid=20002" in answer(as_bridge, lab), what="MinUid counts")
    pod = lab.create(run_for="0s")
    lab.wait_phase(pod, "Succeeded", 60)
    assert lab.daemon("pid", "slurmctld") == pid


def test_mistake_in_berth_conf_is_seen_and_changes_nothing(lab):
    path, text = berth_conf(lab)
    pid = lab.daemon("pid", "slurmctld")
    line = text.count("\n") + 1
    for mistake, complaint in (("Nonsense=1", f'{path}:{line}: unknown key "Nonsense"'), ("MinUid", f"{path}:{line}: not a Key=Value line"),
                               ("AllowUsers=no_such_user", f'{path}:{line}: AllowUsers: this host knows no user "no_such_user"'),
                               ("BridgeUser=root", f"{path}:{line}: BridgeUser stands twice")):
        with changed_file(path, text + mistake + "\n"):
            wait_for(lambda words=complaint: words in lab.log("slurmctld"), what=f"slurmctld complains: {complaint}")
            assert "the rules stay as they were" in lab.log("slurmctld")
            pod = lab.create(run_for="0s")
            lab.wait_phase(pod, "Succeeded")
            assert ONLY_BRIDGE in refusal(forge, lab, "--env", "SPANK_BERTH=1", user="lab_alice")
    assert lab.daemon("pid", "slurmctld") == pid


def test_slurmctld_starts_and_serves_without_berth_conf(lab):
    path, _ = berth_conf(lab)
    with changed_file(path, None):
        restart_slurmctld(lab)
        native_jobs_work(lab, 3)
        assert "berth.conf is missing or wrong, so no placeholder is accepted" in refusal(as_bridge, lab)
        assert "berth.conf is missing or wrong" in refusal(forge, lab, "--env", "SPANK_BERTH=1", user="lab_alice")
        pod = lab.create(run_for="0s")
        wait_for(lambda: lab.condition(pod, "PodScheduled").get("reason") == "Unschedulable", what="the pod is told")
    lab.wait_phase(pod, "Succeeded", 60)  # by itself, once the file is there


def test_reconfigure_keeps_everything_working(lab):
    lives = lab.create()
    lab.wait_phase(lives, "Running")
    for _ in range(3):
        lab.slurm.run("scontrol", "reconfigure")
        pod = lab.create(run_for="0s")
        lab.wait_phase(pod, "Succeeded")
        assert ONLY_BRIDGE in refusal(forge, lab, "--env", "SPANK_BERTH=1", user="lab_alice")
    refusal(lab.slurm.run, "scontrol", "update", f"JobId={lab.job_id(lives)}", "JobName=mine", user="lab_alice")
    assert lab.phase(lives) == "Running"


def test_both_checks_of_the_configuration_say_the_same(lab):
    build, path = build_directory(lab), f"{lab.dir}/etc/check.yaml"
    with open(f"{lab.dir}/etc/berth-controller.yaml", encoding="utf-8") as file:
        good = file.read()
    for text, words in ((good, "ok"), (good + "nonsense: 1\n", "nonsense"), (good.replace("limit: 30s", "limit: soon"), "limit"),
                        (good + "\t{", "check.yaml"), ("", "check.yaml"), (None, "check.yaml")):
        if text is None:
            os.unlink(path)
        else:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        answers = [subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
                   for command in ([f"{build}/berthd", "--check-config", "--config", path], [f"{build}/berth", "config", "check", path])]
        first, second = [(a.returncode, a.stdout, a.stderr) for a in answers]
        assert first == second, (first, second)
        assert (first[0] == 0) == (words == "ok") and words in first[1] + first[2], first
        if words in ("nonsense", "limit"):
            assert ".yaml:" in first[2], f"file and line are named: {first[2]}"


# --- a good guest

def test_native_jobs_do_not_wait_for_absent_agents(lab):
    lab.daemon("kill", *agents(lab))
    native_jobs_work(lab)
    lab.daemon("start", *agents(lab))
    pod = lab.create(run_for="0s")
    lab.wait_phase(pod, "Succeeded", 60)


def test_native_jobs_do_not_wait_for_stopped_agents(lab):
    lab.daemon("pause", *agents(lab))
    native_jobs_work(lab)
    lab.daemon("resume", *agents(lab))
    pod = lab.create(run_for="0s")
    lab.wait_phase(pod, "Succeeded", 60)


class Flood:
    """Connections, packets and datagrams to everything the agents listen on, for as long as the block lasts."""

    def __init__(self, lab):
        self.lab, self.over, self.sent = lab, threading.Event(), 0
        self.threads = [threading.Thread(target=self.run, args=(one,)) for one in (self.connect, self.ring, self.knock)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()

    def run(self, one):
        end = time.monotonic() + 60
        while not self.over.is_set() and time.monotonic() < end:
            try:
                one()
                self.sent += 1
            except OSError:
                time.sleep(0.001)  # full: that is the point

    def connect(self):
        links = []
        try:
            for _ in range(300):
                link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                links.append(link)
                link.setblocking(False)
                link.connect(agent_socket(self.lab, "n1"))
                link.send(message("check"))
        finally:
            for link in links:
                link.close()

    def ring(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bell:
            bell.setblocking(False)
            for _ in range(300):
                bell.sendto(b"!", f"{self.lab.run_dir}/controller/notify.sock")

    def knock(self):
        for _ in range(100):
            socket.create_connection(("127.0.0.1", int(self.lab.env["BERTH_LAB_PORT"]) + 20), 1).close()


def test_native_jobs_and_pods_go_on_while_the_agents_are_flooded(lab):
    with Flood(lab) as flood:
        native_jobs_work(lab)
        pod = lab.create(run_for="0s")
        lab.wait_phase(pod, "Succeeded", 60)
    assert flood.sent > 10
    assert set(lab.daemons().values()) == {"running"}


def test_idle_connections_keep_no_prolog_waiting(lab):
    links = []
    try:
        for _ in range(900):
            link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            links.append(link)
            link.connect(agent_socket(lab, "n1"))
        with only_node(lab, "n1"):
            native_jobs_work(lab, 5)
            pod = lab.create(run_for="0s")
            lab.wait_phase(pod, "Succeeded")
    finally:
        for link in links:
            link.close()
