"""Faults: does to a lab what a step says, for as long as it says, and undoes it.

Each fault runs in a thread of its own; two for the same target follow each other. prepare() makes a lab ready for them: every agent
reaches both servers through links, and every agent's run directory is a small file system of its own, so that filling it fills
nothing else. A controller is in a network of its own, where links stand for both servers; so slurmctld, too, reaches its doorbell only
through a link.
"""

import json
import os
import re
import shutil
import subprocess
import threading
import time
import urllib.request

from lab import wait_for
from link import Network
from schedule import CONTROLLERS

# A server that was hit must answer again before the storm goes on: how long it takes to start is the machine's affair.
SERVERS = ("kube-apiserver", "etcd", "slurmctld", "munged")
BACK_WITHIN = 180
RUN_DIR_SIZE = "16m"  # marks of ended jobs stay for a day, so a long storm needs room for them
FILL = "filler"


class Faults:
    def __init__(self, lab, links, say):
        self._lab, self._say = lab, say
        self._links = {}
        self._locks, self._threads, self._guard = {}, [], threading.Lock()
        self._mounts, self._networks = [], []
        self.counts, self.trouble = {}, []
        self._coming = 0  # servers that were hit and do not answer yet
        self.prepare(links)

    # --- the lab

    def prepare(self, links):
        port = int(self._lab.env["BERTH_LAB_PORT"])
        agents = CONTROLLERS + self._lab.nodes
        self._lab.daemon("stop", "slurmctld", *[f"berthd:{agent}" for agent in agents])
        for number, controller in enumerate(CONTROLLERS):
            self.isolate(links, controller, port, port + 20 + number)
            self.own_file_system(controller, "slurm")
        for number, node in enumerate(self._lab.nodes):
            self._links[f"api:{node}"] = links.open(port + 300 + number, port)
            self._links[f"slurm:{node}"] = links.open(port + 400 + number, port + 10)
            self.send_through(node, port, port + 300 + number, port + 400 + number)
            self.own_file_system(node, "root")
        self._lab.daemon("start", "slurmctld")  # its plugin follows a directory that is another one now
        wait_for(self._lab.slurm.nodes, BACK_WITHIN, "slurmctld answers", 0.2)
        self._lab.daemon("start", *[f"berthd:{agent}" for agent in agents])

    def isolate(self, links, controller, port, doorbell):
        """Puts a controller into a network of its own. The links have the servers' ports there, so its configuration stays as it is."""
        network = Network(f"{self._lab.run_dir}/{controller}.net")
        self._networks.append(network)
        self._links[f"api:{controller}"] = links.open(port, port, network=network)
        self._links[f"slurm:{controller}"] = links.open(port + 10, port + 10, network=network)
        self._links[f"doorbell:{controller}"] = links.open(doorbell, doorbell, server_network=network, lossy=True)
        replace(f"{self._lab.dir}/daemons/berthd:{controller}/run", "exec setpriv", f"exec nsenter --net={network.path} setpriv")

    def own_file_system(self, agent, owner):
        directory = f"{self._lab.run_dir}/{agent}"
        subprocess.run(["rm", "-rf", directory], check=True)
        os.mkdir(directory, 0o755)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={RUN_DIR_SIZE},mode=755", "berth-chaos", directory], check=True)
        shutil.chown(directory, owner, owner)
        self._mounts.append(directory)

    def sent(self, controller, received):
        """The earliest time at which what the API server received from a controller then may have been sent."""
        link = self._links.get(f"api:{controller}")
        return link.sent(received) if link else received

    def rings(self):
        """How often slurmctld rang at a controller, and how often in vain."""
        doorbells = [link for name, link in self._links.items() if name.startswith("doorbell:")]
        return {"rings": sum(link.carried for link in doorbells), "rings lost": sum(link.lost for link in doorbells)}

    def send_through(self, agent, port, api_port, slurm_port):
        """Points a node's agent's kubeconfig and slurm.conf to its links."""
        name = f"berth-node-{agent}"
        replace(f"{self._lab.dir}/kubernetes/identities/{name}.kubeconfig", f"127.0.0.1:{port}", f"127.0.0.1:{api_port}")
        conf = f"{self._lab.dir}/etc/slurm.conf"
        with open(conf, encoding="utf-8") as file:
            text = re.sub(r"(?m)^SlurmctldPort=.*$", f"SlurmctldPort={slurm_port}", file.read())
        own = f"{self._lab.dir}/etc/slurm-{agent}.conf"
        with open(own, "w", encoding="utf-8") as file:
            file.write(text)
        replace(f"{self._lab.dir}/daemons/berthd:{agent}/run", f"SLURM_CONF={conf}", f"SLURM_CONF={own}")

    def close(self):
        for directory in self._mounts:
            subprocess.run(["umount", "-l", directory], check=False)
        for network in self._networks:
            network.close()

    # --- the faults

    def begin(self, number, step):
        thread = threading.Thread(target=self._run, args=(number, step), daemon=True, name=f"fault {number}")
        with self._guard:
            self._locks.setdefault(step.target, threading.Lock())
            self._threads.append(thread)
            self.counts[step.kind, step.target.split(":")[0]] = self.counts.get((step.kind, step.target.split(":")[0]), 0) + 1
        thread.start()

    def _run(self, number, step):
        with self._locks[step.target]:
            try:
                getattr(self, "_" + step.kind.replace("-", "_"))(step.target, step.seconds)
                self._say(f"{number} over")
                if step.target in SERVERS:
                    self._await(step.target)
            except Exception as error:  # pylint: disable=broad-except
                # A daemon that was just hit by another fault may be in the way of this one; heal() sets it right.
                self.trouble.append(f"{number} {step}: {error}")
                self._say(f"{number} could not be done: {error}")

    def _await(self, server):
        with self._guard:
            self._coming += 1
        try:
            if server in ("kube-apiserver", "etcd"):
                wait_for(lambda: self._lab.kube.get("/readyz") == "ok", BACK_WITHIN, "the API server answers", 0.2)
            else:
                wait_for(self._lab.slurm.nodes, BACK_WITHIN, "slurmctld answers", 0.2)
        finally:
            with self._guard:
                self._coming -= 1

    def all_answer(self):
        """Whether no server is on its way back."""
        return self._coming == 0

    def heal(self):
        """Waits for the faults under way, and has every daemon and link work again."""
        for thread in self._threads:
            thread.join(90)
        for link in self._links.values():
            link.set("pass")
        for agent in CONTROLLERS + self._lab.nodes:
            self._empty(agent)
        for name, state in self._lab.daemons().items():
            if state != "running":
                self._lab.daemon("resume" if state == "paused" else "start", name)

    def _kill(self, name, seconds):
        self._lab.daemon("kill", name)
        time.sleep(seconds)
        self._lab.daemon("start", name)

    def _stop(self, name, seconds):
        self._lab.daemon("pause", name)
        time.sleep(seconds)
        self._lab.daemon("resume", name)

    def _restart(self, name, _seconds):
        self._lab.daemon("restart", name)

    def _refuse(self, name, seconds):
        self._for_a_while(name, "refuse", seconds)

    def _silence(self, name, seconds):
        self._for_a_while(name, "silence", seconds)

    def _deaf(self, name, seconds):
        self._for_a_while(name, "deaf", seconds)

    def _slow(self, name, seconds):
        self._for_a_while(name, "slow", seconds)

    def _for_a_while(self, name, mode, seconds):
        self._links[name].set(mode)
        time.sleep(seconds)
        self._links[name].set("pass")

    def _cut_streams(self, name, _seconds):
        self._links[name].cut()

    def _compact(self, _name, _seconds):
        """etcd forgets all history, and every agent's streams are cut: who resumes from an old version must list again."""
        base = f"http://127.0.0.1:{int(self._lab.env['BERTH_LAB_PORT']) + 1}/v3/kv/"

        def ask(what, body):
            with urllib.request.urlopen(urllib.request.Request(base + what, json.dumps(body).encode()), timeout=10) as answer:
                return json.load(answer)
        revision = ask("range", {"key": "AA=="})["header"]["revision"]
        ask("compaction", {"revision": revision})
        for name, link in self._links.items():
            if name.startswith("api:"):
                link.cut()

    def _fill(self, target, seconds):
        agent = target.split(":")[1]
        directory = f"{self._lab.run_dir}/{agent}"
        assert os.path.ismount(directory), f"{directory} must be a file system of its own"
        with open(f"{directory}/{FILL}", "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass  # full
        if agent in CONTROLLERS:  # it makes its table anew when it starts, and needs no room after that for a thousand jobs
            self._lab.daemon("restart", f"berthd:{agent}")
        time.sleep(seconds)
        self._empty(agent)

    def _empty(self, agent):
        wait_for(lambda: unlinked(f"{self._lab.run_dir}/{agent}/{FILL}"), 10, "the filler is removed")


def unlinked(path):
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    return True


def replace(path, old, new):
    """In place, so that owner and mode stay."""
    with open(path, "r+", encoding="utf-8") as file:
        text = file.read()
        assert old in text, f"{path} does not name {old}"
        file.seek(0)
        file.truncate()
        file.write(text.replace(old, new))
