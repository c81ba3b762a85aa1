"""SIGHUP, which `systemctl reload berthd` sends: a new configuration counts if it is good, and changes nothing if it is wrong. And what the
agents tell systemd, for which a socket of the test's own stands."""

import contextlib
import os
import re
import select
import shlex
import signal
import socket
import subprocess

from lab import wait_for

UNITS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../etc/systemd")


class Systemd:
    """The socket that a service of Type=notify is given; messages come as dicts."""

    def __init__(self, path):
        self.path, self.heard = path, []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        os.chmod(path, 0o777)

    def listen(self):
        while select.select([self.socket], [], [], 0)[0]:
            text = self.socket.recv(65536).decode()
            self.heard.append(dict(line.split("=", 1) for line in text.splitlines()))
        return self.heard

    def forget(self):
        self.listen()
        self.heard = []

    def status(self):
        return next((m["STATUS"] for m in reversed(self.listen()) if "STATUS" in m), "")

    def said(self, word):
        return sum(word in m for m in self.listen())


@contextlib.contextmanager
def under_systemd(lab, name, watchdog_seconds=None):
    """The agent runs meanwhile as a service that notifies; yields the Systemd."""
    systemd = Systemd(f"{lab.run_dir}/notify-{name}")
    run = f"{lab.dir}/daemons/berthd:{name}/run"
    with open(run, encoding="utf-8") as file:
        before = file.read()
    words = {"NOTIFY_SOCKET": systemd.path}
    if watchdog_seconds:
        words["WATCHDOG_USEC"] = str(watchdog_seconds * 1_000_000)
    exports = "".join(f"export {key}={shlex.quote(value)}\n" for key, value in words.items())
    try:
        with open(run, "w", encoding="utf-8") as file:
            file.write(before.replace("\nexec ", f"\n{exports}exec ", 1))
        lab.daemon("restart", f"berthd:{name}")
        wait_for(lambda: systemd.said("READY"), what="it is ready")
        yield systemd
    finally:
        with open(run, "w", encoding="utf-8") as file:
            file.write(before)
        lab.daemon("restart", f"berthd:{name}")
        systemd.socket.close()
        os.unlink(systemd.path)


@contextlib.contextmanager
def edited(lab, name):
    """Yields edit(function), which passes the agent's berth.yaml as it was through the function; it is put back, and counts again, at the end."""
    path = f"{lab.dir}/etc/berth-{name}.yaml"
    with open(path, encoding="utf-8") as file:
        before = file.read()

    def edit(change):
        text = change(before)
        assert text != before
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    try:
        yield edit
    finally:
        with open(path, "w", encoding="utf-8") as file:
            file.write(before)
        taken = lab.log(f"berthd:{name}").count("is good: starting anew")
        hang_up(lab, name)
        wait_for(lambda: lab.log(f"berthd:{name}").count("is good: starting anew") > taken, what=f"{name} has its own configuration again")


def hang_up(lab, name):
    os.kill(int(lab.daemon("pid", f"berthd:{name}")), signal.SIGHUP)


def unit_commands(setting, *files):
    """What systemd runs for ExecReload or the like with this unit and its drop-ins: an empty one forgets those before it."""
    commands = []
    for name in files:
        with open(os.path.join(UNITS, name), encoding="utf-8") as file:
            for line in file:
                key, _, value = line.strip().partition("=")
                if key == setting:
                    commands = commands + [value] if value else []
    return commands


def systemctl_reload(lab, name):
    """Runs the unit's own commands, as the unit's user and with the paths of the lab, until one fails as systemd does: (status, what it said)."""
    commands = unit_commands("ExecReload", "berthd.service", *(["controller.conf"] if name == "controller" else []))
    assert len(commands) == 2, commands
    with open(f"{lab.dir}/daemons/berthd:{name}/run", encoding="utf-8") as file:
        berthd = re.search(r"(\S*/berthd) --config (\S+)", file.read())
    for command in commands:
        words = shlex.split(command.replace("%l", name).replace("$MAINPID", lab.daemon("pid", f"berthd:{name}")))
        if words[0] == "/usr/sbin/berthd":
            words = [berthd[1], "--config", berthd[2], *words[1:]]
            if name == "controller":
                words = ["setpriv", "--reuid=slurm", "--regid=slurm", "--init-groups", *words]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60, env=lab.env)
        if done.returncode != 0:
            break
    return done.returncode, done.stdout + done.stderr


def test_systemctl_reload_fails_where_the_agent_keeps_the_old_configuration(lab):
    """The commands are those in etc/systemd; what they try must not be less than what the agent tries."""
    for drop_ins in ([], ["controller.conf"], ["node.conf"]):
        [start] = unit_commands("ExecStart", "berthd.service", *drop_ins)
        assert unit_commands("ExecReload", "berthd.service", *drop_ins)[1] == start.replace("berthd", "berthd --check-config", 1), drop_ins
    for name in ("controller", "n1"):
        with edited(lab, name) as edit:
            taken = lab.log(f"berthd:{name}").count("is good: starting anew")
            refused = lab.log(f"berthd:{name}").count("is not used")
            wrong = [("a key that nobody knows", lambda text: text + "tenents: []\n", r"berth-\S+\.yaml:\d+: .*tenents"),
                     ("no kubeconfig", lambda text: re.sub("kubeconfig: .*", "kubeconfig: /nonexistent/kubeconfig", text), "/nonexistent/kubeconfig: No such file"),
                     ("a kubeconfig that is none", lambda text: re.sub("kubeconfig: .*", f"kubeconfig: {lab.dir}/kubernetes/ca.crt", text), "ca.crt")]
            if name == "controller":
                wrong.append(("no directory", lambda text: re.sub("notify_socket: .*", "notify_socket: /nonexistent/notify.sock", text), "notify_socket: /nonexistent/: No such"))
            else:
                wrong.append(("no key", lambda text: re.sub("key_file: .*", "key_file: /nonexistent/key", text), "/nonexistent/key: No such"))
            for what, change, words in wrong:
                edit(change)
                status, said = systemctl_reload(lab, name)
                assert status == 1 and re.search(words, said) and len(said.splitlines()) == 1, (name, what, status, said)
                refused += 1
                wait_for(lambda refused=refused: lab.log(f"berthd:{name}").count("is not used") == refused, what=f"{name} keeps the old one: {what}")
                assert re.search(words, [line for line in lab.log(f"berthd:{name}").splitlines() if "is not used" in line][-1]), "both say the same"
            # One that others may write is not believed, however good it is.
            edit(lambda text: text.replace("log_level: debug", "log_level: info"))
            path = f"{lab.dir}/etc/berth-{name}.yaml"
            os.chmod(path, 0o666)
            try:
                status, said = systemctl_reload(lab, name)
            finally:
                os.chmod(path, 0o644)
            assert status == 1 and path in said, (name, status, said)
            wait_for(lambda refused=refused: lab.log(f"berthd:{name}").count("is not used") == refused + 1, what=f"{name} does not believe it either")
            status, said = systemctl_reload(lab, name)
            assert status == 0 and ": ok" in said, (name, status, said)
            wait_for(lambda: lab.log(f"berthd:{name}").count("is good: starting anew") == taken + 1, what=f"{name} has taken the good one")


def test_good_change_counts_and_pods_run_on(lab):
    pod = lab.create(run_for="300s")
    lab.wait_phase(pod, "Running")
    job, node = lab.job_id(pod), lab.get(pod)["spec"]["nodeName"]
    pids = {name: lab.daemon("pid", f"berthd:{name}") for name in ("controller", node)}
    with edited(lab, "controller") as edit_controller, edited(lab, node) as edit_node:
        edit_controller(lambda text: re.sub(".*namespace: team-b.*\n", "", text))
        edit_node(lambda text: text.replace("log_level: debug", "log_level: info"))
        before = len(lab.log(f"berthd:{node}"))
        for name in pids:
            hang_up(lab, name)
        wait_for(lambda: "is served" in lab.log(f"berthd:{node}")[before:], what="the node's agent has started anew")
        # A namespace that is nobody's any more.
        homeless = wait_for(lambda: lab.create(ns="team-b", run_for="0s"))
        wait_for(lambda: "team-b" in lab.condition(homeless, "PodScheduled").get("message", ""), what="the pod is told that its namespace has no user")
        lab.wait_phase(lab.create(run_for="0s"), "Succeeded")
        assert "debug:" not in lab.log(f"berthd:{node}")[before:].partition("starting anew")[2], "the new log_level counts"
        assert {name: lab.daemon("pid", f"berthd:{name}") for name in pids} == pids, "they are the same processes"
    # And one that is somebody's again.
    lab.wait_phase(homeless, "Succeeded")
    # The running pod has noticed nothing, and its end still reaches Slurm.
    assert lab.phase(pod) == "Running" and lab.slurm.job_state(job) == "RUNNING"
    lab.slurm.scancel(job)
    lab.wait_gone(pod)


def test_wrong_change_is_told_and_leaves_everything_running(lab):
    pod = lab.create(run_for="300s")
    lab.wait_phase(pod, "Running")
    node = lab.get(pod)["spec"]["nodeName"]
    for name in ("controller", node):
        with under_systemd(lab, name) as systemd, edited(lab, name) as edit:
            wait_for(lambda: lab.phase(pod) == "Running")
            pid = lab.daemon("pid", f"berthd:{name}")
            started = lab.log(f"berthd:{name}").count("starting anew")
            for change, words in ((lambda text: text + "tenents: []\n", r"berth-\S+\.yaml:\d+: .*tenents"),
                                  (lambda text: re.sub("kubeconfig: .*", "kubeconfig: /nonexistent/kubeconfig", text), "/nonexistent/kubeconfig")):
                edit(change)
                systemd.forget()
                hang_up(lab, name)
                wait_for(lambda words=words: re.search("the new configuration is not used: .*" + words, systemd.status()), what=f"{name}: {words}")
                assert [set(m) & {"RELOADING", "READY"} for m in systemd.listen() if {"RELOADING", "READY"} & set(m)] == [{"RELOADING"}, {"READY"}]
                assert re.search("SIGHUP: the new configuration is not used, the old one counts on: .*" + words, lab.log(f"berthd:{name}"))
            lab.wait_phase(lab.create(run_for="0s"), "Succeeded")
            assert lab.daemon("pid", f"berthd:{name}") == pid and lab.log(f"berthd:{name}").count("starting anew") == started
            # What is mended counts, and the complaint goes away.
            edit(lambda text: text.replace("log_level: debug", "log_level: info"))
            hang_up(lab, name)
            wait_for(lambda: "not used" not in systemd.status(), what="the status is new")
    assert lab.phase(pod) == "Running"
    lab.delete(pod)
    lab.wait_gone(pod)


def test_watchdog_hears_from_both_roles_also_after_a_reload(lab):
    for name in ("controller", "n1"):
        with under_systemd(lab, name, watchdog_seconds=2) as systemd:
            wait_for(lambda: systemd.said("WATCHDOG") >= 3, what="it is alive")
            # The same after a reload: systemd goes on counting.
            hang_up(lab, name)
            wait_for(lambda: systemd.said("RELOADING") and systemd.said("READY") >= 2, what="it has started anew")
            systemd.forget()
            wait_for(lambda: systemd.said("WATCHDOG") >= 2, what="it is alive again")
