"""A fault injector: a front of the lab's API server that passes everything on as it is, and loses what it is told to lose.

    with FaultyApi(lab) as api:              the node agents talk to it while the block lasts
        api.lose(is_binding, "answer")       the next such request is carried out, and its answer never comes
        api.lose(is_binding, "request")      the next such request never reaches the server
        api.delay(is_binding, 31)            the next such request is carried out, and its answer comes after 31 s
        with api.hushed():                   watches stay open and tell nothing; all else goes on
        api.lost()                           how many were lost so far
        api.asked()                          how many requests there were so far, of all kinds

FaultyApi(lab, controller=True): the controller, too. A real server shows all this when it, or the network, dies at the right instant or is slow; nobody
can make it do so on demand.
"""

import contextlib
import glob
import http.client
import http.server
import ssl
import threading

from handover import agents
from lab import wait_for

NOT_PASSED_ON = ("host", "connection", "accept-encoding", "content-length")


def is_binding(method, path):
    return method == "POST" and path.partition("?")[0].endswith("/binding")


def is_list_by(field):
    """A list of pods with this field selector: nodes ask for their own by spec.nodeName, the controller by spec.schedulerName."""
    return lambda method, path: method == "GET" and "/pods?" in path and "watch=1" not in path and f"fieldSelector={field}" in path


class Front(http.server.BaseHTTPRequestHandler):
    protocol_version, disable_nagle_algorithm = "HTTP/1.1", True

    def log_message(self, *_):
        pass

    def handle(self):
        try:
            super().handle()
        except (OSError, http.client.HTTPException):
            pass  # one of the two sides has gone, and the other will see it

    def handle_request(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        what = self.server.faults.due(self.command, self.path)
        if what == "request":
            return self.cut()
        connection = http.client.HTTPSConnection("127.0.0.1", self.server.upstream_port, context=self.server.upstream_tls)
        connection.request(self.command, self.path, body or None, {k: v for k, v in self.headers.items() if k.lower() not in NOT_PASSED_ON})
        response = connection.getresponse()
        if what == "answer":
            response.read()
            return self.cut()
        if isinstance(what, int):
            self.server.faults.over.wait(what)
        self.send_response(response.status)
        for key, value in response.getheaders():
            if key in ("Content-Type", "Retry-After"):
                self.send_header(key, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        watch = "watch=1" in self.path
        while piece := response.read1(65536):
            if watch:
                self.server.faults.watches_speak.wait()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")
        return None

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_request

    def cut(self):
        self.close_connection = True
        self.connection.close()


class FaultyApi:
    def __init__(self, lab, controller=False):
        self._lab, self._lock, self._wanted, self._lost, self._asked = lab, threading.Lock(), [], 0, 0
        self._identities = "berth-*" if controller else "berth-node-*"
        self._agents = agents(lab) + ["berthd:controller"] * controller
        self.over = threading.Event()
        self.watches_speak = threading.Event()
        self.watches_speak.set()
        certificates = lab.dir + "/kubernetes/"
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificates + "apiserver.crt", certificates + "apiserver.key")
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Front)
        self._server.daemon_threads, self._server.block_on_close = True, False
        self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._server.faults, self._server.upstream_port = self, int(lab.env["BERTH_LAB_PORT"])
        self._server.upstream_tls = ssl.create_default_context(cafile=certificates + "ca.crt")
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self):
        self._send_agents_to(self._server.upstream_port, self._server.server_port)
        return self

    def __exit__(self, kind, value, trace):
        self.over.set()
        self._send_agents_to(self._server.server_port, self._server.upstream_port)
        self._server.shutdown()
        self._server.server_close()

    def _send_agents_to(self, before, now):
        for path in glob.glob(f"{self._lab.dir}/kubernetes/identities/{self._identities}.kubeconfig"):
            with open(path, "r+", encoding="utf-8") as file:  # in place: owner and mode stay
                text = file.read().replace(f"127.0.0.1:{before}", f"127.0.0.1:{now}")
                file.seek(0)
                file.truncate()
                file.write(text)
        self._lab.daemon("restart", *self._agents)

    def lose(self, which, what, times=1):
        with self._lock:
            self._wanted += [(which, what)] * times

    def delay(self, which, seconds):
        self.lose(which, seconds)

    def asked(self):
        with self._lock:
            return self._asked

    @contextlib.contextmanager
    def hushed(self):
        self.watches_speak.clear()
        try:
            yield
        finally:
            self.watches_speak.set()

    def lost(self):
        with self._lock:
            return self._lost

    def wait_lost(self, count):
        wait_for(lambda: self.lost() >= count, 60, f"{count} are lost")

    def due(self, method, path):
        """What is to happen to this request: "answer" or "request" is lost, the seconds by which it is late, or None."""
        with self._lock:
            self._asked += 1
            for at, (which, what) in enumerate(self._wanted):
                if which(method, path):
                    del self._wanted[at]
                    self._lost += 1
                    return what
        return None
