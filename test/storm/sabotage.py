"""Sabotage: does on a quiet lab what Berth must never do, and expects the checker to see it: that eyes and rules work together on real
servers. Each act names the rule that must fire; the scenes (scenes.py) have the others."""

import glob
import os
import time

from checker import Checker
from kube import Kube
from lab import wait_for
from load import native_script
from observe import JOB, NONCE
from rules import END_SLACK
from schedule import CONTROLLERS
from witness import running_pod, wait_state

SEEN_WITHIN = 30  # seconds
CONTROLLER_DAEMONS = [f"berthd:{name}" for name in CONTROLLERS]
LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/berth-system/leases/slurm-bridge-scheduler"


class Sabotage:
    def __init__(self, lab, say):
        self._lab, self._say = lab, say

    def run(self):
        """What the checker did not see, as sentences; and how many acts there were."""
        self._lab.clean()
        wrong, acts = [], (self.bind_past_slurm, self.bind_for_an_ended_job, self.give_a_living_pods_room_away, self.write_without_leading, self.drain_a_node)
        for act in acts:
            checker = Checker(self._lab.dir, self._lab.name, int(self._lab.env["BERTH_LAB_PORT"]), lambda text: None)
            checker.start()
            rules = checker.judge.violations
            try:
                rule = act(checker)
                wait_for(lambda: any(v.rule == rule for v in rules), SEEN_WITHIN, f"the checker sees {rule}")
                self._say(f"sabotage {act.__name__}: seen as " + "; ".join(sorted({v.rule for v in rules})))
            except AssertionError as error:
                wrong.append(f"sabotage {act.__name__}: {error}; seen: {[v.text for v in rules]}")
            finally:
                checker.stop()
                self._lab.clean()
        return wrong, len(acts)

    def bind_past_slurm(self, _checker):
        self._lab.bind(self._lab.create(), self._lab.nodes[0])
        return "past-slurm"

    def bind_for_an_ended_job(self, checker):
        """As a node's agent would that has not heard of the end."""
        pod, job = running_pod(self._lab, run_for="3s")
        node, nonce = pod["spec"]["nodeName"], pod["metadata"]["annotations"][NONCE]
        wait_for(lambda: (job, nonce) in checker.judge.berths, what="the checker knows the job")
        wait_state(self._lab, job, "COMPLETED")
        self._lab.daemon("pause", *CONTROLLER_DAEMONS)
        agent = self._identity(f"berth-node-{node}")
        late = self._lab.create()
        berth = checker.judge.berths[job, nonce]
        wait_for(lambda: berth.state == "COMPLETED" and time.time() - berth.since > 2 * END_SLACK, what="the checker knows the end")
        agent.post(self._lab.path(late, "/binding"), {
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": late["metadata"]["name"], "uid": late["metadata"]["uid"], "annotations": {JOB: str(job), NONCE: nonce}},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node}})
        return "after-end"

    def give_a_living_pods_room_away(self, _checker):
        """An agent that lost its record, and a kubelet that does nothing: the epilog has nothing to wait for."""
        pod, job = running_pod(self._lab, cpu=self._lab.settings["cpus"], stuck=True)
        node = pod["spec"]["nodeName"]
        self._lab.daemon("kill", f"berthd:{node}", *CONTROLLER_DAEMONS)
        for record in glob.glob(f"{self._lab.run_dir}/{node}/held/*"):
            os.unlink(record)
        self._lab.slurm.scancel(job)
        self._lab.slurm.sbatch("-w", node, "--exclusive", "-J", "thief", wrap=f"bash -c '{native_script(self._lab, 'thief', 20)}'", user="lab_bob")
        return "room-shared"

    def write_without_leading(self, _checker):
        """As a leader would that was stopped, woke up, and has not heard of the next one."""
        pod, _ = running_pod(self._lab)
        leader = self._lab.kube.get(LEASE_PATH)["spec"]["holderIdentity"]
        other = next(name for name in CONTROLLERS if name != leader)
        self._identity("berth-controller", f"berthd/{other}").patch(self._lab.path(pod, "/status"), {"status": {"message": "a late word"}})
        return "deposed"

    def _identity(self, name, agent=""):
        with open(f"{self._lab.dir}/kubernetes/identities/{name}.token", encoding="ascii") as file:
            return Kube(int(self._lab.env["BERTH_LAB_PORT"]), f"{self._lab.dir}/kubernetes/ca.crt", file.read().strip(), agent)

    def drain_a_node(self, _checker):
        self._lab.slurm.update(f"NodeName={self._lab.nodes[0]}", "State=DRAIN", "Reason=berth: pod default/p of job 1 lives")
        return "drained"
