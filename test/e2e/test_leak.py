"""A thousand pods leave nothing behind.

How it is measured: 1,000 pods that end at once go through one lab, a bounded number at a time, and each is deleted once it has
ended, so that the number of pods that exist is the same at any time. After 200 pods, when allocators, connection pools and
caches have their size, after 600 and after 1,000, the lab is brought to rest (no pod, no job, no held record) and /proc is read. Rest
includes that slurmctld has forgotten the ended jobs (MinJobAge is short here): the controller reads all that slurmctld
remembers, so 1,000 remembered jobs would take more room than 200 without any leak. What is read:
VmRSS, the open descriptors and the threads of every berthd. RSS may take a step, when an allocator takes another arena, but it
must not climb: over 400 pods, in one of the two spans at least, it grows by less than GROWTH; a leak of one pod record (some
3 KiB) would show as more than that in both. The sanitised run (test/sanitized) looks for leaks in another way.
"""

import glob
import os
import threading
import time

from lab import NAMESPACES, wait_for

LAB = ["--nodes", "4", "--cpus", "64", "--memory", "64000", "--slurm-conf", os.path.join(os.path.dirname(os.path.abspath(__file__)), "leak.conf")]
WARM, HALF, ALL, AT_ONCE = 200, 600, 1000, 100
GROWTH = 1024  # KiB
IDLE = 4  # descriptors: a connection kept for the next request may be open at one census and closed at the other; a leak adds hundreds


def census(lab):
    """Name -> (RSS in KiB, descriptors, threads) of each agent, and of slurmctld, for which only a note is printed."""
    out = {}
    for name in lab.daemons():
        if not name.startswith(("berthd:", "slurmctld")):
            continue
        pid = lab.daemon("pid", name)
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            status = dict(line.split(":", 1) for line in file)
        out[name] = (int(status["VmRSS"].split()[0]), len(os.listdir(f"/proc/{pid}/fd")), int(status["Threads"]))
    return out


def run_pods(lab, count):
    """So many pods, AT_ONCE at a time; each is deleted when it has ended. Returns pods per second."""
    began, made, gone = time.monotonic(), 0, 0
    room = threading.Semaphore(AT_ONCE)

    def create():
        for number in range(count):
            room.acquire()
            lab.create(cpu="1", memory="16Mi", run_for="0s", ns=NAMESPACES[number % len(NAMESPACES)])

    maker = threading.Thread(target=create)
    maker.start()
    deadline = time.monotonic() + 240
    while gone < count:
        assert time.monotonic() < deadline, f"{gone} of {count} pods have ended in 240 s"
        ended = [pod for pod in lab.pods() if pod["status"]["phase"] in ("Succeeded", "Failed")]
        for pod in ended:
            made += pod["status"]["phase"] == "Succeeded"
            lab.delete(pod, grace=0)
            room.release()
        gone += len(ended)
        if not ended:
            time.sleep(0.05)
    maker.join()
    assert made == count, f"{count - made} pods failed"
    return count / (time.monotonic() - began)


def rest(lab):
    wait_for(lambda: not lab.pods() and not lab.slurm.jobs() and not lab.held(), 60, "the lab is at rest", 0.2)
    wait_for(lambda: not glob.glob(f"{lab.run_dir}/n*/jobs/*"), 60, "no record of a job is left", 0.2)
    wait_for(lambda: not lab.slurm.jobs("--states=all"), 120, "slurmctld has forgotten the jobs", 0.5)


def settled(lab, before=None):
    """The census once descriptors and threads are back to what they were; idle connections take a moment to close."""
    rest(lab)
    if before is None:
        return census(lab)
    try:
        wait_for(lambda: all(now[1] <= before[name][1] + IDLE and now[2] <= before[name][2] for name, now in census(lab).items()
                             if name.startswith("berthd:")), 30, "descriptors and threads are as before", 0.5)
    except AssertionError:
        pass  # said below, with the numbers
    return census(lab)


def test_thousand_pods_leave_nothing_behind(lab):
    run_pods(lab, WARM)
    before = settled(lab)
    run_pods(lab, HALF - WARM)
    between = settled(lab, before)
    rate = run_pods(lab, ALL - HALF)
    after = settled(lab, before)
    print(f"     {rate:.0f} pods/s; " + ", ".join(f"{name} {before[name][0]}, {between[name][0]}, {after[name][0]} KiB" for name in after))
    for name, (rss, descriptors, threads) in after.items():
        if name == "slurmctld":
            continue  # it remembers jobs for MinJobAge
        growth = min(between[name][0] - before[name][0], rss - between[name][0])
        assert growth < GROWTH, f"{name} grew from {before[name][0]} over {between[name][0]} to {rss} KiB"
        assert descriptors <= before[name][1] + IDLE, f"{name} had {before[name][1]} descriptors open and has {descriptors}"
        assert threads <= before[name][2], f"{name} had {before[name][2]} threads and has {threads}"
    # What the gate remembers is two files, however many pods there were.
    kept = ("/ended/", "/gate/roll", "/gate/watch")
    left = [path for path in glob.glob(f"{lab.run_dir}/n*/**", recursive=True) if os.path.isfile(path) and not any(name in path for name in kept)]
    assert not left, f"left in the run directories: {left}"
    assert len(glob.glob(f"{lab.run_dir}/n*/ended/*")) >= ALL


test_thousand_pods_leave_nothing_behind.timeout = 600
