"""etc/kubernetes: every file is taken by an API server as it stands. (What the policies allow and forbid is test/policy.)"""

import os
import re

from lab import HERE, wait_for
from slurm import CommandError

MANIFESTS = os.path.join(HERE, "../../etc/kubernetes")
# Kinds of later servers than the lab's: those it knows under an earlier version, with the same fields, and those it does not know.
EARLIER = {"flowcontrol.apiserver.k8s.io/v1": "flowcontrol.apiserver.k8s.io/v1beta1"}
LATER = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}


def test_every_manifest_is_taken_by_a_server(lab):
    names = sorted(os.listdir(MANIFESTS))
    assert len(names) >= 6 and all(name.endswith(".yaml") for name in names), names
    unknown = []
    for name in names:
        with open(os.path.join(MANIFESTS, name), encoding="utf-8") as file:
            text = file.read()
        for version, earlier in EARLIER.items():
            text = text.replace(f"apiVersion: {version}\n", f"apiVersion: {earlier}\n")
        try:
            made = lab.kubectl("apply", "--dry-run=server", "-o", "name", "-f", "-", stdin=text).splitlines()
            assert len(made) == len(re.findall("^kind: ", text, re.M)), f"{name}: {made}"
        except CommandError as error:
            # One line for each object of a kind that it does not know; and no other trouble.
            later = re.findall(r'no matches for kind "(\w+)"', error.text)
            assert len(later) == len(error.text.strip().splitlines()), f"{name}: {error}"
            assert len(later) == len(re.findall("^kind: ", text, re.M)), f"{name}: {error}"
            unknown += later
    assert set(unknown) == LATER, unknown


def test_daemonset_puts_an_agent_on_every_node(lab):
    file = os.path.join(MANIFESTS, "daemonset.yaml")
    # Hollow nodes do not say what they run on.
    for node in lab.nodes:
        lab.kubectl("label", "--overwrite", "node", node, "kubernetes.io/os=linux")
    lab.kubectl("apply", "-f", file)
    try:
        def of_each_node():
            """Node -> the pod that is meant for it; the controller says so by an affinity, and a scheduler, which the lab has not, binds it."""
            pods = lab.kube.get("/api/v1/namespaces/berth-system/pods")["items"]
            found = {node: p for p in pods for node in lab.nodes if f"'values': ['{node}']" in str(p["spec"]["affinity"])}
            return len(found) == len(pods) == len(lab.nodes) and found
        for node, pod in wait_for(of_each_node, 120, "there is one for each node").items():
            spec = pod["spec"]
            assert spec["serviceAccountName"] == "berth-node" and spec["hostNetwork"] and spec["containers"][0]["command"][:2] == ["berthd", "--node"]
            assert {"/run/berth", "/sys/fs/cgroup", "/run/munge", "/etc/slurm", "/etc/berth"} <= {v["hostPath"]["path"] for v in spec["volumes"]
                                                                                                  if "hostPath" in v}
            lab.bind(pod, node)
            lab.wait_phase(pod, "Running")
        # They are part of the node, not somebody who sneaked past Slurm.
        lab.wait_phase(lab.create(run_for="0s"), "Succeeded")
        assert not any("berth-node-" in lab.log(f"berthd:{node}") for node in lab.nodes), "an agent reports them"
    finally:
        lab.kubectl("delete", "--wait=false", "-f", file)
        wait_for(lambda: not lab.kube.get("/api/v1/namespaces/berth-system/pods")["items"], 120, "they are gone")
