"""A fault injector: a link between Berth's controller and slurmctld that loses answers on demand.

    with LossySlurmctld(lab) as link:    the controller asks slurmctld through it while the block lasts
        link.lose(True)                  requests arrive, their answers do not: the asker sees the connection end

As an impatient client, or a network that fails, would have it: slurmctld reads the whole request, does what it says, and finds nobody to
tell. Berth's own patience, 100 s, would do the same in a longer test.
"""

import os
import re
import socket
import threading


def read_exactly(connection, count):
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            break
        data += piece
    return data


def read_message(connection):
    """One message of Slurm's, with the length that goes before it."""
    head = read_exactly(connection, 4)
    return head + read_exactly(connection, int.from_bytes(head, "big"))


class LossySlurmctld:
    def __init__(self, lab):
        self._lab, self._lossy, self._lost, self._lock = lab, False, 0, threading.Lock()
        with open(lab.env["SLURM_CONF"], encoding="utf-8") as file:
            text = file.read()
        self._real = int(re.search(r"^SlurmctldPort=(\d+)", text, re.MULTILINE)[1])
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._conf = f"{lab.dir}/etc/lossy/slurm.conf"
        self._text = re.sub(r"^SlurmctldPort=.*$", f"SlurmctldPort={self._socket.getsockname()[1]}", text, flags=re.MULTILINE)
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self):
        os.makedirs(os.path.dirname(self._conf), exist_ok=True)
        with open(self._conf, "w", encoding="utf-8") as file:
            file.write(self._text)
        self._send_controller_to(self._lab.env["SLURM_CONF"], self._conf)
        return self

    def __exit__(self, kind, value, trace):
        self._send_controller_to(self._conf, self._lab.env["SLURM_CONF"])
        self._socket.close()

    def _send_controller_to(self, before, now):
        path = f"{self._lab.dir}/daemons/berthd:controller/run"
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(f"SLURM_CONF={before}\n", f"SLURM_CONF={now}\n"))
        self._lab.daemon("restart", "berthd:controller")

    def lose(self, lossy):
        with self._lock:
            self._lossy = lossy

    def lost(self):
        with self._lock:
            return self._lost

    def _serve(self):
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client):
        try:
            with client, socket.create_connection(("127.0.0.1", self._real)) as server:
                server.sendall(read_message(client))
                with self._lock:
                    if self._lossy:
                        self._lost += 1
                        return
                client.sendall(read_message(server))
        except OSError:
            pass  # one of the two has gone, and the other sees it
