"""The tool on a terminal: colours, progress, and --watch."""

import json
import os
import re
import signal
import subprocess
import tempfile

from lab import wait_for
from terminal import Terminal
from test_tool import berth
from witness import running_pod

HOME, OTHER_SCREEN, OWN_SCREEN = "\x1b[H", "\x1b[?1049h", "\x1b[?1049l"
CURSOR_AWAY, CURSOR_BACK = "\x1b[?25l", "\x1b[?25h"


def on_terminal(lab, *words, env=None, **how):
    config = f"{lab.dir}/etc/berth-controller.yaml"
    clean = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM")}
    return Terminal(["berth", *words, "--config", config], {**clean, **lab.env, **(env or {})}, **how)


def coloured(text):
    return re.search(r"\x1b\[[0-9;]+m", text) is not None


def test_colours_are_for_terminals_alone(lab):
    for words in (("status",), ("doctor",), ("explain", "never-was")):
        shown = on_terminal(lab, *words)
        assert shown.end() == 0 and coloured(shown.written), words
        status, out, err = berth(lab, *words)
        assert status == 0 and "\x1b" not in out + err, words
        assert "\x1b" in berth(lab, *words, "--color=always")[1]


def test_colours_can_be_refused(lab):
    shown = on_terminal(lab, "status", "--color=never")
    assert shown.end() == 0 and not coloured(shown.written)
    shown = on_terminal(lab, "status", env={"NO_COLOR": "1"})
    assert shown.end() == 0 and not coloured(shown.written)
    shown = on_terminal(lab, "status", "-o", "json", "--color=always")
    assert shown.end() == 0 and not coloured(shown.written)
    assert berth(lab, "status", "--color=sometimes")[0] == 2


def test_doctor_says_what_it_waits_for_and_takes_it_back(lab):
    with tempfile.NamedTemporaryFile() as file:
        shown = on_terminal(lab, "doctor", apart=file.name)
        assert shown.end() == 0
        text = file.read().decode()
    assert "asking slurmctld..." in shown.written and "asking the API server..." in shown.written
    assert shown.written.endswith("\r\x1b[K"), "the line is left clean"
    assert "0 problems" in text and "\x1b" not in text and "asking" not in text


def test_watch_redraws_in_place_and_follows_what_changes(lab):
    shown = on_terminal(lab, "status", "--watch=0.2")
    shown.waits_for("No workloads")
    pod, job = running_pod(lab)
    shown.waits_for(rf"{pod['metadata']['name']}.*{job}.*RUNNING")
    assert shown.written.count(OTHER_SCREEN) == 1 and shown.written.count(CURSOR_AWAY) == 1
    assert shown.written.count(HOME) > 1 and "\x1b[2J" not in shown.written, "nothing is wiped before it is drawn again"
    assert "asking" not in shown.written
    shown.type("\x03")
    assert shown.end() == 0
    last = shown.written[shown.written.rindex(OWN_SCREEN):]
    assert CURSOR_BACK in shown.written and pod["metadata"]["name"] in last, "the last picture stays"


def test_watch_fits_the_window(lab):
    shown = on_terminal(lab, "status", "--watch=0.2", rows=6)
    shown.waits_for("there is more")
    shown.resize(40, 160)
    shown.written = ""
    shown.waits_for(r"No workloads")
    shown.type("\x03")
    assert shown.end() == 0


def test_watch_ends_at_once_while_nobody_answers(lab):
    lab.daemon("pause", "slurmctld")
    try:
        shown = on_terminal(lab, "status", "--watch")
        wait_for(lambda: waits_for_slurmctld(shown.pid, lab), what="it waits for slurmctld")
        shown.type("\x03")
        assert shown.end(deadline=5) == 0
    finally:
        lab.daemon("resume", "slurmctld")


def waits_for_slurmctld(pid, lab):
    """Whether the process has a connection to slurmctld's port."""
    port = f"{int(lab.env['BERTH_LAB_PORT']) + 10:04X}"
    inodes = set()
    with open("/proc/net/tcp", encoding="ascii") as table:
        for line in table.readlines()[1:]:
            fields = line.split()
            if fields[2].endswith(":" + port):
                inodes.add(f"socket:[{fields[9]}]")
    try:
        return any(os.readlink(f"/proc/{pid}/fd/{fd}") in inodes for fd in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


def test_watch_outlives_slurmctld(lab):
    shown = on_terminal(lab, "status", "--watch=0.2")
    shown.waits_for("No workloads")
    lab.daemon("stop", "slurmctld")
    try:
        shown.waits_for("berth: .*slurmctld|Unable to contact")
    finally:
        lab.daemon("start", "slurmctld")
    shown.written = ""
    shown.waits_for("No workloads")
    shown.type("\x03")
    assert shown.end() == 0


def test_watch_stands_still_and_goes_on(lab):
    shown = on_terminal(lab, "status", "--watch=0.2")
    shown.waits_for("No workloads")
    os.kill(shown.pid, signal.SIGTSTP)
    shown.waits_for(re.escape(OWN_SCREEN))
    shown.written = ""
    os.kill(shown.pid, signal.SIGCONT)
    shown.waits_for(re.escape(OTHER_SCREEN) + ".*No workloads")
    shown.type("\x03")
    assert shown.end() == 0


def test_watch_explains_a_pod_until_it_runs(lab):
    pod = lab.pod()
    shown = on_terminal(lab, "explain", "--watch=0.2", pod["metadata"]["name"])
    shown.waits_for("no pod")
    lab.create(pod)
    shown.waits_for("runs on node")
    shown.type("\x03")
    assert shown.end() == 0


def test_watch_into_a_pipe_is_lines_for_programs(lab):
    config = f"{lab.dir}/etc/berth-controller.yaml"
    with subprocess.Popen(["berth", "status", "--watch=0.2", "-o", "json", "--config", config], env={**os.environ, **lab.env}, stdout=subprocess.PIPE,
                          text=True) as watching:
        seen = [json.loads(watching.stdout.readline()) for _ in range(3)]
        assert all(sorted(n["name"] for n in one["nodes"]) == lab.nodes for one in seen)
        watching.stdout.close()  # whoever reads has enough
        assert watching.wait(60) != 0
    for words in (("explain", "-f", "-", "--watch"), ("status", "--watch=0"), ("status", "--watch=often")):
        assert berth(lab, *words, stdin="")[0] == 2, words
