"""Every example of docs/workloads.md, applied as it stands: it becomes the jobs that the page promises, and runs."""

import os
import re

from gangs import annotation, bound, by_slot, pods_of, wait_running
from lab import holds_for, wait_for
from standins import Standins
from witness import placeholders

HERE = os.path.dirname(os.path.abspath(__file__))
LAB = ["--nodes", "3", "--slurm-conf", HERE + "/gang.conf", "--berth-yaml", HERE + "/gang.yaml"]
PAGE = os.path.join(HERE, "../../docs/workloads.md")
# By the heading: which test below has it. A new example without a test fails the first of them.
EXAMPLES = ("Pod", "Deployment", "Job", "Job as a gang", "JobSet", "JobSet as a gang", "PodGroup", "LeaderWorkerSet")


def examples():
    """{heading: manifest}"""
    out, heading = {}, None
    with open(PAGE, encoding="utf-8") as file:
        for part in re.split(r"^(#+ .*)$", file.read(), flags=re.M):
            if part.startswith("#"):
                heading = part.lstrip("# ")
            blocks = re.findall(r"^```yaml\n(.*?)^```$", part, flags=re.M | re.S)
            assert len(blocks) <= 1, f"{heading} has several examples"
            if blocks:
                out[heading] = blocks[0]
    return out


def applied(lab, heading):
    """The objects of one example, by kind."""
    made = lab.apply(examples()[heading])
    return {item["kind"]: item for item in made.get("items", [made])}


def all_jobs(lab, ended=True):
    """(name, state, tasks, part of a heterogeneous job or None) of every placeholder, by id."""
    jobs = sorted((job for each in placeholders(lab).values() for job in each), key=lambda job: int(job["JobId"]))
    return [(job["JobName"], job["JobState"], int(job["NumTasks"]), job.get("HetJobOffset")) for job in jobs
            if ended or job["JobState"] == "RUNNING"]


def since(lab, before):
    """The placeholders that came after the ones in `before`."""
    known = {job["JobId"] for each in before.values() for job in each}
    fresh = [job for each in placeholders(lab).values() for job in each if job["JobId"] not in known]
    return sorted(fresh, key=lambda job: int(job["JobId"]))


def words(jobs):
    return [(job["JobName"], int(job["NumTasks"]), int(job["NumCPUs"])) for job in jobs]


def wait_ended(lab, before, count, deadline=60):
    """The placeholders, once so many have come and completed well."""
    wait_for(lambda: len(jobs := since(lab, before)) == count and all(job["JobState"] == "COMPLETED" for job in jobs), deadline,
             f"{count} jobs complete", 0.1)
    jobs = since(lab, before)
    assert all(job["ExitCode"] == "0:0" for job in jobs)
    return jobs


def condition(lab, owner, kind):
    now = lab.get_owner(owner)
    return any(c["type"] == kind and c["status"] == "True" for c in now.get("status", {}).get("conditions", []))


def test_every_example_of_the_page_has_its_test(lab):
    del lab
    assert tuple(examples()) == EXAMPLES


def test_example_of_a_pod(lab):
    before = placeholders(lab)
    pod = applied(lab, "Pod")["Pod"]
    lab.wait_phase(pod, "Succeeded")
    job, = wait_ended(lab, before, 1)
    assert words([job]) == [("default/hello", 1, 1)] and job["TimeLimit"] == "00:10:00"


def test_example_of_a_deployment(lab):
    before = placeholders(lab)
    deployment = applied(lab, "Deployment")["Deployment"]
    wait_for(lambda: lab.get_owner(deployment).get("status", {}).get("replicas") == 2, what="its pods are there")
    wait_for(lambda: sum(pod["status"]["phase"] == "Running" for pod in lab.pods()) == 2, what="both run")
    jobs = since(lab, before)
    assert sorted(job["JobName"] for job in jobs) == sorted(f"default/{pod['metadata']['name']}" for pod in lab.pods())
    assert all(job["JobState"] == "RUNNING" and job["NumTasks"] == "1" and job["Nice"] == "100" for job in jobs)


def test_example_of_a_job(lab):
    before = placeholders(lab)
    job = applied(lab, "Job")["Job"]
    jobs = wait_ended(lab, before, 6)
    wait_for(lambda: condition(lab, job, "Complete"), what="the Job is complete")
    assert sorted(j["JobName"] for j in jobs) == sorted(f"default/{pod['metadata']['name']}" for pod in pods_of(lab, job))
    assert all(j["NumTasks"] == "1" and j["TimeLimit"] == "01:00:00" for j in jobs)


def test_example_of_a_job_as_a_gang(lab):
    before = placeholders(lab)
    job = applied(lab, "Job as a gang")["Job"]
    pods = wait_running(lab, job, 4)
    assert sorted(by_slot(pods)) == ["0.0", "0.1", "0.2", "0.3"]
    placeholder, = wait_ended(lab, before, 1)
    assert words([placeholder]) == [("ring", 4, 8)] and placeholder["TimeLimit"] == "00:30:00"
    wait_for(lambda: condition(lab, job, "Complete"), what="the Job is complete")


def test_example_of_a_jobset(lab):
    before = placeholders(lab)
    with Standins(lab):
        jobset = applied(lab, "JobSet")["JobSet"]
        jobs = wait_ended(lab, before, 2)
        wait_for(lambda: condition(lab, jobset, "Completed"), what="the JobSet is complete")
    assert all(job["NumTasks"] == "1" and job["TimeLimit"] == "01:00:00" and job["JobName"].startswith("default/stages-prepare-")
               for job in jobs)


def test_example_of_a_jobset_as_a_gang(lab):
    before = placeholders(lab)
    with Standins(lab):
        jobset = applied(lab, "JobSet as a gang")["JobSet"]
        pods = wait_running(lab, jobset, 5)
        slots = by_slot(pods)
        assert sorted(slots) == ["0.0", "1.0", "1.1", "1.2", "1.3"]
        assert slots["0.0"]["metadata"]["name"].startswith("training-driver-0")
        jobs = wait_ended(lab, before, 2)
        wait_for(lambda: condition(lab, jobset, "Completed"), what="the JobSet is complete")
    assert words(jobs) == [("training", 1, 2), ("training", 4, 4)]
    assert {job["HetJobId"] for job in jobs} == {jobs[0]["JobId"]} and all(job["TimeLimit"] == "01:00:00" for job in jobs)


def test_example_of_a_pod_group(lab):
    before = placeholders(lab)
    made = applied(lab, "PodGroup")
    pods = wait_running(lab, made["PodGroup"], 3)
    assert sorted(by_slot(pods)) == ["0.0", "0.1", "0.2"]
    job, = wait_ended(lab, before, 1)
    assert words([job]) == [("solver", 3, 3)] and job["TimeLimit"] == "00:30:00"
    wait_for(lambda: condition(lab, made["Job"], "Complete"), what="the Job is complete")
    wait_for(lambda: lab.get_owner(made["PodGroup"])["status"]["phase"] == "Finished", what="the group is finished")


def test_example_of_a_leader_worker_set(lab):
    before = placeholders(lab)
    with Standins(lab):
        lws = applied(lab, "LeaderWorkerSet")["LeaderWorkerSet"]
        pods = wait_running(lab, lws, 8)
        jobs = since(lab, before)
        assert sorted(words(jobs)) == [("serving-0", 1, 2), ("serving-0", 3, 3), ("serving-1", 1, 2), ("serving-1", 3, 3)]
        for group in ("serving-0", "serving-1"):
            members = {name: pod for pod in pods if (name := pod["metadata"]["name"]).startswith(group)}
            slots = {name: annotation(pod, "berth.dev/slot") for name, pod in members.items()}
            assert slots == {group: "0.0", f"{group}-1": "1.0", f"{group}-2": "1.1", f"{group}-3": "1.2"}
        holds_for(lambda: len(bound(pods_of(lab, lws))) == 8 and all(job["JobState"] == "RUNNING" for job in since(lab, before)), 2,
                  "it serves")
