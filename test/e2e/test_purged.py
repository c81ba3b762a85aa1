"""Jobs whose records slurmctld has dropped (MinJobAge=2) while those who wanted to know were away: nothing that Slurm has ended comes
back, and nothing is left behind."""

from gangs import create_group, join_group, wait_all_gone, wait_gang_job
from handover import IMPATIENT, NativeJob, settled, slurm_conf
from lab import wait_for
from test_lost_node import power_off, power_on, terminating
from witness import bindings, placeholders, running_pod, wait_job, wait_state, wait_unschedulable

LAB = IMPATIENT


def wait_purged(lab, *jobs):
    wait_for(lambda: not any(map(lab.slurm.job, jobs)), 150, f"slurmctld has forgotten jobs {jobs}", 0.5)


def test_jobs_purged_while_nobody_looked_stay_ended(lab):
    """Ended in every way: by scancel while they waited, by a pod itself, by scancel, by the time limit, and with the node. The controller
    is away all the time, and on one node the agent is, too."""
    with slurm_conf(lab, "MinJobAge=2"):
        (succeeds, done), (cancelled, cancelled_job), (late, late_job), (lost, lost_job), (orphan, orphan_job) = (
            running_pod(lab, cpu=4, grace=1, **words) for words in ({"run_for": "40s"}, {}, {}, {}, {}))
        lost_node, orphans_node = lost["spec"]["nodeName"], orphan["spec"]["nodeName"]
        assert orphans_node not in (pod["spec"]["nodeName"] for pod in (succeeds, cancelled, late, lost))
        waits = lab.create(cpu=8)
        group = create_group(lab, 2)
        members = join_group(lab, group, 2, cpu=8)
        waiting_jobs = [int(wait_job(lab, waits)["JobId"]), int(wait_gang_job(lab, group, "PENDING")["JobId"])]
        for pod in (waits, *members):
            wait_unschedulable(lab, pod, "is pending")
        lab.daemon("kill", "berthd:controller", f"berthd:{orphans_node}")
        lab.slurm.scancel(*waiting_jobs)
        lab.slurm.scancel(cancelled_job)
        lab.slurm.update(f"JobId={late_job}", "EndTime=now")
        for node in (orphans_node,):
            lab.slurm.update(f"NodeName={node}", "State=DOWN", "Reason=test")
            lab.slurm.resume(node)
        native = NativeJob(lab, orphan)
        lab.wait_phase(succeeds, "Succeeded")
        lab.wait_gone(cancelled)
        lab.wait_gone(late)
        power_off(lab, lost_node, [lost])
        lab.slurm.update(f"NodeName={lost_node}", "State=DOWN", "Reason=Not responding")
        wait_state(lab, lost_job, "NODE_FAIL", None)  # or forgotten already
        wait_purged(lab, *waiting_jobs, done, cancelled_job, late_job, lost_job, orphan_job)
        assert lab.get(waits) and lab.get(lost) and lab.processes(orphan) and not native.started()

        lab.daemon("start", "berthd:controller", f"berthd:{orphans_node}")
        native.verify()
        wait_all_gone(lab, [waits, *members, orphan])
        wait_for(lambda: terminating(lab, lost), 60, "the pod whose job and node are gone is deleted")
        power_on(lab, lost_node)
        settled(lab)
        uids = {pod["metadata"]["uid"] for pod in (succeeds, cancelled, late, lost, orphan, waits, *members)} | {group["metadata"]["uid"]}
        assert lab.phase(succeeds) == "Succeeded"
        assert not uids & {key.partition("/")[0] for key in placeholders(lab)}, "nothing is submitted again"
        assert not {pod["metadata"]["uid"] for pod in (waits, *members)} & set(bindings(lab))


test_jobs_purged_while_nobody_looked_stay_ended.timeout = 360
