"""What Berth's plugins cost those who do not use them: instructions of job_submit(), sbatch, and the hooks around native jobs, each with and without the
plugins."""

import concurrent.futures
import pwd
import re
import resource
import statistics
import subprocess

from bench import Paused
from figure import Figure
from lab import wait_for
from watchers import cpu_seconds

NAMES = ["job_submit, native job", "job_submit, placeholder", "sbatch, agent up", "sbatch, agent down", "sbatch, agent stopped", "prolog of a native job",
         "epilog of a native job", "CPU of sbatch"]
CALLS = 500


def submit_calls(bench, kind):
    """(instructions, seconds) of one call of job_submit()."""
    bridge = str(pwd.getpwnam("slurm").pw_uid)
    command = [bench.build + "/submit_calls", f"{bench.lab.dir}/plugins/job_submit_berth.so", kind, str(CALLS), bridge]
    environment = {**bench.lab.env, "HOME": "/tmp"}
    seconds = int(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout) / 1e9
    counted = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=job_submit"] + command, env=environment,
                             capture_output=True, text=True, check=True).stderr
    return int(re.search(r"Collected : (\d+)", counted).group(1)) / CALLS, seconds


def children_cpu():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def sbatch(bench, count):
    """Held jobs per second that sbatch submits, four at a time; and slurmctld's CPU and sbatch's own for each."""
    pid = bench.pid("slurmctld")

    def one(_):
        bench.lab.slurm.run("sbatch", "--parsable", "-H", "--output=/dev/null", "--wrap", "true")
    before, own, began = cpu_seconds(pid), children_cpu(), bench.now()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(one, range(count)))
    rate, cpu, own = count / (bench.now() - began), (cpu_seconds(pid) - before) / count, (children_cpu() - own) / count
    bench.kill([job["id"] for job in bench.lab.slurm.jobs()])
    bench.wait_idle()
    return rate, cpu, own


def job_submit_plugin(bench, there):
    """slurmctld with or without job_submit_berth.so; it reads slurm.conf when it starts."""
    path = f"{bench.lab.dir}/etc/slurm.conf"
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(re.sub(r"^#?JobSubmitPlugins=", "JobSubmitPlugins=" if there else "#JobSubmitPlugins=", text, flags=re.M))
    bench.lab.daemon("restart", "slurmctld")
    bench.wait_idle()


def hooks(bench, which, count):
    """Medians of allocation -> stamp in the prolog and scancel -> stamp in the epilog, the stamp after whatever else there is."""
    bench.hooks(which)
    prolog, epilog = [], []
    for _ in range(count):
        calls = bench.allocate(1)
        job = calls["job"][0]
        prolog.append(min(bench.wait_stamps("prolog", [job])[job].values()) - calls["sent"][0])
        sent = bench.kill([job])["sent"][0]
        epilog.append(min(bench.wait_stamps("epilog", [job])[job].values()) - sent)
    bench.wait_idle()
    return statistics.median(prolog), statistics.median(epilog)


def measure(bench):
    native, placeholder = (Figure(name, "s", "slurmctld's CPU for one sbatch") for name in NAMES[:2])
    batches = [Figure(name, "jobs/s", "without the plugins", (">=", 0.98)) for name in NAMES[2:5]]
    prolog, epilog = (Figure(name, "s", "without Berth's hook", ("<=", 1.02)) for name in NAMES[5:7])
    client = Figure(NAMES[7], "s", "without the plugins", ("<=", 1.02))
    count, cycles = bench.size(200, 10), bench.size(30, 4)
    instructions = {}
    for _ in range(bench.rounds):
        bench.hooks("raw")
        job_submit_plugin(bench, False)
        without, cpu, bare = sbatch(bench, count)
        bench.hooks("berth")
        job_submit_plugin(bench, True)
        up, _, own = sbatch(bench, count)
        client.add(own, bare)
        agents = ["berthd:controller"] + [f"berthd:{node}" for node in bench.lab.nodes]
        bench.lab.daemon("stop", *agents)
        down, _, _ = sbatch(bench, count)
        bench.lab.daemon("start", *agents)
        wait_for(lambda: all(state == "running" for state in bench.lab.daemons().values()), what="the agents run")
        with Paused(bench.lab, "berthd:controller"), Paused(bench.lab, f"berthd:{bench.lab.nodes[0]}"):
            stopped, _, _ = sbatch(bench, count)
        for figure, rate in zip(batches, (up, down, stopped)):
            figure.add(rate, without)
        for figure, kind in ((native, "native"), (placeholder, "placeholder")):
            instructions[kind], seconds = submit_calls(bench, kind)
            figure.add(seconds, cpu)
            figure.note(instructions_per_call=instructions[kind])
        limits = hooks(bench, "raw", cycles)
        for figure, limit, took in zip((prolog, epilog), limits, hooks(bench, "berth, then stamp", cycles)):
            figure.add(took, limit)
    bench.hooks("berth")
    for figure, kind in ((native, "native"), (placeholder, "placeholder")):
        figure.unit = f"s; {instructions[kind]:.0f} instructions"
    yield from (native, placeholder, *batches, client, prolog, epilog)
