"""Gangs as Slurm sees them: what agent/slurm asks slurmctld for, through slurm_client.cc and without a controller. The tickets are
of another cluster, so the lab's agents leave these jobs alone."""

import json
import os
import shutil
import signal
import subprocess

from lab import holds_for, wait_for
from slurm import CommandError
from test_guard import ALICE, build_directory

HERE = os.path.dirname(os.path.abspath(__file__))
LAB = ["--nodes", "4", "--gpus", "4", "--slurm-conf", HERE + "/gang_slurm.conf"]
GANG, NONCE = "gang-uid", "0123456789abcdef"
QUEUED, RUNNING, REFUSED, UNSURE = range(4)
PLAIN = {"job_name": "ring", "comment": "", "uid": ALICE, "gid": ALICE, "account": "", "partition": "", "qos": "", "reservation": "",
         "constraints": "", "prefer": "", "licenses": "", "wckey": "", "tasks": 1, "cpus_per_task": 1, "memory_mib": 100, "gres": [],
         "tmp_disk_mib": 0, "min_nodes": 1, "max_nodes": 0, "tasks_per_node": 0, "time_limit_minutes": 10, "priority": None, "nice": None,
         "exclusive": False, "spread": False, "pack": False, "begin": 0, "deadline": 0, "dependency": "", "switches": 0,
         "switches_wait_seconds": 0, "excluded_nodes": ""}
LEADER, WORKERS = {"cpus_per_task": 4, "memory_mib": 1000}, {"tasks": 3, "memory_mib": 200}


# --- tools of these tests

def client_path(lab):
    program = os.path.join(lab.dir, "slurm_client")
    if not os.path.exists(program):
        shutil.copy(os.path.join(build_directory(lab), "test/e2e/slurm_client"), program)  # where every user can run it
    return program


def request(*parts):
    # Each part's ticket tells its size, so that the tests can tell them apart.
    tickets = [json.dumps({"berth": 1, "cluster": "elsewhere", "ns": "default", "kind": "Job", "name": "ring", "uid": GANG, "nonce": NONCE,
                           "user": ALICE, "group": ALICE, "size": part.get("tasks", 1), "cpus": 1, "memory": 16,
                           "selector": "job-name=ring"}, separators=(",", ":"))
               for part in parts]
    return json.dumps({"not_after": 0, "port": 0, "parts": [{"ticket": ticket, **PLAIN, **part} for ticket, part in zip(tickets, parts)]})


def submit(lab, *parts, user="slurm"):
    return json.loads(lab.slurm.run(client_path(lab), "submit", user=user, stdin=request(*parts)))


def load(lab, job):
    return dict(line.split("=", 1) for line in lab.slurm.run(client_path(lab), "load", job).splitlines())


def end(lab, *words):
    lab.slurm.run(client_path(lab), *words)


def wait_states(lab, jobs, state, deadline=60):
    wait_for(lambda: [lab.slurm.job(job)["JobState"] for job in jobs] == [state] * len(jobs), deadline, f"{jobs} are {state}")


def het(lab, *parts):
    """The parts' ids of a submitted heterogeneous job."""
    answer = submit(lab, *parts)
    assert answer["outcome"] == QUEUED and answer["problem"] == "", answer
    return [answer["job"] + i for i in range(len(parts))]


# --- one shape

def test_gang_of_one_shape_starts_at_once_with_room_for_every_pod(lab):
    answer = submit(lab, {"tasks": 6, "cpus_per_task": 3, "memory_mib": 1000, "gres": [["gpu", 1]]})
    assert answer["outcome"] == RUNNING, answer
    job = load(lab, answer["job"])
    cpus = [int(n) for n in job["cpus_by_node"].split(",")]
    assert job["tasks"] == "6" and sum(n // 3 for n in cpus) >= 6, job
    assert int(job["memory_per_cpu"]) * 3 >= 1000 and int(job["memory_per_node"]) == int(job["memory_per_cpu"]) * min(cpus), job
    gpus = [int(part.split("(")[0].split(":")[-1]) for part in job["gres_by_node"].split(";")]
    assert sum(gpus) == 6 and len(gpus) == len(cpus) == len(job["nodes"].split(",")), job
    end(lab, "cancel", answer["job"], GANG)


def test_whole_nodes_get_as_many_pods_as_their_memory_holds(lab):
    answer = submit(lab, {"tasks": 12, "memory_mib": 4000, "exclusive": True})  # nodes have 8 CPUs and 16000 MiB
    job = load(lab, answer["job"])
    assert (job["cpus_by_node"], job["memory_per_node"]) == ("8,8,8", "16000"), job
    end(lab, "cancel", answer["job"], GANG)


def test_refusals_say_why(lab):
    answer = submit(lab, {"tasks": 2, "memory_mib": 99000})
    assert answer["outcome"] == REFUSED and "Memory specification can not be satisfied" in answer["problem"], answer
    for parts in ([PLAIN], [LEADER, WORKERS]):
        answer = submit(lab, *parts, user=None)
        assert answer["outcome"] == REFUSED and "berth: placeholders for pods come from the bridge" in answer["problem"], answer
    assert not lab.slurm.jobs()


# --- several shapes

def test_parts_start_together_and_outlive_their_submitter(lab):
    jobs = het(lab, LEADER, WORKERS)
    wait_states(lab, jobs, "RUNNING")
    for job, part in zip(jobs, (LEADER, WORKERS)):
        seen = load(lab, job)
        assert (seen["het_leader"], seen["tasks"], seen["nonce"]) == (str(jobs[0]), str(part.get("tasks", 1)), NONCE), seen
        record = f"{lab.run_dir}/{seen['nodes'].split(',')[0]}/jobs/{job}.{NONCE}"
        wait_for(lambda: os.path.exists(record), what="the prolog has run")
        with open(record, encoding="utf-8") as file:  # what the node's prolog was told
            assert f'"size":{part.get("tasks", 1)}' in file.read()
    # slurmctld gives up on a client that does not answer after some 11 s.
    holds_for(lambda: [lab.slurm.job_state(job) for job in jobs] == ["RUNNING"] * 2, 15, "both parts run", 0.5)
    end(lab, "cancel", jobs[1], GANG)  # one part's end is everybody's
    wait_states(lab, jobs, "CANCELLED")


def test_gang_of_two_shapes_waits_whole(lab):
    kept = lab.slurm.sbatch("-N1", "--exclusive")
    wait_for(lambda: lab.slurm.job_state(kept) == "RUNNING")
    jobs = het(lab, LEADER, {"tasks": 3, "cpus_per_task": 8})  # four nodes, of which three are free
    holds_for(lambda: [lab.slurm.job_state(job) for job in jobs] == ["PENDING"] * 2, 4, "no part starts alone", 0.2)
    lab.slurm.scancel(kept)
    wait_states(lab, jobs, "RUNNING")
    end(lab, "complete", jobs[0], GANG, 3 << 8)
    wait_states(lab, jobs, "FAILED")
    assert [lab.slurm.job(job)["ExitCode"] for job in jobs] == ["3:0"] * 2


def test_waiting_gang_survives_a_restart_of_slurmctld(lab):
    blocker = lab.slurm.sbatch("-N4", "--exclusive")
    wait_for(lambda: lab.slurm.job_state(blocker) == "RUNNING")
    jobs = het(lab, LEADER, WORKERS)
    lab.daemon("restart", "slurmctld")
    wait_for(lambda: [lab.slurm.job_state(job) for job in jobs] == ["PENDING"] * 2, what="both parts still wait")
    lab.slurm.scancel(blocker)
    wait_states(lab, jobs, "RUNNING")
    end(lab, "complete", jobs[1], GANG, 0)
    wait_states(lab, jobs, "COMPLETED")


def test_submitter_that_dies_before_the_answer_leaves_nothing(lab):
    lab.daemon("pause", "slurmctld")
    try:
        with subprocess.Popen([client_path(lab), "submit"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, user="slurm",
                              group="slurm", extra_groups=[], env={**os.environ, **lab.env}) as submitter:
            submitter.stdin.write(request(LEADER, WORKERS))
            submitter.stdin.close()
            children = f"/proc/{submitter.pid}/task/{submitter.pid}/children"

            def connected_child():
                with open(children, encoding="ascii") as file:
                    child = file.read().split()
                return child and sum(os.readlink(f"/proc/{child[0]}/fd/{fd}").startswith("socket:")
                                     for fd in os.listdir(f"/proc/{child[0]}/fd")) >= 2 and int(child[0])
            child = wait_for(connected_child, what="the child has sent its request")
            submitter.send_signal(signal.SIGKILL)

            def state():
                try:
                    with open(f"/proc/{child}/stat", encoding="ascii") as file:
                        return file.read().rsplit(")", 1)[1].split()[0]
                except FileNotFoundError:
                    return None
            wait_for(lambda: state() in (None, "Z"), what="the child goes with its parent")
    finally:
        lab.daemon("resume", "slurmctld")
    holds_for(lambda: not [job for job in safe_jobs(lab) if job["state"] == "RUNNING"], 3, "nothing runs", 0.2)
    wait_for(lambda: not lab.slurm.jobs(), what="no part is left")


def safe_jobs(lab):
    try:
        return lab.slurm.jobs()
    except CommandError:
        return []
