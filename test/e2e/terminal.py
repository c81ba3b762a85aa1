"""A program on a terminal of its own: what it writes there, and keys typed at it."""

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time

from lab import wait_for


class Terminal:
    """Standard input, output and error are one terminal; `apart` names a file for standard output instead."""

    def __init__(self, command, env, rows=40, columns=160, apart=None):
        self.written = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir("/tmp")
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            if apart:
                os.dup2(os.open(apart, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), 1)
            os.execvpe(command[0], command, {"TERM": "xterm", **env})
        self.status = None

    def read(self):
        """All that it has written up to now."""
        while self.status is None and select.select([self.fd], [], [], 0)[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:  # it has closed its side
                break
            if not data:
                break
            self.written += data.decode()
        return self.written

    def waits_for(self, pattern, deadline=60):
        return wait_for(lambda: re.search(pattern, self.read(), re.S), deadline, f"{pattern!r} is on the terminal")

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def end(self, deadline=60):
        """Its exit status, once it has ended; negative for a signal."""
        ends = time.monotonic() + deadline
        while self.status is None:
            self.read()
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                self.read()
                self.status = os.waitstatus_to_exitcode(status)
                os.close(self.fd)
            elif time.monotonic() > ends:
                raise AssertionError(f"it did not end: {self.written[-500:]!r}")
            else:
                time.sleep(0.01)
        return self.status
