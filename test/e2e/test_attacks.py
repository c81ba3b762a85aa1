"""What a tenant tries with kubectl and with a Slurm login: to take another's place, to keep others from theirs, to become somebody else.
Each test is one attack, and is named in docs/security.md. Forged placeholders are in test_guard.py."""

import contextlib
import grp
import os
import subprocess

from gangs import create_group, create_job, join_group
from lab import JOB_ID, holds_for, wait_for
from test_guard import (ALICE, as_bridge, berth_conf, build_directory, changed_file, message, only_node, placeholder_of, refusal, send,
                        ticket)
from witness import (NODE, NONCE, asking, bindings, fill, jobs_of, running_pod, wait_job, wait_state, wait_unschedulable,
                     waiting_pod, warnings)

FORGED = "PastSlurm"


def forged_pod(lab, node, job, nonce, slot=None, **words):
    """A pod that its author puts on a node, with Berth's own annotations as if Slurm had."""
    annotations = {JOB_ID: str(job), NONCE: nonce, NODE: node or "n1", **({"berth.dev/slot": slot} if slot else {})}
    pod = lab.pod(annotations=annotations, **words)
    if node:
        pod["spec"]["nodeName"] = node
    return lab.create(pod)


def nonce_of(lab, job):
    return lab.slurm.job(job)["AdminComment"].split('"nonce":"')[1].split('"')[0]


def untouched(lab, pod, job):
    assert lab.phase(pod) == "Running" and lab.slurm.job_state(job) == "RUNNING"
    return True


# --- another's place

def test_pod_that_names_anothers_job_is_deleted_and_harms_nothing(lab):
    victim, job = running_pod(lab, ns="team-b")
    node = victim["spec"]["nodeName"]
    other = next(name for name in lab.nodes if name != node)
    for where in (node, other):  # beside it, and where the job is not
        thief = forged_pod(lab, where, job, nonce_of(lab, job), grace=1)
        lab.wait_gone(thief)
        wait_for(lambda: warnings(lab, thief), what="its author is told")
        assert warnings(lab, thief)[0][0] == FORGED and str(job) in warnings(lab, thief)[0][1], warnings(lab, thief)
        assert not [r for r in lab.held() if thief["metadata"]["uid"] in r]
    untouched(lab, victim, job)
    assert bindings(lab)[victim["metadata"]["uid"]] == 1
    lab.delete(victim, grace=1)
    wait_state(lab, job, "CANCELLED")


def test_forged_pod_that_ends_by_itself_does_not_end_anothers_job(lab):
    victim, job = running_pod(lab, ns="team-b")
    for words in ({"run_for": "0s"}, {"run_for": "0s", "exit_code": 3}):
        thief = forged_pod(lab, victim["spec"]["nodeName"], job, nonce_of(lab, job), **words)
        wait_for(lambda: lab.phase(thief) in ("Succeeded", "Failed", None), what="the forged pod is over")
    holds_for(lambda: untouched(lab, victim, job), 2)


def test_forged_pods_do_not_keep_anothers_pod_from_its_node(lab):
    """They name a job that still waits, on every node it may get, and take their time to die."""
    victim, job = waiting_pod(lab, ns="team-b")
    nonce = nonce_of(lab, job)
    thieves = [forged_pod(lab, node, job, nonce, cpu="100m", grace=20, die_after="15s") for node in lab.nodes]
    wait_for(lambda: all(warnings(lab, thief) for thief in thieves), what="the forged pods are seen")
    lab.slurm.scancel("--user=root")
    lab.wait_phase(victim, "Running")
    assert lab.job_id(victim) == job and len(jobs_of(lab, victim)) == 1, "it has not had to wait for another job"
    for thief in thieves:
        lab.wait_gone(thief)
    untouched(lab, victim, job)


def test_made_up_job_keeps_no_native_job_waiting(lab):
    """A pod that is not proven ours is not held: else anybody could close a node, again and again, until it is drained."""
    thief = forged_pod(lab, "n1", 999999, "0123456789abcdef", cpu="100m", grace=20, die_after="18s")
    wait_for(lambda: warnings(lab, thief), what="the pod is seen")
    job = lab.slurm.sbatch("--nodelist=n1", wrap="true", user="lab_bob")
    wait_state(lab, job, "COMPLETED")
    assert lab.processes(thief), "meanwhile it has not even died"
    lab.wait_gone(thief)


def test_forged_member_takes_no_slot_of_anothers_gang(lab):
    group = create_group(lab, 2, ns="team-b")
    victims = join_group(lab, group, 2)
    for victim in victims:
        lab.wait_phase(victim, "Running")
    job = lab.job_id(victims[0])
    node = lab.get(victims[0])["spec"]["nodeName"]
    for slot in ("0.0", "0.7", "1.0", None):
        thief = forged_pod(lab, node, job, nonce_of(lab, job), slot=slot, grace=1)
        lab.wait_gone(thief)
    for victim in victims:
        untouched(lab, victim, job)


def test_annotations_on_a_waiting_pod_mean_nothing(lab):
    victim, job = running_pod(lab, ns="team-b")
    thief = forged_pod(lab, None, job, nonce_of(lab, job))
    lab.wait_phase(thief, "Running")
    own = lab.job_id(thief)
    assert own != job and str(own) == jobs_of(lab, thief)[0]["JobId"]
    lab.delete(thief, grace=1)
    wait_state(lab, own, "CANCELLED")
    untouched(lab, victim, job)


def test_annotations_changed_while_it_runs_harm_nobody_else(lab):
    victim, job = running_pod(lab, ns="team-b")
    pod, own = running_pod(lab, run_for="8s", exit_code=3)
    nonce, node = nonce_of(lab, job), pod["spec"]["nodeName"]
    for change in ({JOB_ID: str(job), NONCE: nonce}, {JOB_ID: None, NONCE: None, NODE: None}):
        lab.kube.patch(lab.path(pod), {"metadata": {"annotations": change}})
        lab.daemon("restart", f"berthd:{node}", "berthd:controller")
    # Its own place stays its own as well: the node's record says who bound it, not the annotations.
    assert wait_state(lab, own, "FAILED", "CANCELLED", "COMPLETED")["ExitCode"] == "3:0"
    holds_for(lambda: untouched(lab, victim, job), 2)


def test_pod_put_on_a_node_past_slurm_is_told_and_gets_no_job(lab):
    pod = lab.pod()
    pod["spec"]["nodeName"] = "n1"
    pod = lab.create(pod)
    wait_for(lambda: warnings(lab, pod), what="its author is told")
    assert warnings(lab, pod)[0][0] == FORGED and "past Slurm" in warnings(lab, pod)[0][1]
    holds_for(lambda: not lab.slurm.jobs() and not lab.held(), 1, "Slurm has no job for it")
    assert len(warnings(lab, pod)) == 1


# --- somebody else

def test_owners_cannot_ask_for_what_their_pods_may_not(lab):
    """A pod inherits the annotations of what owns or groups it: so they must not open what the pod's own do not."""
    for asked in ({"user_id": "0"}, {"user_id": "lab_bob"}, {"group_id": "0"}, {"group_id": "lab_bob"}, {"account": "theirs"}, {"partition": "secret"}, {"qos": "high"},
                  {"reservation": "theirs"}, {"priority": "100000"}):
        key, = asked
        key = "slurmjob.slinky.slurm.net/" + key.replace("_", "-")
        job = create_job(lab, pods=1, gang=False, annotations=asking(**asked))
        path = f"/api/v1/namespaces/default/pods?labelSelector=job-name%3D{job['metadata']['name']}"
        pod = wait_for(lambda: lab.kube.get(path)["items"], what="the Job has its pod")[0]
        wait_unschedulable(lab, pod, key)
        group = create_group(lab, 1)
        lab.kube.patch(lab.owner_path(group), {"metadata": {"annotations": asking(**asked)}})
        member, = join_group(lab, group, 1)
        wait_unschedulable(lab, member, key)
    assert not lab.slurm.jobs()


def test_group_of_others_is_refused_by_name_and_number(lab):
    """Groups that are there, and not root's: what only their members may read would be open to the job."""
    for group in ("lab_bob", str(grp.getgrnam("lab_bob").gr_gid), "slurm", "daemon"):
        pod = lab.create(annotations=asking(group_id=group))
        message = wait_unschedulable(lab, pod, "slurmjob.slinky.slurm.net/group-id", group)
        assert "refused" in message and not jobs_of(lab, pod), message
    own = lab.create(annotations=asking(group_id=grp.getgrnam("lab_alice").gr_gid), run_for="0s")
    assert wait_job(lab, own)["GroupId"].startswith("lab_alice(")
    lab.wait_phase(own, "Succeeded")


def test_generous_berth_yaml_is_stopped_in_slurmctld(lab):
    """The mapping is enforced twice: here the agent's is wrong."""
    path = f"{lab.dir}/etc/berth-controller.yaml"
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with changed_file(path, text.replace("namespace: team-a, user: lab_alice", "namespace: team-a, user: daemon")):
        lab.daemon("restart", "berthd:controller")
        pod = lab.create(ns="team-a")
        wait_unschedulable(lab, pod, "below MinUid=1000 in berth.conf")
        assert not lab.slurm.jobs()
    conf, rules = berth_conf(lab)
    with changed_file(conf, rules + "AllowUsers=lab_bob\n"):
        lab.daemon("restart", "berthd:controller")
        alices, bobs = lab.create(ns="team-a"), lab.create(ns="team-b")
        lab.wait_phase(bobs, "Running")
        wait_unschedulable(lab, alices, "not among AllowUsers")
    lab.wait_phase(alices, "Running")


def test_wrongly_mapped_namespace_is_stopped_in_slurmctld(lab):
    """A user who may be a tenant, but not this namespace's: berth.conf says whose is whose."""
    path = f"{lab.dir}/etc/berth-controller.yaml"
    with open(path, encoding="utf-8") as file:
        text = file.read()
    conf, rules = berth_conf(lab)
    with changed_file(conf, rules + "Namespace=team-a Users=lab_alice\nNamespace=team-b Users=lab_bob\n"):
        with changed_file(path, text.replace("namespace: team-a, user: lab_alice", "namespace: team-a, user: lab_bob")):
            lab.daemon("restart", "berthd:controller")
            wrong, unlisted, right = lab.create(ns="team-a"), lab.create(), lab.create(ns="team-b")
            wait_unschedulable(lab, wrong, "namespace team-a must not be uid", "Namespace=team-a in berth.conf")
            wait_unschedulable(lab, unlisted, "namespace default is not in berth.conf", "add a line Namespace=default")
            lab.wait_phase(right, "Running")
            wait_state(lab, lab.slurm.sbatch("--mem=16", wrap="true", user="lab_bob"), "COMPLETED")
            assert not jobs_of(lab, wrong) and not jobs_of(lab, unlisted)
        lab.daemon("restart", "berthd:controller")
        lab.wait_phase(wrong, "Running")
        assert [job["UserId"].split("(")[0] for job in jobs_of(lab, wrong)] == ["lab_alice"]
        wait_unschedulable(lab, unlisted, "is not in berth.conf")
    lab.wait_phase(unlisted, "Running")


def test_root_is_no_tenant_by_any_name(lab):
    build = build_directory(lab)
    with open(f"{lab.dir}/etc/berth-controller.yaml", encoding="utf-8") as file:
        text = file.read()
    path = f"{lab.dir}/etc/root.yaml"
    for words in ("user: root", 'user: "0"', "user: 00", 'user: "+0"', "user: lab_alice, group: root", "user: lab_alice, group: 0"):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("user: lab_alice", words, 1))
        done = subprocess.run([f"{build}/berth", "config", "check", path], capture_output=True, text=True, check=False)
        assert done.returncode != 0 and "root" in done.stderr, (words, done.stderr)
    os.unlink(path)
    assert "never belongs to user or group 0" in refusal(as_bridge, lab, user=0)
    assert "never belongs to user or group 0" in refusal(as_bridge, lab, user=ALICE, group=0)


# --- with a Slurm login

def test_words_of_a_native_job_make_no_placeholder(lab):
    """By comment, by name, by environment and by option: what any user can say."""
    victim, job = waiting_pod(lab, ns="team-b")
    uid, name = victim["metadata"]["uid"], victim["metadata"]["name"]
    text = ticket(uid=uid, name=name, nonce=nonce_of(lab, job))
    lab.slurm.scancel("--user=root")
    lab.wait_phase(victim, "Running")
    job = lab.job_id(victim)
    words = ["--mem=16", f"--comment={text}", f"--job-name=team-b/{name}", "--export=ALL,SPANK_BERTH=" + text]
    batch = lab.slurm.sbatch(*words, user="lab_alice")
    environment = {**os.environ, **lab.slurm.environment, "SPANK_BERTH": text, "SLURM_SPANK_BERTH": text, "SLURM_JOB_COMMENT": text}
    for command in (["sbatch", "--mem=16", "--output=/dev/null", "--wrap", "sleep 1000"], ["salloc", "--no-shell", *words[:3]],
                    ["srun", *words[:3], "true"]):
        subprocess.run(command, env=environment, cwd="/tmp", capture_output=True, user="lab_alice", group="lab_alice", extra_groups=[],
                       timeout=60, check=True)
    refusal(lab.slurm.sbatch, f"--admin-comment={text}", "--mem=16", user="lab_alice")
    wait_state(lab, batch, "RUNNING")

    def running():  # srun's may be completing
        found = [j["id"] for j in lab.slurm.jobs() if j["user"] == "lab_alice" and lab.slurm.job_state(j["id"]) == "RUNNING"]
        return found if len(found) >= 3 else None
    natives = wait_for(running, what="three native jobs run")
    # The controller neither takes them for the pod's place nor ends them as places without a pod, in more than two of its looks.
    holds_for(lambda: untouched(lab, victim, job) and all(lab.slurm.job_state(j) == "RUNNING" for j in natives), 12, interval=0.5)
    assert bindings(lab)[uid] == 1


def test_comment_of_a_placeholder_is_only_for_people(lab):
    """The owner may rewrite it; nobody reads it."""
    victim, job = running_pod(lab, ns="team-b")
    pod, own = running_pod(lab)
    lab.slurm.run("scontrol", "update", f"JobId={own}", "Comment=" + ticket(uid=victim["metadata"]["uid"], nonce=nonce_of(lab, job)),
                  user="lab_alice")
    lab.daemon("restart", "berthd:controller")
    holds_for(lambda: untouched(lab, pod, own) and untouched(lab, victim, job), 2)
    lab.slurm.scancel(own, user="lab_alice")
    lab.wait_gone(pod)
    untouched(lab, victim, job)


# --- messages once more

def test_allocation_replayed_after_its_end_binds_nothing(lab):
    """Also when somebody has taken the records away, and the pod's name is another pod's by now."""
    with only_node(lab, "n1"):
        lab.daemon("stop", "berthd:n1")
        pod = lab.create(name="again")
        job = placeholder_of(lab, pod, "RUNNING")
        jobs, ended = f"{lab.run_dir}/n1/jobs", f"{lab.run_dir}/n1/ended"
        name = wait_for(lambda: next((f for f in os.listdir(jobs) if f.startswith(f"{job}.")), None), what="the prolog has written")
        with open(f"{jobs}/{name}", "rb") as file:
            record = file.read()
        nonce = name.split(".")[1]
        lab.daemon("start", "berthd:n1")
        lab.wait_phase(pod, "Running")
        send(lab, "n1", record)  # twice
        lab.slurm.scancel(job)
        lab.wait_gone(pod)
        wait_state(lab, job, "CANCELLED")
        wait_for(lambda: os.path.exists(f"{ended}/{name}"), what="the end is recorded")
        fill(lab, "--nodelist=n1", "--nodes=1")
        new = lab.create(name="again")
        wait_job(lab, new)
        send(lab, "n1", record)
        os.unlink(f"{ended}/{name}")
        send(lab, "n1", record)
        send(lab, "n1", message("ended", job=job, nonce=nonce))  # and in the wrong order
        send(lab, "n1", record)
        holds_for(lambda: "nodeName" not in lab.get(new)["spec"] and not lab.held("n1"), 3, "nothing is bound")
        lab.slurm.scancel("--user=root")
        lab.wait_phase(new, "Running")
        assert lab.job_id(new) != job


# --- a day's grace

def test_days_grace_neither_blocks_nor_drains_the_node(lab):
    pods = [running_pod(lab, cpu="100m", grace=86400, die_after="86400s", ns="team-b")[0] for _ in range(3)]
    nodes = {pod["spec"]["nodeName"] for pod in pods}
    job = lab.slurm.sbatch("--exclusive", f"--nodelist={','.join(sorted(nodes))}", f"--nodes={len(nodes)}", wrap="true")
    lab.slurm.scancel("--user=lab_bob")
    wait_state(lab, job, "COMPLETED", deadline=120)  # max_grace is 20 s here, limit 30 s
    assert not any("drain" in state for state in lab.slurm.nodes().values())
    for pod in pods:
        lab.wait_gone(pod)


# --- files

@contextlib.contextmanager
def spoiled(path, mode=None, owner=None):
    before = os.lstat(path)
    try:
        if mode is not None:
            os.chmod(path, mode)
        if owner is not None:
            os.chown(path, owner, -1)
        yield
    finally:
        os.chown(path, before.st_uid, before.st_gid)
        os.chmod(path, before.st_mode & 0o7777)


def starting(lab, name):
    """What an agent says that does not start, with the configuration of this one."""
    role = ["--controller"] if name == "controller" else ["--node", name]
    command = [f"{build_directory(lab)}/berthd", "--config", f"{lab.dir}/etc/berth-{name}.yaml", *role]
    as_user = {"user": "slurm", "group": "slurm", "extra_groups": []} if name == "controller" else {}
    try:
        done = subprocess.run(command, env={**os.environ, **lab.slurm.environment}, capture_output=True, text=True, timeout=20, check=False, **as_user)
    except subprocess.TimeoutExpired as error:
        raise AssertionError(f"berthd {' '.join(role)} started") from error
    assert done.returncode == 1, done
    return done.stdout + done.stderr


def test_agent_believes_no_file_that_others_can_change(lab):
    """Each file that decides whom it obeys or who it is: the wrong owner, writable or readable by others, in an open directory."""
    agents = {"controller": "berth-controller", "n1": "berth-node-n1"}
    lab.daemon("stop", "berthd:controller", "berthd:n1")
    for name, identity in agents.items():
        yaml, kubeconfig = f"{lab.dir}/etc/berth-{name}.yaml", f"{lab.dir}/kubernetes/identities/{identity}.kubeconfig"
        with open(kubeconfig, encoding="utf-8") as file:
            token = file.read().split('tokenFile: "')[1].split('"')[0]
        for path in (yaml, kubeconfig, token):
            for mode in (0o666, 0o664):
                with spoiled(path, mode=mode):
                    assert f"{path}: others may write to it" in starting(lab, name), path
            with spoiled(path, mode=0o444, owner=ALICE):
                assert f"{path}: belongs to uid {ALICE}" in starting(lab, name), path
            with spoiled(os.path.dirname(path), mode=0o777):
                assert "others may write to the directory" in starting(lab, name), path
        with spoiled(token, mode=0o444):
            assert f"{token}: everybody may read the secret" in starting(lab, name)
    key, run = f"{lab.dir}/etc/berth.key", f"{lab.run_dir}/n1"
    for mode in (0o644, 0o660):
        with spoiled(key, mode=mode):
            assert "mode 0640 or stricter" in starting(lab, "n1")
    with spoiled(key, owner=ALICE):
        assert "must belong to root" in starting(lab, "n1")
    for directory in (run, f"{run}/held"):
        with spoiled(directory, mode=0o777):
            assert "others than its owner may write there" in starting(lab, "n1")
        with spoiled(directory, owner=ALICE):
            assert f"belongs to uid {ALICE}" in starting(lab, "n1")
    lab.daemon("start", "berthd:controller", "berthd:n1")
    pod = lab.create(run_for="0s")
    lab.wait_phase(pod, "Succeeded")


def test_symlink_in_place_of_a_file_leads_nowhere(lab):
    lab.daemon("stop", "berthd:n1")
    key, run = f"{lab.dir}/etc/berth.key", f"{lab.run_dir}/n1"
    for path, complaint in ((key, "symbolic links"), (run, "is not a directory"), (f"{run}/held", "is not a directory")):
        os.rename(path, path + ".real")
        os.symlink(path + ".real", path)
        try:
            assert complaint in starting(lab, "n1"), path
        finally:
            os.unlink(path)
            os.rename(path + ".real", path)
    # What lies at the socket's path is replaced, not followed.
    precious = f"{lab.dir}/precious"
    with open(precious, "w", encoding="ascii") as file:
        file.write("mine")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{run}/agent.sock")
    os.symlink(precious, f"{run}/agent.sock")
    lab.daemon("start", "berthd:n1")
    with only_node(lab, "n1"):
        lab.wait_phase(lab.create(run_for="0s"), "Succeeded")
    with open(precious, encoding="ascii") as file:
        assert file.read() == "mine"
    assert not os.path.islink(f"{run}/agent.sock")


def test_berth_conf_that_others_can_change_is_not_believed(lab):
    path, text = berth_conf(lab)
    complaint = f"{path}: must belong to root or SlurmUser"

    def said(words):
        return lab.log("slurmctld").count(words)

    for words in ({"mode": 0o666}, {"owner": ALICE}):
        complaints, readings = said(complaint), said(f"berth: rules read from {path}")
        with spoiled(path, **words), changed_file(path, text + "AllowUsers=lab_bob\n"):
            wait_for(lambda: said(complaint) > complaints, 20, "slurmctld complains")
            lab.wait_phase(lab.create(run_for="0s"), "Succeeded")  # alice's: the rules before stay
        wait_for(lambda: said(f"berth: rules read from {path}") > readings, 20, "slurmctld believes it again")
