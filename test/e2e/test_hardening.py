"""Secrets stay where they are, servers prove who they are, and the agents work with no more rights than their unit gives them."""

import contextlib
import glob
import os
import re
import shlex
import signal
import socket
import ssl
import subprocess
import threading

from handover import SHORT_HOLD
from lab import Skip, wait_for
from test_guard import only_node
from test_tool import berth
from witness import running_pod, wait_state

HERE = os.path.dirname(os.path.abspath(__file__))
UNITS = os.path.join(HERE, "../../etc/systemd")
LAB = SHORT_HOLD


@contextlib.contextmanager
def other_kubeconfig(lab, name, text):
    """The agent has another kubeconfig meanwhile, a copy of its own with this text."""
    config = f"{lab.dir}/etc/berth-{name}.yaml"
    with open(config, encoding="utf-8") as file:
        before = file.read()
    path = f"{lab.dir}/etc/{name}.kubeconfig"
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    try:
        with open(config, "w", encoding="utf-8") as file:
            file.write(re.sub(r"kubeconfig: .*", f"kubeconfig: {path}", before))
        lab.daemon("restart", f"berthd:{name}")
        yield
    finally:
        with open(config, "w", encoding="utf-8") as file:
            file.write(before)
        lab.daemon("restart", f"berthd:{name}")


def kubeconfig(server, authority, user):
    return ("apiVersion: v1\nkind: Config\n"
            f"clusters: [{{name: lab, cluster: {{server: \"{server}\", certificate-authority: \"{authority}\"}}}}]\n"
            f"users: [{{name: me, user: {user}}}]\n"
            "contexts: [{name: lab, context: {cluster: lab, user: me}}]\ncurrent-context: lab\n")


# --- secrets

def secrets_of(lab):
    """Name -> text that must be nowhere but in its file and in its owner's memory."""
    paths = [f"{lab.dir}/etc/berth.key", f"{lab.dir}/kubernetes/identities/berth-controller.token",
             f"{lab.dir}/kubernetes/identities/berth-node-n1.token"]
    out = {}
    for path in paths:
        with open(path, encoding="ascii") as file:
            out[path] = file.read().strip()
    assert all(len(text) >= 16 for text in out.values())
    return out


def processes_of_agents(lab):
    pids = [int(lab.daemon("pid", name)) for name in lab.daemons() if name.startswith("berthd:")]
    for pid in list(pids):
        for path in glob.glob(f"/proc/{pid}/task/*/children"):
            with contextlib.suppress(OSError), open(path, encoding="ascii") as file:
                pids += [int(word) for word in file.read().split()]
    return pids


def test_secrets_are_in_no_log_command_line_environment_or_temporary_file(lab):
    """While pods come and go, refused ones too, and a credential program runs; the lab logs at level debug."""
    secrets = secrets_of(lab)
    program, trace = f"{lab.dir}/etc/credential", f"{lab.dir}/credential.trace"
    token = f"{lab.dir}/kubernetes/identities/berth-node-n1.token"
    with open(os.open(program, os.O_WRONLY | os.O_CREAT, 0o755), "w", encoding="ascii") as file:
        file.write(f"#!/bin/bash\n{{ env; tr '\\0' ' ' < /proc/$$/cmdline; tr '\\0' ' ' < /proc/$PPID/cmdline; ls -l /proc/$$/fd; }} >> {trace}\n"
                   'printf \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}\' '
                   f'"$(cat {token})"\n')
    user = f'{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: "{program}", interactiveMode: Never, provideClusterInfo: true}}}}'
    temporary = set(glob.glob("/tmp/*"))
    seen = []
    with other_kubeconfig(lab, "n1", kubeconfig(f"https://127.0.0.1:{lab.env['BERTH_LAB_PORT']}", f"{lab.dir}/kubernetes/ca.crt", user)):
        with only_node(lab, "n1"):
            pod, job = running_pod(lab)
            for pid in processes_of_agents(lab):
                for kind in ("cmdline", "environ"):
                    with contextlib.suppress(OSError), open(f"/proc/{pid}/{kind}", "rb") as file:
                        seen.append((f"/proc/{pid}/{kind}", file.read().decode(errors="replace")))
            lab.slurm.scancel(job)
            lab.wait_gone(pod)
            lab.wait_phase(lab.create(run_for="0s"), "Succeeded")
    assert os.path.exists(trace), "the credential program ran"
    files = glob.glob(f"{lab.dir}/log/*.log") + [trace, f"{lab.dir}/kubernetes/audit.log"]
    for top in set(glob.glob("/tmp/*")) - temporary:
        files += [top] if os.path.isfile(top) else [os.path.join(d, f) for d, _, names in os.walk(top) for f in names if not top.startswith(lab.dir)]
    for path in files:
        if os.path.isfile(path):  # unless somebody else removes it just now
            with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
                seen.append((path, file.read().decode(errors="replace")))
    assert len(seen) > 10
    for where, text in seen:
        for name, secret in secrets.items():
            assert secret not in text, f"{where} shows what is in {name}"
    with open(trace, encoding="utf-8") as file:
        assert "KUBERNETES_EXEC_INFO" in file.read()


def test_agents_leave_no_core_and_let_no_one_look_into_them(lab):
    """A process that is not dumpable writes no core, and what /proc shows of it is root's, although it is SlurmUser's."""
    pid = lab.daemon("pid", "berthd:controller")
    assert os.stat(f"/proc/{pid}/environ").st_uid == 0
    refused = subprocess.run(["cat", f"/proc/{pid}/mem", f"/proc/{pid}/environ"], user="slurm", group="slurm", extra_groups=[],
                             capture_output=True, text=True, check=False)
    assert refused.returncode != 0 and not refused.stdout and refused.stderr.count("Permission denied") == 2, refused.stderr


def spawn(script):
    """A child whose whole wait status can be had, for that has the kernel's own word on cores."""
    return os.posix_spawn("/bin/bash", ["bash", "-c", script], os.environ)


def left_a_core(pid):
    os.kill(pid, signal.SIGSEGV)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSEGV, status
    return os.WCOREDUMP(status)


def program(pid):
    return os.path.basename(os.readlink(f"/proc/{pid}/exe"))


def test_agents_that_crash_leave_no_core(lab):
    """Both roles, with no limit on the size of cores and where each may write. Wherever core_pattern would send a core, into a file or a program, the
    kernel tells the parent whether there was one; so the agents are the test's own children here."""
    directory = f"{lab.dir}/cores"
    os.makedirs(directory, exist_ok=True)
    os.chmod(directory, 0o1777)
    welcome = f"ulimit -c unlimited && cd {shlex.quote(directory)} || exit"
    trap = spawn(f"{welcome}; exec setpriv --reuid=slurm --regid=slurm --clear-groups sleep 1000")
    wait_for(lambda: program(trap) == "sleep", what="the trap is set")
    if not left_a_core(trap):
        raise Skip("this machine writes no cores at all")
    for file in glob.glob(f"{directory}/*"):
        os.unlink(file)
    names = ["berthd:n1", "berthd:controller"]
    lab.daemon("stop", *names)
    children = []
    try:
        for name in names:
            with open(f"{lab.dir}/daemons/{name}/run", encoding="utf-8") as file:
                text, count = re.subn(r"(?m)^cd .*$", lambda _: welcome, file.read())
            assert count == 1
            children.append(spawn(text))
        with only_node(lab, "n1"):  # they work, so they have read all that is secret
            lab.wait_phase(lab.create(run_for="0s"), "Succeeded")
        while children:
            assert program(children[-1]).endswith("berthd")
            assert not left_a_core(children.pop())
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        lab.daemon("start", *names)
    assert not os.listdir(directory)


# --- who the server is

class Impostor(threading.Thread):
    """Listens where the API server should be, with the given certificate, and keeps what callers say once they believe it."""

    def __init__(self, certificate=None, key=None):
        super().__init__(daemon=True)
        self.heard, self.calls, self.context = b"", 0, None
        if certificate:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(certificate, key)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.start()

    def run(self):
        while True:
            try:
                link, _ = self.listener.accept()
            except OSError:
                return
            self.calls += 1
            with contextlib.suppress(OSError, ssl.SSLError):
                link.settimeout(5)
                if self.context:
                    link = self.context.wrap_socket(link, server_side=True)
                self.heard += link.recv(10000)
            link.close()


def make_certificates(directory):
    """ca and stranger (authorities); good, expired and another's (for other.example), by ca; strange, by stranger."""
    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)
    for authority in ("ca", "stranger"):
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={authority}", "-keyout", f"{authority}.key", "-out",
                f"{authority}.crt")
    for name, authority, names, days in (("good", "ca", "IP:127.0.0.1", "2"), ("other", "ca", "DNS:other.example", "2"),
                                         ("strange", "stranger", "IP:127.0.0.1", "2"), ("expired", "ca", "IP:127.0.0.1", "-1")):
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=api", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        with open(f"{directory}/{name}.ext", "w", encoding="ascii") as file:
            file.write(f"subjectAltName={names}\n")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.crt", "-CAkey", f"{authority}.key", "-CAcreateserial", "-days", days,
                "-extfile", f"{name}.ext", "-out", f"{name}.crt")


def test_server_that_cannot_prove_its_name_hears_no_token(lab):
    directory = f"{lab.dir}/tls"
    os.makedirs(directory, exist_ok=True)
    make_certificates(directory)
    path = f"{directory}/kubeconfig"

    def call(server, impostor, words=""):
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
            file.write(kubeconfig(f"{server}:{impostor.port}", f"{directory}/ca.crt", "{token: very-secret}").replace("server:", words + "server:"))
        return berth(lab, "status", kubeconfig=path)

    good = Impostor(f"{directory}/good.crt", f"{directory}/good.key")
    call("https://127.0.0.1", good)
    assert b"very-secret" in good.heard, "the trap works: who proves its name is told the token"
    for name in ("strange", "other", "expired"):
        impostor = Impostor(f"{directory}/{name}.crt", f"{directory}/{name}.key")
        status, out, err = call("https://127.0.0.1", impostor)
        assert impostor.calls and not impostor.heard, name
        assert re.search("certificate|SSL", out + err), (name, status, out, err)
        impostor.listener.close()
    # Not even asked: no encryption beyond this machine, and nobody may turn the check off.
    plain = Impostor()
    _, out, err = call("http://192.0.2.1", plain)
    assert "plain http is refused" in out + err
    _, out, err = call("https://127.0.0.1", good, "insecure-skip-tls-verify: true, ")
    assert "insecure-skip-tls-verify" in out + err
    assert not plain.calls
    for one in (good, plain):
        one.listener.close()


# --- rights

def test_flow_schema_is_one_that_a_server_takes(lab):
    """A server before 1.29 knows an earlier version of the kind, with the same fields."""
    with open(os.path.join(UNITS, "../kubernetes/flowschema.yaml"), encoding="utf-8") as file:
        text = file.read()
    if lab.kube_minor < 29:
        text = text.replace("k8s.io/v1\n", "k8s.io/v1beta1\n")
    made = lab.kubectl("apply", "--dry-run=server", "-o", "name", "-f", "-", stdin=text)
    assert all(f"/{name}\n" in made for name in ("berth", "berth-leader-election")), made


def unit_settings():
    """The [Service] settings of the node's unit, and of the controller's with its drop-in."""
    out = {}
    for role, files in (("node", ["berthd.service"]), ("controller", ["berthd.service", "controller.conf"])):
        settings = out[role] = {}
        for name in files:
            with open(os.path.join(UNITS, name), encoding="utf-8") as file:
                for line in file:
                    if "=" in line and not line.startswith("#"):
                        key, _, value = line.strip().partition("=")
                        settings.setdefault(key, []).append(value)
    return out


def capabilities(lab, name):
    with open(f"/proc/{lab.daemon('pid', name)}/status", encoding="ascii") as file:
        status = dict(line.split(":\t", 1) for line in file if ":\t" in line)
    return {key: int(status[key], 16) for key in ("CapEff", "CapPrm", "CapBnd", "CapAmb")}, status["NoNewPrivs"].strip()


@contextlib.contextmanager
def confined(lab, name, bounding, writable):
    """The agent runs meanwhile as its unit would have it, as far as that is possible without systemd: the unit's bounding set, no new
    privileges, no core, its umask, and a file system that is read-only but for cgroups and its run directory."""
    run = f"{lab.dir}/daemons/berthd:{name}/run"
    with open(run, encoding="utf-8") as file:
        before = file.read()
    head, _, command = before.rstrip("\n").rpartition("\nexec ")
    drop = ["setpriv", "--no-new-privs", "--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all" + "".join(f",+{c}" for c in bounding)]
    if command.startswith("setpriv "):  # it becomes another user first, for which it needs rights
        words = shlex.split(command)
        at = words.index("--")
        drop = words[:at] + drop[1:] + ["--"]
        command = shlex.join(words[at + 1:])
    mounts = "; ".join(["set -e", f"mkdir -p {shlex.quote(writable)}", f"mount --bind {shlex.quote(writable)} {shlex.quote(writable)}",
                        "mount -o remount,bind,ro /", 'exec "$@"'])
    inner = ["unshare", "--mount", "--propagation=private", "sh", "-c", mounts, "sh", *drop]
    try:
        with open(run, "w", encoding="utf-8") as file:
            file.write(f"{head}\numask 0077\nulimit -c 0\nexec {shlex.join(inner)} {command}\n")
        lab.daemon("restart", f"berthd:{name}")
        wait_for(lambda: os.path.basename(os.readlink(f"/proc/{lab.daemon('pid', 'berthd:' + name)}/exe")).endswith("berthd"), what="it runs")
        yield
    finally:
        with open(run, "w", encoding="utf-8") as file:
            file.write(before)
        lab.daemon("restart", f"berthd:{name}")


@contextlib.contextmanager
def left_behind(lab, pod):
    """A process of lab_alice's in the pod's cgroups."""
    child = subprocess.Popen(["sleep", "1000"], user="lab_alice", group="lab_alice", extra_groups=[])
    try:
        for directory in lab.cgroups(pod):
            with open(f"{directory}/cgroup.procs", "w", encoding="ascii") as file:
                file.write(str(child.pid))
        assert child.pid in lab.processes(pod)
        yield child
    finally:
        child.kill()
        child.wait()


def test_agents_work_with_the_rights_of_their_units(lab):
    settings = unit_settings()
    for role in settings.values():
        assert role["NoNewPrivileges"] == ["yes"] and role["ProtectSystem"] == ["strict"] and role["LimitCORE"] == ["0"]
    bounding = {role: [c.removeprefix("CAP_").lower() for c in settings[role]["CapabilityBoundingSet"][-1].split()] for role in settings}
    assert bounding == {"node": ["kill"], "controller": []}
    kill = 1 << 5
    with confined(lab, "n1", bounding["node"], f"{lab.run_dir}/n1"), \
            confined(lab, "controller", bounding["controller"], f"{lab.run_dir}/controller"), only_node(lab, "n1"):
        sets, no_new = capabilities(lab, "berthd:n1")
        assert sets == {"CapEff": kill, "CapPrm": kill, "CapBnd": kill, "CapAmb": 0} and no_new == "1", sets
        sets, no_new = capabilities(lab, "berthd:controller")
        assert not any(sets.values()) and no_new == "1", sets
        lab.wait_phase(lab.create(run_for="0s"), "Succeeded")
        # Bounds the memory, freezes and thaws, holds the end, and kills what does not go.
        pod, job = running_pod(lab)
        lab.slurm.run("scontrol", "suspend", job)
        wait_for(lambda: lab.condition(pod, "berth.dev/Suspended").get("status") == "True", what="the pod is frozen")
        lab.slurm.run("scontrol", "resume", job)
        wait_for(lambda: lab.condition(pod, "berth.dev/Suspended").get("status") == "False", what="the pod goes on")
        lab.slurm.scancel(job)
        lab.wait_gone(pod)
        # What a broken kubelet leaves behind, the agent ends: a process of another user, for which alone it has its one right.
        pod, job = running_pod(lab, stuck=True)
        with left_behind(lab, pod) as child:
            lab.slurm.scancel(job)
            wait_for(lambda: child.poll() == -signal.SIGKILL, 60, "the agent has killed it")
        lab.wait_gone(pod)
        wait_state(lab, job, "CANCELLED")
    lab.wait_phase(lab.create(run_for="0s"), "Succeeded")
