"""Links: TCP proxies between an agent and a server, which can be made to refuse, to fall silent, to delay and to cut.

Bytes pass unread (TLS stays end to end). A link's two ends may be in different networks (Network): who lives in one of his own has no other
way out. One thread serves all links; their methods may be called from any other.
"""

import asyncio
import ctypes
import socket
import struct
import subprocess
import threading
import time

DELAY = 0.4  # seconds that a slow link keeps each piece of an answer
LATE = 0.2   # what a link keeps for longer is written down
READ = 5.0   # a busy server has read by then what reached it
CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)


class Network:
    """A loopback of its own, as another host would have; a file names it. nsenter --net=FILE brings a program there."""

    def __init__(self, path):
        self.path = path
        with open(path, "w", encoding="ascii"):
            pass
        # With 127.0.0.1 alone a host counts as one without IPv4, and libslurm resolves nothing.
        subprocess.run(["unshare", f"--net={path}", "sh", "-c", "ip address add 192.0.2.1/32 dev lo && ip link set lo up"], check=True)

    def socket(self):
        """A socket belongs to the network it was made in, wherever it is used."""
        with open("/proc/thread-self/ns/net", "rb") as home, open(self.path, "rb") as there:
            enter(there)
            try:
                return socket.socket()
            finally:
                enter(home)

    def close(self):
        subprocess.run(["umount", "-l", self.path], check=False)


def enter(network):
    if LIBC.setns(network.fileno(), CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def new_socket(network):
    return network.socket() if network else socket.socket()


class Link:
    """One agent's way to one server. mode: pass; refuse (connections are reset); silence (nothing passes, nothing is closed); deaf (the
    server hears, its answers do not arrive); slow. What is sent into silence comes late; with lossy it never comes."""

    def __init__(self, links, port, server_port, network=None, server_network=None, lossy=False):
        self._links, self.port, self._server_port = links, port, server_port
        self._network, self._server_network, self._lossy = network, server_network, lossy
        self._mode, self._changed, self._open = "pass", asyncio.Event(), set()
        self.carried = self.lost = 0  # connections
        self._late = []  # (from, until) for what was kept on its way to the server

    async def serve(self):
        sock = new_socket(self._network)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", self.port))
        self._links.servers.append(await asyncio.start_server(self._accept, sock=sock))

    def sent(self, received):
        """The earliest time at which what the server received then may have been sent."""
        return min([began for began, until in list(self._late) if until - LATE < received < until + READ] + [received])

    def set(self, mode):
        self._links.call(self._set, mode)

    def cut(self):
        """Resets all connections once; new ones pass."""
        self._links.call(self._cut)

    def _set(self, mode):
        self._mode = mode
        self._changed.set()
        self._changed = asyncio.Event()
        if mode == "refuse":
            self._cut()

    def _cut(self):
        for writer in list(self._open):
            self._reset(writer)

    @staticmethod
    def _reset(writer):
        sock = writer.get_extra_info("socket")
        if sock is not None and sock.fileno() >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async def _accept(self, reader, writer):
        if self._mode == "refuse":
            self.lost += 1
            return self._reset(writer)
        if self._lossy and self._mode == "silence":
            self.lost += 1
            await self._changed.wait()
            return self._reset(writer)
        server = new_socket(self._server_network)
        server.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(server, ("127.0.0.1", self._server_port))
        except OSError:
            server.close()
            self.lost += 1
            return self._reset(writer)  # as the server itself would refuse
        self.carried += 1
        server_reader, server_writer = await asyncio.open_connection(sock=server)
        ends = {writer, server_writer}
        self._open |= ends
        await asyncio.wait([asyncio.ensure_future(self._pump(reader, server_writer, False)),
                            asyncio.ensure_future(self._pump(server_reader, writer, True))])
        self._open -= ends
        for end in ends:
            end.close()
        return None

    async def _pump(self, reader, writer, answer):
        try:
            while data := await reader.read(65536):
                began = time.time()
                while self._mode == "silence" or (self._mode == "deaf" and answer):
                    await self._changed.wait()
                if self._mode == "slow" and answer:
                    await asyncio.sleep(DELAY)
                writer.write(data)
                await writer.drain()
                if not answer and time.time() > began + LATE:
                    self._late.append((began, time.time()))
            if writer.can_write_eof():
                writer.write_eof()
        except (OSError, RuntimeError):
            self._reset(writer)


class Links(threading.Thread):
    """All links and the thread that serves them."""

    def __init__(self):
        super().__init__(daemon=True, name="links")
        self._loop = asyncio.new_event_loop()
        self.servers = []
        self.start()

    def run(self):
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def call(self, function, *arguments):
        async def there():
            function(*arguments)
        asyncio.run_coroutine_threadsafe(there(), self._loop).result(30)

    def open(self, port, server_port, **words):
        async def there():
            link = Link(self, port, server_port, **words)
            await link.serve()
            return link
        return asyncio.run_coroutine_threadsafe(there(), self._loop).result(30)
