"""Driver: bench_driver as an object; one command at a time."""

import json
import subprocess

from lab import wait_for


class Driver:
    def __init__(self, lab, program):
        self.lab, self.program = lab, program
        self.process = subprocess.Popen([program, "--kubeconfig", lab.env["KUBECONFIG"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**lab.env, "HOME": "/tmp"})

    def close(self):
        self.process.stdin.close()
        self.process.wait(30)

    def ask(self, what, **words):
        self.process.stdin.write(json.dumps({"do": what, **words}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"bench_driver is gone: exit {self.process.wait(10)}")
        answer = json.loads(line)
        if answer.get("error"):
            raise RuntimeError(f"bench_driver: {answer['error']}")
        return answer

    def calls(self, what, **words):
        """Of which none may fail."""
        answer = self.ask(what, **words)
        if answer["problem"]:
            raise RuntimeError(f"bench_driver {what} {words.get('path', '')}: {answer['problem']}")
        return answer

    def create(self, pod, names, window=64):
        """Pods like this one by these names; what is @NAME@ in it is the name."""
        meta = {**pod["metadata"], "name": "@NAME@"}
        return self.calls("send", method="POST", path=f"/api/v1/namespaces/{meta['namespace']}/pods", body=json.dumps({**pod, "metadata": meta}),
                          values=[{"NAME": name} for name in names], window=window)

    def bind(self, names, uids, nodes, ns="default", window=64):
        """Bindings as the agent of the first node posts them."""
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "@NAME@", "uid": "@UID@", "annotations": {
            "scheduler.slinky.slurm.net/slurm-jobid": "1", "slinky.slurm.net/slurm-node": "@NODE@", "berth.dev/nonce": "0123456789abcdef"}},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "@NODE@"}}
        return self.calls("send", method="POST", path=f"/api/v1/namespaces/{ns}/pods/@NAME@/binding", body=json.dumps(body), window=window,
                          kubeconfig=f"{self.lab.dir}/kubernetes/identities/berth-node-{self.lab.nodes[0]}.kubeconfig",
                          values=[{"NAME": name, "UID": uid, "NODE": node} for name, uid, node in zip(names, uids, nodes)])

    def wait(self, stamp, count, deadline=120):
        """Until so many pods have this stamp: added, bound, deleting, ended or gone."""
        wait_for(lambda: self.ask("count")[stamp] >= count, deadline, f"{count} pods are {stamp}", 0.005)
        return self.ask("pods")
