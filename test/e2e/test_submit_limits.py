"""Limits on the number of submitted jobs: told, waited out, asked about seldom, and nobody else's business."""

from lab import wait_for
from test_accounting import LAB as ACCOUNTING
from witness import asking, fill, jobs_of, wait_job, wait_unschedulable

LAB = ACCOUNTING
LIMIT = 3


def limit_normal(lab, number):
    lab.slurm.run("sacctmgr", "-i", "-Q", "modify", "qos", "normal", "set", f"MaxSubmitJobsPerUser={number}")


def test_a_submit_limit_holds_back_only_those_that_it_is_for(lab):
    filler = fill(lab)
    limit_normal(lab, LIMIT)
    try:
        pods = [lab.create(ns="default", run_for="0s") for _ in range(12)]
        wait_for(lambda: sum(bool(jobs_of(lab, pod)) for pod in pods) == LIMIT, 60, "as many have a job as the QOS allows")
        asked = lab.log("slurmctld").count("exceeded association/QOS limit")
        waiting = [pod for pod in pods if not jobs_of(lab, pod)]
        for pod in waiting:
            text = wait_unschedulable(lab, pod, "waits its turn in the controller")
            assert "namespace default" in text and "QOSMaxSubmitJobPerUserLimit" in text, text
        # Another tenant, and another QOS of the same one.
        wait_job(lab, lab.create(ns="team-b", run_for="0s"), 20)
        wait_job(lab, lab.create(ns="default", run_for="0s", annotations=asking(qos="high")), 20)
        # Nine pods wait, and one of them asks: 1, 2, 4, 8 s apart.
        more = lab.log("slurmctld").count("exceeded association/QOS limit") - asked
        assert more <= 12, f"slurmctld was asked {more} times"
        assert sum(bool(jobs_of(lab, pod)) for pod in pods) == LIMIT
    finally:
        limit_normal(lab, -1)
    lab.slurm.scancel(str(filler))
    for pod in pods:
        lab.wait_phase(pod, "Succeeded", 120)
