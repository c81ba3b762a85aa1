"""A site's own job_submit.lua before ours: what it refuses is told to the pod's author in its words, and stops nobody else."""

import contextlib
import os

from lab import wait_for
from test_guard import changed_file, restart_slurmctld
from witness import asking, jobs_of, wait_unschedulable

# It cannot tell a new leader's announcement from a job of no length, and refuses both.
SCRIPT = """
function slurm_job_submit(job, partitions, uid)
   if job.time_limit == 4294967294 then
      slurm.log_user("this site wants a time limit")
      return %s
   end
   return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, uid)
   return slurm.SUCCESS
end
"""
UNHEARD = "job_submit_berth.so has not heard that this controller leads"


@contextlib.contextmanager
def site_plugin(lab, plugins, verdict):
    conf, script = f"{lab.dir}/etc/slurm.conf", f"{lab.dir}/etc/job_submit.lua"
    with open(script, "w", encoding="utf-8") as file:
        file.write(SCRIPT % verdict)
    with open(conf, encoding="utf-8") as file:
        text = file.read()
    try:
        with changed_file(conf, text.replace("JobSubmitPlugins=berth\n", f"JobSubmitPlugins={plugins}\n")):
            restart_slurmctld(lab)
            yield
    finally:
        restart_slurmctld(lab)
        os.unlink(script)


def check_told_and_passed_by(lab, plugins, verdict):
    """The log of the controller, which was started under this script."""
    with site_plugin(lab, plugins, verdict):
        lab.daemon("stop", "berthd:controller")
        before = len(lab.log("berthd:controller"))
        lab.daemon("start", "berthd:controller")
        refused = [lab.create(ns="team-a", run_for="0s") for _ in range(5)]
        for pod in refused:
            message = wait_unschedulable(lab, pod, "Slurm refuses the job", "this site wants a time limit")
            assert "Unspecified" not in message, message
        good = [lab.create(ns=ns, run_for="0s", annotations=asking(timelimit="5")) for ns in ("default", "team-a", "team-b")]
        for pod in good:
            lab.wait_phase(pod, "Succeeded", 60)
        assert not any(jobs_of(lab, pod) for pod in refused)
        log = lab.log("berthd:controller")[before:]
        assert "looking for the job before another try" not in log, "a refusal counts as no answer"
        for pod in refused:
            lab.delete(pod)
            lab.wait_gone(pod)
        wait_for(lambda: not lab.slurm.jobs(), 60, "no job is left")
        return log


def test_a_script_that_refuses_stops_nobody_else(lab):
    assert UNHEARD in check_told_and_passed_by(lab, "lua,berth", "slurm.ERROR")


def test_a_script_that_refuses_with_a_number_of_slurms_is_not_taken_for_our_plugin(lab):
    assert UNHEARD in check_told_and_passed_by(lab, "lua,berth", "slurm.ESLURM_INVALID_TIME_LIMIT")


def test_named_after_ours_a_script_does_not_keep_a_new_leader_unheard(lab):
    assert UNHEARD not in check_told_and_passed_by(lab, "berth,lua", "slurm.ERROR")
