"""PrologFlags=Alloc without Contain: Slurm keeps no process of its own on the node, so a lost job is not pushed to it."""

import forgotten
from handover import short_hold

LAB = short_hold("PrologFlags=Alloc\n")


def test_slurmd_killed_during_a_hold(lab):
    forgotten.slurmd_killed(lab)


def test_lost_jobs_id_reused_by_a_batch_job(lab):
    forgotten.job_lost_and_its_id_reused(lab, srun=False)


def test_lost_jobs_id_reused_by_an_srun(lab):
    forgotten.job_lost_and_its_id_reused(lab, srun=True)


def test_foreign_jobs_end_leaves_the_neighbour_alone(lab):
    forgotten.job_lost_beside_another_pod(lab)


def test_lost_jobs_id_reused_by_another_pod(lab):
    forgotten.job_lost_and_its_id_given_to_another_pod(lab)


def test_pods_own_end_leaves_a_foreign_job_with_its_id_alone(lab):
    forgotten.job_lost_and_its_id_runs_elsewhere(lab)


def test_gang_shrunk_while_slurmd_is_away_leaves_the_nodes_it_gave_back(lab):
    forgotten.gang_shrunk(lab, slurmd_away=True)
