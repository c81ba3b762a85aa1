#!/usr/bin/env python3
"""A fake of an API server that has turned hostile, or mad: what no real one can be made to send.

    with HostileApi(lab) as api:      Berth's agents talk to the fake while the block lasts
        api.turn("deep")              from now on all lists and watches are answered so, and open watches broken off
        api.answered()                how many have been so far, and the most bytes that one of them took before its client hung up
        api.turn("sane")              all requests go to the lab's own server, as in the beginning

As a program, hostile_api.py LAB-DIR PORT prints the port it listens on and does what it is told on standard input.
"""

import contextlib
import gzip
import http.client
import http.server
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse

from newer_api import NOT_PASSED_ON, NewerApi

MIB = 1 << 20


class HostileApi(NewerApi):
    """The fake as a process of its own, and Berth's agents made to use it."""

    def __init__(self, lab):  # pylint: disable=super-init-not-called
        self._lab = lab
        self._agents = ["berthd:controller"] + [f"berthd:{node}" for node in lab.nodes]
        with open(f"{lab.dir}/log/hostile_api.log", "a", encoding="utf-8") as log:
            self._process = subprocess.Popen([sys.executable, os.path.abspath(__file__), lab.dir, lab.env["BERTH_LAB_PORT"]],
                                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        self.port = int(self._process.stdout.readline())

    def _ask(self, line):
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def turn(self, mood):
        self._ask(mood)

    def answered(self):
        """(answers, bytes of the longest)"""
        return tuple(self._ask("?")[1:])

    def asked(self):
        """How many answers have begun."""
        return self._ask("?")[0]


# --- moods: the body of an answer as chunks, for a list or a watch

def line(watch, text):
    """As an event or a list would be: whole, on a line."""
    return [text + b"\n" if watch else text]


def endless():
    chunk = b"x" * MIB
    return (chunk for _ in range(1024))


def dripping():
    for _ in range(600):
        yield b" "
        time.sleep(0.2)


def with_items(watch, items):
    events = b"".join(b'{"type":"ADDED","object":%s}\n' % item for item in items)
    return [events if watch else b'{"metadata":{"resourceVersion":"1"},"items":[%s]}' % b",".join(items)]


WRONG = [b"3", b"null", b"[]", b'{"metadata":[]}', b'{"metadata":{"name":1,"namespace":{},"uid":[]}}',
         b'{"metadata":{"name":"a","namespace":"b","uid":"c","labels":[1],"annotations":{"berth.dev/gang":{}},"ownerReferences":"x"},'
         b'"spec":{"containers":{"x":1},"tolerations":7,"affinity":[],"nodeSelector":"y","priority":"z"},"status":[[]]}']
TWICE = [b'{"metadata":{"name":"a","name":"b","namespace":"default","uid":"u","uid":"v"},"metadata":{},"spec":{},"spec":[]}']
NO_UTF_8 = [b'{"metadata":{"name":"a\xff\xc3(b","namespace":"default","uid":"\xed\xa0\x80","annotations":{"berth.dev/comment":"\xf8\x88\x80\x80\x80\xc0\xaf"}},'
            b'"spec":{"schedulerName":"slurm-bridge-scheduler"}}']
MOODS = {
    "deep": lambda watch: line(watch, b"[" * 100_000),
    "deep_object": lambda watch: line(watch, b'{"metadata":' * 100_000),
    "endless": lambda watch: endless(),
    "types": lambda watch: with_items(watch, WRONG),
    "doubled": lambda watch: with_items(watch, TWICE),
    "no_utf_8": lambda watch: with_items(watch, NO_UTF_8),
    "version": lambda watch: line(watch, b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%s"}}}' % (b"9" * MIB) if watch else
                                  b'{"metadata":{"resourceVersion":"%s"},"items":[]}' % (b"9" * MIB)),
    "pages": lambda watch: line(watch, b'{"metadata":{"resourceVersion":"1","continue":"again"},"items":[]}'),
    "html": lambda watch: line(watch, b"<html><body>Please log in</body></html>"),
    "cut": lambda watch: line(False, b'{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"na'),
    "slow": lambda watch: dripping(),
    "bomb": lambda watch: [gzip.compress(b" " * (256 * MIB), 1)],
    "redirect": lambda watch: [b""],
}


class Front(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    mood, upstream_port, upstream_tls = "sane", 0, None
    asked, answers, longest, lock, open_watches = 0, 0, 0, threading.Lock(), set()

    def log_message(self, *_):
        pass

    def handle_request(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        watch = query.get("watch") in ("1", "true")
        try:
            if self.mood != "sane" and self.command == "GET" and (watch or "limit" in query):
                self.be_hostile(watch)
            else:
                self.pass_on(body, watch)
        except (OSError, http.client.HTTPException):
            self.close_connection = True  # whoever asked hung up; or a watch was broken off

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_request

    def be_hostile(self, watch):
        mood, sent = Front.mood, 0
        with Front.lock:
            Front.asked += 1
        self.send_response(307 if mood == "redirect" else 200)
        self.send_header("Content-Type", "text/html" if mood == "html" else "application/json")
        if mood == "redirect":
            self.send_header("Location", self.path)
        if mood == "bomb":
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for chunk in MOODS[mood](watch):
                if mood != Front.mood:
                    break
                if chunk:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                    sent += len(chunk)
            self.wfile.write(b"0\r\n\r\n")
        finally:
            with Front.lock:
                Front.answers += 1
                Front.longest = max(Front.longest, sent)

    def pass_on(self, body, watch):
        upstream = http.client.HTTPSConnection("127.0.0.1", self.upstream_port, context=self.upstream_tls)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in NOT_PASSED_ON}
        upstream.request(self.command, self.path, body or None, {**headers, "Content-Type": self.headers.get("Content-Type", "")})
        response = upstream.getresponse()
        kept = [(k, v) for k, v in response.getheaders() if k in ("Content-Type", "Retry-After")]
        self.send_response(response.status)
        for key, value in kept:
            self.send_header(key, value)
        if not watch:
            text = response.read()
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with Front.lock:
            Front.open_watches.add(upstream.sock)
        sock = upstream.sock
        try:
            for event in response:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
            self.wfile.write(b"0\r\n\r\n")
        finally:
            with Front.lock:
                Front.open_watches.discard(sock)

    @classmethod
    def turn(cls, mood):
        with cls.lock:
            cls.mood, cls.asked, cls.answers, cls.longest = mood, 0, 0, 0
            for sock in cls.open_watches:
                with contextlib.suppress(OSError):  # the server may have closed it
                    sock.shutdown(socket.SHUT_RDWR)


def serve(lab_dir, upstream_port):
    certificates = lab_dir + "/kubernetes/"
    Front.upstream_port = int(upstream_port)
    Front.upstream_tls = ssl.create_default_context(cafile=certificates + "ca.crt")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificates + "apiserver.crt", certificates + "apiserver.key")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Front)
    server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    for command in sys.stdin:
        if command.strip() != "?":
            Front.turn(command.strip())
        print(json.dumps([Front.asked, Front.answers, Front.longest]), flush=True)


if __name__ == "__main__":
    serve(*sys.argv[1:])
