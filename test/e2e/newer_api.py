#!/usr/bin/env python3
"""A fake of what the API servers of Kubernetes 1.36 and newer have and the lab's does not: PodGroups and Workloads of scheduling.k8s.io,
and the pods' field spec.schedulingGroup.

    with NewerApi(lab, "v1beta1") as api:    Berth's agents talk to the fake while the block lasts
        api.kube.post(...)                   its PodGroups and Workloads, as admin

The fake is a front of the lab's own server. It passes all requests on as they are, with the tokens of those who asked, and
  - gives pods on their way out a schedulingGroup, named by their annotation JOIN,
  - keeps podgroups and workloads of one version in memory, and says in the discovery that they are there. Who may do what to them is
    asked of the real server; conditions are merged by their type, and must be complete.
What it leaves out: admission, field and label selectors, finalizers, garbage collection, and all other checks of what is written.

As a program, newer_api.py VERSION LAB-DIR PORT prints the port it listens on, and serves until its standard input ends.
"""

import copy
import glob
import http.client
import http.server
import json
import os
import re
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse
import uuid

JOIN = "fake.newer/scheduling-group"
GROUP = "scheduling.k8s.io"
KINDS = {"podgroups": "PodGroup", "workloads": "Workload"}
PODS = re.compile(r"/api/v1/(namespaces/[^/]+/)?pods(/[^/]+)?")
NOT_PASSED_ON = ("host", "connection", "accept-encoding", "content-length", "content-type")


class NewerApi:
    """The fake as a process of its own, and Berth's agents made to use it."""

    def __init__(self, lab, version):
        from kube import Kube
        self._lab, self.version = lab, version
        self._agents = ["berthd:controller"] + [f"berthd:{node}" for node in lab.nodes]
        with open(f"{lab.dir}/log/newer_api.log", "a", encoding="utf-8") as log:
            self._process = subprocess.Popen([sys.executable, os.path.abspath(__file__), version, lab.dir, lab.env["BERTH_LAB_PORT"]],
                                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        self.port = int(self._process.stdout.readline())
        with open(f"{lab.dir}/kubernetes/admin.token", encoding="ascii") as file:
            self.kube = Kube(self.port, f"{lab.dir}/kubernetes/ca.crt", file.read().strip())

    def __enter__(self):
        self._send_agents_to(self._lab.env["BERTH_LAB_PORT"], self.port)
        return self

    def __exit__(self, kind, _value, _trace):
        try:
            if kind is None:
                self._lab.clean()  # the agents end what they began with the same server
        finally:
            self._send_agents_to(self.port, self._lab.env["BERTH_LAB_PORT"])
            self._process.kill()
            self._process.communicate()

    def _send_agents_to(self, before, now):
        self._lab.daemon("stop", *self._agents)
        for path in glob.glob(f"{self._lab.dir}/kubernetes/identities/berth-*.kubeconfig"):
            with open(path, "r+", encoding="utf-8") as file:  # in place: owner and mode stay
                text = file.read().replace(f"127.0.0.1:{before}", f"127.0.0.1:{now}")
                file.seek(0)
                file.truncate()
                file.write(text)
        self._lab.daemon("start", *self._agents)

    def path(self, resource, ns="default", name="", rest=""):
        return f"/apis/{GROUP}/{self.version}/namespaces/{ns}/{resource}{'/' if name else ''}{name}{rest}"


class Refusal(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


def merge(into, patch, strategic):
    """JSON merge patch; the strategic one merges conditions by their type."""
    for key, value in patch.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, dict):
            merge(into.setdefault(key, {}), value, strategic)
        elif key == "conditions" and strategic:
            for condition in value:
                known = next((c for c in into.setdefault(key, []) if c["type"] == condition["type"]), None)
                if known is None:
                    into[key].append(known := {})
                known.update(condition)
        else:
            into[key] = value


class Store:
    """Objects by resource, namespace and name, and all that ever happened to them."""

    def __init__(self, version):
        self.api_version, self.version = f"{GROUP}/{version}", 1
        self.objects, self.events, self.news = {}, [], threading.Condition()

    def _happened(self, key, event, value):
        self.version += 1
        value["metadata"]["resourceVersion"] = str(self.version)
        self.events.append((self.version, key, {"type": event, "object": copy.deepcopy(value)}))
        self.news.notify_all()
        return copy.deepcopy(value)

    def _find(self, key):
        if key not in self.objects:
            raise Refusal(404, f"{key[0]} {key[2]} not found")
        return self.objects[key]

    def get(self, key):
        with self.news:
            return copy.deepcopy(self._find(key))

    def list(self, resource, ns):
        with self.news:
            items = [copy.deepcopy(value) for key, value in self.objects.items() if key[0] == resource and ns in (None, key[1])]
            for item in items:
                del item["kind"], item["apiVersion"]  # as the real one's lists have it
            return {"kind": KINDS[resource] + "List", "apiVersion": self.api_version, "metadata": {"resourceVersion": str(self.version)},
                    "items": items}

    def create(self, key, value):
        key = (*key[:2], value["metadata"]["name"])
        with self.news:
            if key in self.objects:
                raise Refusal(409, f"{key[0]} {key[2]} already exists")
            value.update(kind=KINDS[key[0]], apiVersion=self.api_version)
            value["metadata"].update(namespace=key[1], uid=str(uuid.uuid4()),
                                     creationTimestamp=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
            self.objects[key] = value
            return self._happened(key, "ADDED", value)

    def patch(self, key, change, status, strategic):
        with self.news:
            value = self._find(key)
            if change.get("metadata", {}).get("uid", value["metadata"]["uid"]) != value["metadata"]["uid"]:
                raise Refusal(409, "Precondition failed: UID in precondition")
            after = copy.deepcopy(value)
            merge(after, {k: v for k, v in change.items() if (k == "status") == status}, strategic)
            for condition in after.get("status", {}).get("conditions", []):
                missing = [word for word in ("type", "status", "reason", "lastTransitionTime") if not condition.get(word)]
                if missing:
                    raise Refusal(422, f"status.conditions: {condition} lacks {missing}")
            if after == value:
                return after
            self.objects[key] = after
            return self._happened(key, "MODIFIED", after)

    def delete(self, key):
        with self.news:
            return self._happened(key, "DELETED", self.objects.pop(key, None) or self._find(key))

    def watch(self, resource, ns, version, seconds):
        """Yields what happened after this version, for so long."""
        end, place = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            with self.news:
                if place == len(self.events):
                    self.news.wait(end - time.monotonic())
                fresh, place = self.events[place:], len(self.events)
            for number, key, event in fresh:
                if number > version and key[0] == resource and ns in (None, key[1]):
                    yield json.dumps(event).encode() + b"\n"


def with_group(text):
    """The text of a pod, a list of pods or an event of a watch, as a newer server would say it."""
    root = json.loads(text)
    for pod in root.get("items", [root.get("object", root)]):
        group = pod.get("metadata", {}).get("annotations", {}).get(JOIN)
        if group and "spec" in pod:
            pod["spec"]["schedulingGroup"] = {"podGroupName": group}
    return json.dumps(root).encode()


class Front(http.server.BaseHTTPRequestHandler):
    protocol_version, disable_nagle_algorithm = "HTTP/1.1", True
    store = upstream_port = upstream_tls = None  # set by serve()

    def log_message(self, *_):
        pass

    def handle(self):
        try:
            super().handle()
        except OSError:
            pass  # one of the two sides has gone, and the other will see it

    def upstream(self, method, path, body=None, content_type=None):
        connection = http.client.HTTPSConnection("127.0.0.1", self.upstream_port, context=self.upstream_tls)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in NOT_PASSED_ON}
        connection.request(method, path, body, {**headers, "Content-Type": content_type or self.headers.get("Content-Type", "")})
        return connection.getresponse()

    def answer(self, status, body, headers=()):
        self.send_response(status)
        for key, value in headers or [("Content-Type", "application/json")]:
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self, lines):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in lines:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.write(b"0\r\n\r\n")

    def handle_request(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        watch = query.get("watch") in ("1", "true")
        ours = re.fullmatch(rf"/apis/{self.store.api_version}/(?:namespaces/([^/]+)/)?({'|'.join(KINDS)})(?:/([^/]+))?(/status)?", url.path)
        if ours:
            return self.own(*ours.groups(), query, watch, body)
        response = self.upstream(self.command, self.path, body or None)
        pods = self.command == "GET" and PODS.fullmatch(url.path)
        if watch and response.status == 200:
            return self.stream(with_group(line) + b"\n" if pods else line for line in response)
        text, status = response.read(), response.status
        if pods and status == 200:
            text = with_group(text)
        elif url.path == "/apis" and status == 200:
            text = self.groups(json.loads(text))
        elif url.path == f"/apis/{self.store.api_version}" and status in (200, 404):
            text, status = self.resources(json.loads(text) if status == 200 else {"resources": []}), 200
        return self.answer(status, text, [(k, v) for k, v in response.getheaders() if k in ("Content-Type", "Retry-After")])

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_request

    def groups(self, root):
        known = next(group for group in root["groups"] if group["name"] == GROUP)
        version = {"groupVersion": self.store.api_version, "version": self.store.api_version.split("/")[1]}
        known["versions"] += [version] if version not in known["versions"] else []
        return json.dumps(root).encode()

    def resources(self, known):
        verbs = ["create", "delete", "get", "list", "patch", "watch"]
        return json.dumps({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": self.store.api_version, "resources": [
            *known["resources"], {"name": "podgroups/status", "kind": "PodGroup", "namespaced": True, "verbs": ["patch"]},
            *({"name": name, "kind": kind, "namespaced": True, "verbs": verbs} for name, kind in KINDS.items())]}).encode()

    def check_allowed(self, ns, resource, name, status, watch):
        verb = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}.get(self.command) or ("watch" if watch else "get" if name else "list")
        asked = {"group": GROUP, "resource": resource, "subresource": "status" if status else "", "namespace": ns or "", "verb": verb}
        review = self.upstream("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", json.dumps(
            {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": asked}}),
            "application/json")
        text = review.read()
        if review.status != 201:
            raise Refusal(review.status, text.decode())
        if not json.loads(text)["status"]["allowed"]:
            raise Refusal(403, f"forbidden: {asked}")

    def own(self, ns, resource, name, status, query, watch, body):
        key, strategic = (resource, ns, name), "strategic-merge" in self.headers.get("Content-Type", "")
        try:
            self.check_allowed(ns, resource, name, status, watch)
            if watch:
                return self.stream(self.store.watch(resource, ns, int(query.get("resourceVersion") or 0), int(query.get("timeoutSeconds", 600))))
            value = (self.store.create(key, json.loads(body)) if self.command == "POST" else
                     self.store.patch(key, json.loads(body), bool(status), strategic) if self.command == "PATCH" else
                     self.store.delete(key) if self.command == "DELETE" else
                     self.store.get(key) if name else self.store.list(resource, ns))
            return self.answer(201 if self.command == "POST" else 200, json.dumps(value).encode())
        except Refusal as refusal:
            print(self.command, self.path, refusal.status, refusal, file=sys.stderr, flush=True)
            return self.answer(refusal.status, json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": refusal.status,
                                                           "message": str(refusal)}).encode())


def serve(version, lab_dir, upstream_port):
    certificates = lab_dir + "/kubernetes/"
    Front.store, Front.upstream_port = Store(version), int(upstream_port)
    Front.upstream_tls = ssl.create_default_context(cafile=certificates + "ca.crt")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificates + "apiserver.crt", certificates + "apiserver.key")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Front)
    server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    serve(*sys.argv[1:])
