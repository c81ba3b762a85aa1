"""node.isolation: cores. A pod runs on the cores that Slurm allotted to its job, and on no others: by the cpuset that Slurm's task/cgroup
made for the job's extern step. Needs cgroup v1's cpuset, and two CPUs that are really there."""

import glob
import os

from gangs import create_job, running_gang
from handover import temporary
from lab import TOOLS, Skip, wait_for
from witness import running_pod, wait_state

CPUSETS = "/sys/fs/cgroup/cpuset"


def cores_yaml():
    with open(TOOLS + "/berth.yaml.in", encoding="ascii") as file:
        return temporary(file.read().replace("\nnode:\n", "\nnode:\n  isolation: cores\n"), ".yaml")


LAB = ["--nodes", "1", "--cpus", "2", "--berth-yaml", cores_yaml(), "--slurm-conf", temporary("TaskPlugin=task/cgroup\n", ".conf")]


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read().strip()


def cores_of_job(job, step):
    """What Slurm gave the job, by the machine's numbers."""
    if not os.path.exists(CPUSETS) or not {0, 1} <= os.sched_getaffinity(0):
        raise Skip("no cpusets of cgroup v1, or not two CPUs")
    paths = wait_for(lambda: glob.glob(f"{CPUSETS}/slurm_n1/uid_*/job_{job}/{step}/cpuset.cpus"), what=f"job {job} has a cpuset")
    return wait_for(lambda: read(paths[0]), what=f"job {job} has cores")


def cores_of_pod(lab, pod):
    """Where each of the pod's processes may run, as the kernel says."""
    out = set()
    for pid in lab.processes(pod):
        status = read(f"/proc/{pid}/status")
        out.add(next(line.split()[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list")))
    return out


def test_pod_runs_on_its_jobs_cores_and_a_native_job_on_the_others(lab):
    pod, job = running_pod(lab)
    cores = cores_of_job(job, "step_extern")
    assert cores in ("0", "1")
    wait_for(lambda: cores_of_pod(lab, pod) == {cores}, what="the pod is confined")
    native = lab.slurm.sbatch("-c1", "--mem=64")
    wait_state(lab, native, "RUNNING")
    assert cores_of_job(native, "step_batch") == {"0": "1", "1": "0"}[cores]
    lab.daemon("stop", "berthd:n1")
    for pattern in ("cpuset.cpus", "*/cpuset.cpus"):  # from above: what is below cannot have more
        for path in (path for directory in lab.cgroups(pod) for path in glob.glob(f"{directory}/{pattern}")):
            with open(path, "w", encoding="ascii") as file:
                file.write("0-1")
    assert cores_of_pod(lab, pod) == {"0-1"}
    lab.daemon("start", "berthd:n1")
    wait_for(lambda: cores_of_pod(lab, pod) == {cores}, what="the pod is confined again")


def test_pods_of_a_gang_share_the_gangs_cores(lab):
    pods, job = running_gang(lab, create_job(lab, pods=2), 2)
    assert cores_of_job(job["JobId"], "step_extern") == "0-1"
    wait_for(lambda: all(cores_of_pod(lab, pod) == {"0-1"} for pod in pods), what="both are confined")
