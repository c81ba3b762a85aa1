"""Bench: a lab made for measuring, with what all figures share. A figure's file has NAMES, what it produces, and measure(bench), which yields
figures. bench.rounds is how many rounds are wanted, bench.size(full, smoke) which of two sizes."""

import os
import pwd
import signal
import subprocess
import time

from driver import Driver
from lab import Lab, wait_for
from watchers import Audit

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
RAW = "bench-raw"  # the scheduler of pods that the benchmark binds itself
USER = "lab_alice"


class Bench:
    def __init__(self, directory, options, nodes, cpus):
        self.rounds, self.smoke, self.window, self.share, self.cpus = options.rounds, options.smoke, options.waiting, options.share, cpus
        build = os.environ.get("BERTH_BUILD", os.path.join(TOP, "build"))
        self.build = os.path.join(build, "test", "bench")
        self.lab = Lab.up(directory, ["--nodes", str(nodes), "--cpus", str(cpus), "--memory", "200000", "--slurm-conf", HERE + "/bench.conf",
                                      "--berth-yaml", HERE + "/bench.yaml"])
        self.user = pwd.getpwnam(USER).pw_uid
        self.stamp_file = f"{self.lab.run_dir}/stamps"
        with open(self.stamp_file, "w", encoding="ascii"):
            os.chmod(self.stamp_file, 0o666)
        self.plugstack = f"{self.lab.dir}/etc/plugstack.conf"
        with open(self.plugstack, encoding="utf-8") as file:
            self.berth_line = file.read().strip()
        self.stamp_line = f"required {self.build}/.libs/bench_stamp.so {self.stamp_file}"
        self.hooks("berth")
        self.audit = Audit(self.lab)
        self.driver = Driver(self.lab, self.build + "/bench_driver")
        self.count = 0

    def close(self, wipe=True):
        self.driver.close()
        self.lab.down(wipe=wipe)

    now = staticmethod(time.time)  # the one clock: the audit log's, the stamps', the driver's

    def size(self, full, smoke):
        """How many of something; a share of it where only that is wanted."""
        if self.smoke or not isinstance(full, int):
            return smoke if self.smoke else full
        return max(smoke, round(full * self.share))

    def names(self, count, prefix="b"):
        """Names that no pod had before."""
        self.count += 1
        return [f"{prefix}{self.count}-{i}" for i in range(count)]

    # --- hooks on the nodes. slurmd's children read plugstack.conf anew for each prolog and epilog.

    def hooks(self, which):
        """raw: the stamp alone. berth: the stamp, then Berth's. berth, then stamp: to time what Berth's hooks take."""
        lines = {"raw": [self.stamp_line], "berth": [self.stamp_line, self.berth_line], "berth, then stamp": [self.berth_line, self.stamp_line]}[which]
        with open(self.plugstack + ".new", "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        os.rename(self.plugstack + ".new", self.plugstack)

    def stamps(self, kind):
        """Job -> {node: when its prolog or epilog ran first}"""
        out = {}
        with open(self.stamp_file, encoding="ascii") as file:
            for line in file:
                what, job, node, when = line.split()
                if what == kind:
                    out.setdefault(int(job), {}).setdefault(node, float(when))
        return out

    def wait_stamps(self, kind, jobs, deadline=120):
        """Job -> {node: when}, once each of these jobs has one."""
        wait_for(lambda: set(jobs) <= set(self.stamps(kind)), deadline, f"{kind}s of {len(jobs)} jobs", 0.005 if len(jobs) == 1 else 0.05)
        return self.stamps(kind)

    # --- both systems

    def partition(self, state):
        self.lab.slurm.update("PartitionName=main", f"State={state}")

    def allocate(self, count, **words):
        return self.driver.calls("allocate", count=count, user=self.user, **words)

    def kill(self, jobs):
        return self.driver.ask("kill", jobs=jobs)

    def kill_and_wait(self, jobs):
        self.kill(jobs)
        self.wait_idle()

    def wait_idle(self, deadline=300):
        wait_for(lambda: not self.lab.slurm.jobs() and all(state == "idle" for state in self.lab.slurm.nodes().values()), deadline, "Slurm is idle", 0.05)

    def empty(self, deadline=600):
        """No pods, no jobs; the notes and stamps forgotten."""
        for ns in ("default", "team-a"):
            path = f"/api/v1/namespaces/{ns}/pods"

            def gone():
                if not self.lab.kube.get(path + "?limit=1")["items"]:
                    return True
                self.lab.kube.delete(path, {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 1})
                return False
            wait_for(gone, deadline, "no pod is left", 0.1)
        groups = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"
        for group in self.lab.kube.get(groups)["items"]:
            self.lab.kube.delete(f"{groups}/{group['metadata']['name']}")
        left = [job["id"] for job in self.lab.slurm.jobs()]
        if left:
            self.kill(left)
        self.wait_idle(deadline)
        wait_for(lambda: not self.lab.held(), deadline, "no record is left", 0.05)
        self.driver.ask("forget")
        self.audit.skip()

    def wait_bindings(self, count, deadline=300):
        """The Bindings since the audit log was last read, once there are so many: name -> entry."""
        found = {}

        def enough():
            found.update(self.audit.bindings())
            return len(found) >= count
        wait_for(enough, deadline, f"{count} pods are bound", 0.01)
        return found

    def quiet_kubelet(self):
        """While something is timed that ends with a Binding, what kubelets make of it is nobody's: they wait."""
        return Paused(self.lab, "hollow-kubelet")

    def group(self, name, members):
        return self.lab.create_owner({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
                                      "metadata": {"name": name, "namespace": "default"}, "spec": {"minMember": members}})

    def pid(self, daemon):
        return int(self.lab.daemon("pid", daemon))


class Paused:
    """with Paused(lab, daemon): it stands still meanwhile."""

    def __init__(self, lab, name):
        self.lab, self.name, self.pid = lab, name, None

    def __enter__(self):
        self.pid = int(self.lab.daemon("pid", self.name))
        os.kill(self.pid, signal.SIGSTOP)
        return self

    def __exit__(self, *_):
        os.kill(self.pid, signal.SIGCONT)  # at once: time may be counted from here


def machine():
    """What it ran on, in one line."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "unknown CPU")
    with open("/proc/meminfo", encoding="ascii") as file:
        memory = int(file.readline().split()[1]) // 2**20
    slurm = subprocess.run(["slurmctld", "-V"], capture_output=True, text=True, check=True).stdout.strip()
    return f"{os.cpu_count()} cores ({model}), {memory} GiB, {slurm}, load {os.getloadavg()[0]:.1f} at the start"
