// What the shipped policies allow and refuse, request by request.
const assert = require("assert");
const { load, refusal } = require("./policy.cjs");

const { policies, bindings } = load(process.argv[2]);
const named = (name) => policies.find((p) => p.metadata.name === name) ?? assert.fail(`no policy ${name}`);
let passed = 0, failed = 0;
function test(name, body) {
  try {
    body();
    passed++;
    console.log(`ok   ${name}`);
  } catch (error) {
    failed++;
    console.log(`FAIL ${name}\n     ${error.message.replace(/\n/g, "\n     ")}`);
  }
}

// --- who asks
const tenant = { username: "alice", groups: ["team-a", "system:authenticated"] };
const jobController = { username: "system:serviceaccount:kube-system:job-controller", groups: ["system:serviceaccounts"] };
const kubelet = { username: "system:node:n1", groups: ["system:nodes"] };
const scheduler = { username: "system:kube-scheduler" };
const controller = { username: "system:serviceaccount:berth-system:berth-controller", groups: ["system:serviceaccounts"] };
const nodeAgent = (node) => ({ username: `berth-node:${node}`, groups: ["berth-nodes", "system:authenticated"] });
const daemonSet = (node) => ({
  username: "system:serviceaccount:berth-system:berth-node",
  extra: node ? { "authentication.kubernetes.io/node-name": [node] } : undefined,
});

// --- what is asked
const ask = (userInfo, operation, resource, object, more = {}) => ({
  request: { group: more.group ?? "", version: more.version ?? "v1", operation, resource, userInfo: JSON.parse(JSON.stringify(userInfo)) }, object, ...more });
const pod = (annotations, spec = {}) => ({ metadata: annotations ? { name: "p", annotations } : { name: "p" }, spec });
const binding = (node, annotations) => ({ metadata: annotations ? { name: "p", annotations } : { name: "p" }, target: { kind: "Node", name: node } });
const ours = { schedulerName: "slurm-bridge-scheduler" };
const KEYS = ["scheduler.slinky.slurm.net/slurm-jobid", "slinky.slurm.net/slurm-node", "berth.dev/nonce", "berth.dev/slot"];
const wish = (key, value) => ({ ["slurmjob.slinky.slurm.net/" + key]: value });
const namespace = (annotations) => ({ namespaceObject: { metadata: { name: "team-a", ...(annotations && { annotations }) } } });

function judge(policy) {
  const p = named(policy);
  return {
    allows: (what, ask) => assert.strictEqual(refusal(p, ask), null, `${what}: refused`),
    refuses: (what, ask, words = "") => {
      const said = refusal(p, ask);
      assert.ok(said !== null, `${what}: allowed`);
      assert.ok(!said.startsWith("failed closed"), `${what}: ${said}`);
      assert.ok(said.includes(words), `${what}: "${said}" does not say "${words}"`);
    },
    failsClosed: (what, ask) => assert.match(refusal(p, ask) ?? "allowed", /^failed closed/, what),
  };
}

test("every policy is bound, denies and fails closed", () => {
  assert.deepStrictEqual(policies.map((p) => p.metadata.name).sort(), ["berth-annotations", "berth-identity", "berth-node-binding", "berth-placement"]);
  for (const p of policies) {
    assert.strictEqual(p.spec.failurePolicy, "Fail", p.metadata.name);
    const b = bindings.filter((b) => b.spec.policyName === p.metadata.name);
    assert.deepStrictEqual(b.map((b) => b.spec.validationActions), [["Deny"]], p.metadata.name);
  }
  assert.strictEqual(bindings.length, policies.length);
});

test("node agent binds to its own node only", () => {
  const { allows, refuses } = judge("berth-node-binding");
  for (const resource of ["pods/binding", "bindings"]) {
    allows("own node", ask(nodeAgent("n1"), "CREATE", resource, binding("n1")));
    refuses("another node", ask(nodeAgent("n1"), "CREATE", resource, binding("n2")), "berth-node:n1 may bind pods to node n1 only, not to n2");
    refuses("a node whose name begins alike", ask(nodeAgent("n1"), "CREATE", resource, binding("n10")), "not to n10");
    refuses("without a name", ask(nodeAgent(""), "CREATE", resource, binding("")), "no node");
    refuses("the group without the name", ask({ username: "eve", groups: ["berth-nodes"] }, "CREATE", resource, binding("n1")), "no node");
    allows("a DaemonSet's pod, own node", ask(daemonSet("n1"), "CREATE", resource, binding("n1")));
    refuses("a DaemonSet's pod, another node", ask(daemonSet("n1"), "CREATE", resource, binding("n2")), "not to n2");
    refuses("a token without a node", ask(daemonSet(), "CREATE", resource, binding("n1")), "no node");
    allows("other schedulers", ask(scheduler, "CREATE", resource, binding("n2")));
  }
  refuses("two nodes in one token", ask({ ...daemonSet("n1"), extra: { "authentication.kubernetes.io/node-name": ["n1", "n2"] } },
    "CREATE", "pods/binding", binding("n1")), "no node");
});

test("only Berth sets, changes and removes its keys, in every phase", () => {
  const { allows, refuses } = judge("berth-annotations");
  for (const key of KEYS) {
    for (const who of [tenant, jobController, kubelet]) {
      refuses(`${key} at creation`, ask(who, "CREATE", "pods", pod({ [key]: "1" })), "set by Berth alone");
      for (const resource of ["pods", "pods/status", "pods/ephemeralcontainers", "pods/resize"]) {
        const change = (before, after) => ask(who, "UPDATE", resource, pod(after), { oldObject: pod(before) });
        refuses(`${key} added through ${resource}`, change(undefined, { [key]: "1" }));
        refuses(`${key} changed through ${resource}`, change({ [key]: "1" }, { [key]: "2" }));
        refuses(`${key} removed through ${resource}`, change({ [key]: "1" }, undefined));
        refuses(`${key} removed beside others`, change({ [key]: "1", a: "b" }, { a: "b" }));
        allows(`${key} left alone`, change({ [key]: "1" }, { [key]: "1", a: "b" }));
      }
    }
    for (const resource of ["pods/binding", "bindings"]) {
      refuses(`${key} in a Binding`, ask(scheduler, "CREATE", resource, binding("n1", { [key]: "1" })));
      allows("Berth's Binding", ask(nodeAgent("n1"), "CREATE", resource, binding("n1", { [key]: "1" })));
      allows("a DaemonSet's Binding", ask(daemonSet("n1"), "CREATE", resource, binding("n1", { [key]: "1" })));
    }
    refuses("the name without the group", ask({ username: "berth-node:n1" }, "CREATE", "pods", pod({ [key]: "1" })));
    allows("the controller", ask(controller, "UPDATE", "pods/status", pod({ [key]: "1" }), { oldObject: pod() }));
  }
  allows("an ordinary pod", ask(tenant, "CREATE", "pods", pod()));
  allows("what authors may ask for", ask(tenant, "CREATE", "pods", pod({ "slurmjob.slinky.slurm.net/partition": "main", "berth.dev/warn": "5m" })));
  allows("the kubelet's status", ask(kubelet, "UPDATE", "pods/status", pod({ "berth.dev/nonce": "1" }), { oldObject: pod({ "berth.dev/nonce": "1" }) }));
  allows("an ordinary Binding", ask(scheduler, "CREATE", "pods/binding", binding("n1")));
});

test("nobody puts a pod of Berth's scheduler onto a node, or resizes it there", () => {
  const { allows, refuses } = judge("berth-placement");
  refuses("nodeName at creation", ask(tenant, "CREATE", "pods", pod(undefined, { ...ours, nodeName: "n1" })), "spec.nodeName");
  refuses("by a controller", ask(jobController, "CREATE", "pods", pod(undefined, { ...ours, nodeName: "n1" })), "spec.nodeName");
  refuses("by a node agent", ask(nodeAgent("n1"), "CREATE", "pods", pod(undefined, { ...ours, nodeName: "n1" })), "spec.nodeName");
  allows("no node", ask(tenant, "CREATE", "pods", pod(undefined, ours)));
  allows("an empty node", ask(tenant, "CREATE", "pods", pod(undefined, { ...ours, nodeName: "" })));
  allows("another scheduler's pod", ask(kubelet, "CREATE", "pods", pod(undefined, { schedulerName: "default-scheduler", nodeName: "n1" })));
  allows("no scheduler", ask(kubelet, "CREATE", "pods", pod(undefined, { nodeName: "n1" })));
  const placed = pod(undefined, { ...ours, nodeName: "n1" });
  refuses("resize", ask(tenant, "UPDATE", "pods/resize", placed, { oldObject: placed }), "resizing");
  allows("update of a placed pod", ask(tenant, "UPDATE", "pods", placed, { oldObject: placed }));
  allows("status of a placed pod", ask(kubelet, "UPDATE", "pods/status", placed, { oldObject: placed }));
});

test("identities are asked for only where the namespace allows it", () => {
  const { allows, refuses } = judge("berth-identity");
  const kinds = [["pods", "", "v1"], ["jobs", "batch", "v1"], ["deployments", "apps", "v1"], ["statefulsets", "apps", "v1"],
    ["jobsets", "jobset.x-k8s.io", "v1alpha2"], ["leaderworkersets", "leaderworkerset.x-k8s.io", "v1"],
    ["podgroups", "scheduling.x-k8s.io", "v1alpha1"], ["workloads", "scheduling.k8s.io", "v1alpha1"]];
  for (const [resource, group, version] of kinds) {
    const at = (annotations, more) => ask(tenant, "CREATE", resource, pod(annotations), { group, version, ...more });
    for (const [key, value] of [["user-id", "0"], ["group-id", "0"], ["priority", "100"]]) {
      refuses(`${key} on ${resource}`, at(wish(key, value)), `${key} ${value}; its annotation berth.dev/allow-${key}`);
      refuses(`${key} that the list lacks`, at(wish(key, value), namespace({ ["berth.dev/allow-" + key]: "7,8" })));
      allows(`${key} that is listed`, at(wish(key, "8"), namespace({ ["berth.dev/allow-" + key]: "7, 8" })));
      allows(`any ${key}`, at(wish(key, value), namespace({ ["berth.dev/allow-" + key]: "*" })));
    }
    for (const key of ["account", "partition", "qos", "reservation"]) {
      allows(`${key} is left to berth.yaml`, at(wish(key, "x")));
      refuses(`${key} that the list lacks`, at(wish(key, "x"), namespace({ ["berth.dev/allow-" + key]: "y,xx" })));
      refuses(`${key} of an empty list`, at(wish(key, "x"), namespace({ ["berth.dev/allow-" + key]: "" })));
      allows(`${key} that is listed`, at(wish(key, "x"), namespace({ ["berth.dev/allow-" + key]: "y,x" })));
    }
    allows("nothing asked", at(undefined));
    allows("time and size", at({ ...wish("timelimit", "60"), ...wish("mem-per-node", "1G") }));
  }
  const both = refusal(named("berth-identity"), ask(tenant, "CREATE", "pods", pod({ ...wish("user-id", "0"), ...wish("priority", "9") })));
  assert.ok(both.includes("user-id 0, priority 9"), both);
});

test("an object that was there before its namespace's list stays writable", () => {
  const { allows, refuses } = judge("berth-identity");
  const change = (before, after) => ask(kubelet, "UPDATE", "pods", pod(after), { oldObject: pod(before) });
  allows("unchanged", change(wish("user-id", "7"), { ...wish("user-id", "7"), a: "b" }));
  allows("taken away", change(wish("user-id", "7"), undefined));
  refuses("changed", change(wish("user-id", "7"), wish("user-id", "0")), "user-id 0");
});

test("a request that makes no sense is refused, not let through", () => {
  judge("berth-node-binding").failsClosed("a Binding without a target", ask(nodeAgent("n1"), "CREATE", "pods/binding", { metadata: { name: "p" } }));
  judge("berth-annotations").failsClosed("no user", { ...ask(tenant, "CREATE", "pods", pod()), request: { group: "", version: "v1", operation: "CREATE", resource: "pods", userInfo: {} } });
});

console.log(`policies: ${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
