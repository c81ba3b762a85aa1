"""The tool for people: berth explain, berth doctor, berth status."""

import base64
import contextlib
import json
import os
import re
import subprocess
import tempfile

from gangs import create_group, join_group
from lab import wait_for
from witness import asking, fill, running_pod, wait_state, wait_unschedulable, waiting_pod


def berth(lab, *words, config=None, user=None, stdin=None, kubeconfig=None):
    """(exit status, what it printed, what it complained about), with the controller's configuration unless another is named."""
    command = ["berth", *words] + ["--config", config or f"{lab.dir}/etc/berth-controller.yaml"] * (config != "none")
    as_user = {"user": user, "group": user, "extra_groups": []} if user else {}
    environment = {**os.environ, **lab.env, **({"KUBECONFIG": kubeconfig} if kubeconfig else {})}
    done = subprocess.run(command, env=environment, cwd="/tmp", capture_output=True, text=True, timeout=100, check=False, input=stdin,
                          **as_user)
    return done.returncode, done.stdout, done.stderr


def explain(lab, pod, **how):
    """The story of a pod as -o json has it."""
    status, out, err = berth(lab, "explain", f"{pod['metadata']['namespace']}/{pod['metadata']['name']}", "-o", "json", **how)
    assert status == 0, err
    return json.loads(out)


def told(lab, pod, verdict):
    """The story, once it has come to this."""
    return wait_for(lambda: (story := explain(lab, pod))["verdict"] == verdict and story, what=f"the pod's story is {verdict}", interval=0.2)


# --- berth explain NS/POD

def test_running_pod_is_told_its_node_and_job(lab):
    pod, job = running_pod(lab, ns="team-a")
    story = explain(lab, pod)
    assert story["verdict"] == "running" and story["node"] == pod["spec"]["nodeName"]
    assert [j["id"] for j in story["jobs"]] == [job] and story["jobs"][0]["user"] == "lab_alice"


def test_waiting_pod_is_told_reason_and_what_is_ahead(lab):
    pod, job = waiting_pod(lab)
    ahead = lab.slurm.sbatch("--nodes=3", "--exclusive", "--priority=4294967000")
    wait_for(lambda: lab.slurm.job(job)["Reason"] != "None", what="slurmctld has looked at the job")
    story = wait_for(lambda: (s := explain(lab, pod))["ahead"] == 1 and s, what="a job is ahead", interval=0.2)
    assert story["verdict"] == "pending" and story["jobs"][0]["id"] == job and story["jobs"][0]["state"] == "PENDING"
    status, text, _ = berth(lab, "explain", pod["metadata"]["name"])
    assert status == 0 and f"job {job} is pending" in text and "1 pending job of higher priority" in text
    assert text.rstrip().splitlines()[-1].startswith("What to do: ")
    lab.slurm.scancel(ahead)


def test_held_job_names_the_command_that_lets_it_go(lab):
    pod, job = waiting_pod(lab)
    lab.slurm.run("scontrol", "hold", job)
    story = wait_for(lambda: (s := explain(lab, pod))["jobs"][0]["reason"].startswith("JobHeld") and s, what="the hold is seen", interval=0.2)
    assert f"scontrol release {job}" in story["advice"]


def test_refused_pod_is_told_what_its_condition_says(lab):
    pod = lab.create(annotations=asking(partition="secret"))
    wait_unschedulable(lab, pod, '"secret"')
    story = explain(lab, pod)
    assert story["verdict"] == "refused" and '"secret"' in story["summary"] and not story["jobs"]


def test_job_that_slurm_refuses_is_no_end(lab):
    pod = lab.create(cpu=9)
    wait_unschedulable(lab, pod, "not available")
    assert explain(lab, pod)["verdict"] == "refused"


def test_other_scheduler_and_absence_are_told(lab):
    assert explain(lab, lab.create(scheduler="default-scheduler"))["verdict"] == "other_scheduler"
    assert explain(lab, lab.pod(name="never-was"))["verdict"] == "absent"


def test_gathering_gang_is_told_how_many_are_there(lab):
    group = create_group(lab, 3)
    pods = join_group(lab, group, 2)
    assert "2 of 3 are there" in told(lab, pods[0], "gathering")["summary"]


def test_gang_finds_its_common_job(lab):
    fill(lab)
    pods = join_group(lab, create_group(lab, 2), 2)
    first, second = told(lab, pods[0], "pending"), told(lab, pods[1], "pending")
    assert first["jobs"][0]["id"] == second["jobs"][0]["id"]
    assert any("2 pods that start together" in d["text"] for d in first["details"])


def test_pod_without_a_controller_asks_for_it(lab):
    lab.daemon("stop", "berthd:controller")
    story = told(lab, lab.create(), "unseen")
    assert "created" in story["summary"] or "controller" in story["advice"]
    lab.daemon("start", "berthd:controller")


def test_job_without_its_pod_points_to_the_node(lab):
    for node in lab.nodes:
        lab.daemon("stop", f"berthd:{node}")
    pod = lab.create()
    story = told(lab, pod, "unbound")
    assert story["jobs"][0]["state"] == "RUNNING" and story["jobs"][0]["nodes"] in story["summary"]
    for node in lab.nodes:
        lab.daemon("start", f"berthd:{node}")
    told(lab, pod, "running")


def test_pod_that_slurm_ended_is_told_how(lab):
    pod, job = running_pod(lab)
    lab.slurm.scancel(job)
    lab.wait_gone(pod)
    wait_state(lab, job, "CANCELLED")
    story = explain(lab, pod)
    assert story["verdict"] == "absent" and "CANCELLED" in story["summary"] and f"sacct -j {job}" in story["advice"]


def test_finished_pod_needs_nothing(lab):
    pod = lab.create(run_for="0s", exit_code=3)
    lab.wait_phase(pod, "Failed")
    story = explain(lab, pod)
    assert story["verdict"] == "finished" and "exit code 3" in story["summary"] and "kubectl logs" in story["advice"]


@contextlib.contextmanager
def reader_of(lab, ns):
    """A kubeconfig, readable by everybody, of somebody who may read the pods of one namespace and nothing else."""
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}"
    lab.kube.post(f"/api/v1/namespaces/{ns}/serviceaccounts", {"metadata": {"name": "reader"}})
    lab.kube.post(f"{rbac}/roles", {"metadata": {"name": "reader"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]})
    lab.kube.post(f"{rbac}/rolebindings", {"metadata": {"name": "reader"},
                                           "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
                                           "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": ns}]})
    with open(f"{lab.dir}/kubernetes/ca.crt", "rb") as file:
        authority = base64.b64encode(file.read()).decode()
    credentials = {"apiVersion": "v1", "kind": "Config", "current-context": "x",
                   "clusters": [{"name": "x", "cluster": {"server": f"https://127.0.0.1:{lab.env['BERTH_LAB_PORT']}",
                                                          "certificate-authority-data": authority}}],
                   "users": [{"name": "x", "user": {"token": lab.account_token(ns, "reader")}}],
                   "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}]}
    try:
        with tempfile.NamedTemporaryFile("w", suffix=".kubeconfig") as file:
            json.dump(credentials, file)
            file.flush()
            os.chmod(file.name, 0o644)
            yield file.name
    finally:
        lab.kube.delete(f"{rbac}/rolebindings/reader")
        lab.kube.delete(f"{rbac}/roles/reader")
        lab.kube.delete(f"/api/v1/namespaces/{ns}/serviceaccounts/reader")


def test_ordinary_user_gets_what_the_own_rights_allow(lab):
    pod, job = waiting_pod(lab, ns="team-a")
    with reader_of(lab, "team-a") as kubeconfig:
        story = explain(lab, pod, user="lab_alice", kubeconfig=kubeconfig, config="none")
        assert story["verdict"] == "pending" and story["jobs"][0]["id"] == job
        status, out, _ = berth(lab, "status", "-o", "json", user="lab_alice", kubeconfig=kubeconfig, config="none")
        seen = json.loads(out)
        assert status == 0 and len(seen["notes"]) == 2 and seen["nodes"][0]["kubernetes"] == "?"
        assert [w["job"] for w in seen["workloads"]] == [job]
        status, _, err = berth(lab, "explain", "team-b/x", user="lab_alice", kubeconfig=kubeconfig, config="none")
        assert status == 1 and "forbidden" in err


# --- berth explain -f

def forecast(lab, pod, **how):
    """(exit status, the answer) for a workload that is not created."""
    status, out, err = berth(lab, "explain", "-f", "-", "-o", "json", stdin=json.dumps(pod), **how)
    assert out, err
    return status, json.loads(out)


def test_dry_run_says_when_and_where_and_makes_nothing(lab):
    jobs = lab.slurm.jobs()
    status, answer = forecast(lab, lab.pod(ns="team-a", cpu="1500m", memory="64Mi", annotations=asking(timelimit="90")))
    part, = answer["parts"]
    assert status == 0 and answer["verdict"] == "now" and part["nodes"] in lab.nodes and answer["asked_as"] == "lab_alice"
    assert (part["user"], part["partition"], part["cpus_per_pod"], part["memory_mib_per_pod"], part["time_limit_minutes"]) == (
        "lab_alice", "main", 2, 64, 90)
    assert lab.slurm.jobs() == jobs and not lab.pods()


def test_dry_run_behind_a_native_job_says_later(lab):
    fill(lab, "--time=10")
    status, answer = forecast(lab, lab.pod())
    assert status == 0 and answer["verdict"] == "later" and answer["parts"][0]["start"]


def test_dry_run_of_what_can_never_start_says_what_to_change(lab):
    status, answer = forecast(lab, lab.pod(cpu=9))
    assert status == 1 and answer["verdict"] == "never" and "fewer CPUs" in answer["advice"]
    status, answer = forecast(lab, lab.pod(annotations=asking(partition="secret")))
    assert status == 1 and answer["verdict"] == "refused" and '"secret"' in answer["summary"]
    status, answer = forecast(lab, lab.pod(scheduler="default-scheduler"))
    assert status == 1 and answer["verdict"] == "other_scheduler"


def test_dry_run_counts_taints_and_labels(lab):
    pod = lab.pod()
    pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n2"}
    status, answer = forecast(lab, pod)
    assert status == 0 and answer["parts"][0]["nodes"] == "n2"


def test_dry_run_as_an_ordinary_user_asks_in_the_own_name(lab):
    status, answer = forecast(lab, lab.pod(ns="team-b"), user="lab_alice", kubeconfig="/nonexistent")
    assert status == 0 and answer["asked_as"] == "lab_alice" and answer["parts"][0]["user"] == "lab_bob"
    assert any("lab_bob" in note for note in answer["notes"])
    status, answer = forecast(lab, lab.pod(ns="nobodys"), user="lab_alice", kubeconfig="/nonexistent", config="none")
    assert status == 0 and answer["parts"][0]["user"] == "lab_alice"


def test_dry_run_of_a_gang_asks_for_all_of_it(lab):
    job = {"apiVersion": "batch/v1", "kind": "Job",
           "metadata": {"name": "ring", "namespace": "team-a", "annotations": {"berth.dev/gang": "true"}},
           "spec": {"parallelism": 6, "template": {"spec": lab.pod(cpu=4)["spec"]}}}
    status, answer = forecast(lab, job)
    assert status == 0 and answer["pods"] == 6 and answer["parts"][0]["nodes"] == "n[1-3]", answer


# --- berth doctor

def doctor(lab, config=None):
    """(exit status, {check: the worst finding of it})."""
    status, out, err = berth(lab, "doctor", "-o", "json", config=config)
    assert out, err
    worst = {}
    for finding in json.loads(out)["findings"]:
        grades = ("ok", "warning", "problem")
        if grades.index(finding["grade"]) >= grades.index(worst.get(finding["check"], {"grade": "ok"})["grade"]):
            worst[finding["check"]] = finding
    return status, worst


@contextlib.contextmanager
def changed(path, *replacements):
    """A file with some of its text replaced, for as long as this lasts."""
    with open(path, encoding="utf-8") as file:
        before = file.read()
    after = before
    for old, new in replacements:
        assert old in after, old
        after = after.replace(old, new)
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(after)
        yield
    finally:
        with open(path, "w", encoding="utf-8") as file:
            file.write(before)


def fault_in_config(lab, old, new):
    """What the doctor finds when berth.yaml differs from the rest of the lab."""
    with open(f"{lab.dir}/etc/berth-controller.yaml", encoding="utf-8") as file:
        text = file.read()
    assert old in text, old
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text.replace(old, new))
        file.flush()
        return doctor(lab, file.name)


def test_doctor_finds_nothing_wrong_with_the_lab(lab):
    status, found = doctor(lab)
    assert status == 0, [f for f in found.values() if f["grade"] == "problem"]
    for check in ("berth_yaml", "key_file", "berth_conf", "bridge_user", "agents", "versions", "job_submit_plugins", "prolog_flags",
                  "disable_job_shrink", "select_type", "min_job_age", "plugstack", "run_dir", "plugin_file", "hold", "gate",
                  "prolog_epilog_timeout", "api_server", "rights", "pod_group_crd", "pairs", "api_server_clock", "slurmctld_clock"):
        assert found[check]["grade"] == "ok", found[check]
    status, text, _ = berth(lab, "doctor")
    assert status == 0 and "0 problems" in text.splitlines()[-1]


@contextlib.contextmanager
def reconfigured_after(lab):
    try:
        yield
    finally:
        lab.slurm.run("scontrol", "reconfigure")


def test_doctor_names_faults_of_slurm_conf(lab):
    with reconfigured_after(lab), changed(f"{lab.dir}/etc/slurm.conf", ("SchedulerParameters=disable_job_shrink", "SchedulerParameters=bf_interval=30"),
                 ("MinJobAge=300", "MinJobAge=9"), ("InactiveLimit=0", "InactiveLimit=60"),
                 ("PrologEpilogTimeout=300", "PrologEpilogTimeout=110")):
        lab.slurm.run("scontrol", "reconfigure")
        status, found = doctor(lab)
    assert status == 1
    for check in ("disable_job_shrink", "min_job_age", "prolog_epilog_timeout"):
        assert found[check]["grade"] == "problem" and found[check]["advice"], found[check]
    assert found["inactive_limit"]["grade"] == "warning"


def test_doctor_names_a_plugin_that_is_not_loaded(lab):
    with reconfigured_after(lab), changed(f"{lab.dir}/etc/slurm.conf", ("JobSubmitPlugins=berth\n", "")):
        lab.slurm.run("scontrol", "reconfigure")
        status, found = doctor(lab)
    assert status == 1 and found["job_submit_plugins"]["grade"] == "problem" and "JobSubmitPlugins" in found["job_submit_plugins"]["advice"]
    with changed(f"{lab.dir}/etc/plugstack.conf", ("required", "#")):
        status, found = doctor(lab)
    assert status == 1 and found["plugstack"]["grade"] == "problem", "steps, ends and the gate need it"
    # Loaded, but told of another table: then no placeholder is guarded.
    status, found = fault_in_config(lab, "controller/placeholders", "controller/elsewhere")
    assert status == 1 and found["placeholder_table"]["grade"] == "problem"


@contextlib.contextmanager
def plugin_of_another_slurm(path):
    """The plugin says meanwhile that it was made for the next minor version."""
    symbols = subprocess.run(["nm", "-D", path], capture_output=True, text=True, check=True).stdout
    at = int(re.search(r"^(\w+) R plugin_version$", symbols, re.M).group(1), 16)  # of read-only data: the place in the file too
    with open(path, "rb") as file:
        before = file.read()
    after = bytearray(before)
    after[at] += 1
    try:
        with open(path, "wb") as file:
            file.write(after)
        yield
    finally:
        with open(path, "wb") as file:
            file.write(before)


def test_doctor_says_what_to_install_for_another_slurm(lab):
    """Also where slurmctld does not start because of it."""
    lab.daemon("stop", "slurmctld")
    try:
        with plugin_of_another_slurm(f"{lab.dir}/plugins/job_submit_berth.so"):
            lab.daemon("start", "slurmctld")
            wait_for(lambda: lab.daemons()["slurmctld"] == "stopped", what="slurmctld refuses the plugin")
            status, found = doctor(lab)
    finally:
        lab.daemon("start", "slurmctld")
    version = re.search(r"[\d.]+", lab.slurm.run("slurmctld", "-V")).group()
    assert status == 1 and found["slurmctld"]["grade"] == "problem"
    assert f"slurmctld is {version}: slurmctld does not start with it" in found["plugin_file"]["text"], found["plugin_file"]
    assert f"slurm-plugins-berth that was built for Slurm {version}" in found["plugin_file"]["advice"], found["plugin_file"]
    wait_for(lambda: doctor(lab)[0] == 0, what="all is well again")


def test_doctor_names_faults_of_plugstack_conf(lab):
    path = f"{lab.dir}/etc/plugstack.conf"
    with changed(path, ("required", "optional"), ("gate=100", "gate=90")):
        status, found = doctor(lab)
    assert status == 1 and found["plugstack"]["grade"] == found["gate"]["grade"] == "problem"
    with changed(path, ("required", "#")):
        assert "spank_berth.so" in doctor(lab)[1]["plugstack"]["advice"]


def test_doctor_names_what_does_not_agree(lab):
    for old, new, check in ((f"{lab.dir}/etc/berth.key", "/nonexistent/key", "key_file"), (f"{lab.run_dir}/%n", "/run/elsewhere", "run_dir"),
                            ("controller/notify.sock", "controller/other.sock", "notify_socket"), ("api_down: 60s", "api_down: 600s", "hold"),
                            ("user: lab_bob", "user: nobody-here", "tenants"), ("reconcile: 5s", "reconcile: 151s", "min_job_age"),
                            ("berth-controller.kubeconfig", "berth-node-n1.kubeconfig", "rights")):
        status, found = fault_in_config(lab, old, new)
        assert status == 1 and found[check]["grade"] == "problem" and found[check]["advice"], (check, found.get(check))


def test_doctor_names_the_key_that_others_can_read(lab):
    key = f"{lab.dir}/etc/berth.key"
    os.chmod(key, 0o644)
    try:
        assert "0644" in doctor(lab)[1]["key_file"]["text"]
    finally:
        os.chmod(key, 0o640)


def test_doctor_names_the_agent_that_is_away(lab):
    lab.daemon("stop", "berthd:n2")
    status, found = doctor(lab)
    lab.daemon("start", "berthd:n2")
    assert status == 1 and "node n2" in found["agents"]["text"]
    wait_for(lambda: doctor(lab)[0] == 0, what="the agent is back", interval=0.2)


def test_doctor_names_nodes_that_are_in_one_system_alone(lab):
    lab.kube.post("/api/v1/nodes", {"metadata": {"name": "stranger"}})
    try:
        status, found = doctor(lab)
        assert status == 0 and found["pairs"]["grade"] == "warning" and "stranger" in found["pairs"]["text"]
    finally:
        lab.kube.delete("/api/v1/nodes/stranger")


def test_doctor_without_slurmctld_says_so(lab):
    lab.daemon("stop", "slurmctld")
    try:
        status, found = doctor(lab)
        assert status == 1 and found["slurmctld"]["grade"] == "problem" and found["api_server"]["grade"] == "ok"
    finally:
        lab.daemon("start", "slurmctld")


# --- berth status

def test_status_shows_both_sides(lab):
    native = lab.slurm.sbatch("--nodelist=n1", "--cpus-per-task=2")
    wait_state(lab, native, "RUNNING")
    pod, job = running_pod(lab, ns="team-a", cpu=3)
    node = pod["spec"]["nodeName"]
    refused = lab.create(annotations=asking(partition="secret"))
    wait_unschedulable(lab, refused, '"secret"')
    status, out, _ = berth(lab, "status", "-o", "json")
    seen = json.loads(out)
    nodes = {n["name"]: n for n in seen["nodes"]}
    assert status == 0 and sorted(nodes) == lab.nodes and not seen["notes"]
    assert nodes["n1"]["native_jobs"] == 1 and nodes[node]["pods"] == 1 and nodes[node]["kubernetes"] == "ready"
    assert sum(n["cpus_allocated"] for n in seen["nodes"]) == 5
    rows = {w["name"]: w for w in seen["workloads"]}
    ours, other = rows[pod["metadata"]["name"]], rows[refused["metadata"]["name"]]
    assert (ours["job"], ours["state"], ours["nodes"], ours["bound"], ours["pods"]) == (job, "RUNNING", node, 1, 1)
    assert (other["job"], other["state"]) == (0, "Refused") and '"secret"' in other["reason"]
    status, text, _ = berth(lab, "status", "-n", "team-a")
    assert status == 0 and text.startswith("NODE") and f"team-a/{pod['metadata']['name']}" in text and refused["metadata"]["name"] not in text


def test_status_shows_drained_and_cordoned(lab):
    lab.slurm.update("NodeName=n3", "State=DRAIN", "Reason=bad disk")
    lab.kube.patch("/api/v1/nodes/n2", {"spec": {"unschedulable": True}})
    try:
        _, text, _ = berth(lab, "status")
        lines = {line.split()[0]: line for line in text.splitlines() if line}
        assert "+drain" in lines["n3"] and "bad disk" in lines["n3"] and "cordoned" in lines["n2"]
    finally:
        lab.kube.patch("/api/v1/nodes/n2", {"spec": {"unschedulable": None}})
        lab.slurm.resume("n3")
    wait_for(lambda: set(lab.slurm.nodes().values()) == {"idle"}, what="both sides use all nodes again")
