"""Ranks follow Slurm's order of nodes, so that neighbours stay neighbours; and slots are not CPUs where a core has two threads."""

import os

from gangs import (by_slot, create_group, create_job, job_object, join_group, lws_object, occupy, on_nodes, running_gang, uids,
                   wait_running)
from standins import Standins, indexed_job
from witness import asking, jobs_of

HERE = os.path.dirname(os.path.abspath(__file__))
# Four nodes of four cores with two threads each; n1 and n2 below one switch, n3 and n4 below another.
LAB = ["--nodes", "4", "--cpus", "8", "--threads", "2", "--topology", HERE + "/topology.conf", "--slurm-conf", HERE + "/gang.conf",
       "--berth-yaml", HERE + "/gang.yaml"]
SWITCHES = ({"n1", "n2"}, {"n3", "n4"})


def switch_of(node):
    return next(i for i, nodes in enumerate(SWITCHES) if node in nodes)


def slurms_order(lab):
    """The nodes in the order in which Slurm itself numbers a job's tasks."""
    text = lab.slurm.run("srun", "--nodes=4", "--ntasks=4", "--exclusive", "--label", "sh", "-c", "echo $SLURMD_NODENAME")
    return [line.split(": ")[1] for line in sorted(text.splitlines())]


def index_of(pod):
    return int(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"])


def test_ranks_of_an_indexed_job_follow_slurms_node_order(lab):
    order = slurms_order(lab)
    with indexed_job(lab, job_object(lab, 4, cpu=8)) as gang:
        pods, _ = running_gang(lab, gang, 4)
    by_rank = [pod["spec"]["nodeName"] for pod in sorted(pods, key=index_of)]
    assert by_rank == order
    assert [pod["metadata"]["annotations"]["berth.dev/slot"] for pod in sorted(pods, key=index_of)] == ["0.0", "0.1", "0.2", "0.3"]


def test_neighbouring_ranks_share_nodes_and_switches(lab):
    with indexed_job(lab, job_object(lab, 16, cpu=2)) as gang:
        pods, _ = running_gang(lab, gang, 16)
    nodes = [pod["spec"]["nodeName"] for pod in sorted(pods, key=index_of)]
    assert sum(a != b for a, b in zip(nodes, nodes[1:])) == 3, nodes
    assert sum(switch_of(a) != switch_of(b) for a, b in zip(nodes, nodes[1:])) == 1, nodes


def test_ranks_of_a_leader_worker_set_begin_with_the_leader(lab):
    with Standins(lab):
        lws = lab.create_owner(lws_object(lab, 4, worker={"cpu": 8}))
        pods = wait_running(lab, lws, 4)
        names = [pod["metadata"]["name"].removeprefix(lws["metadata"]["name"]) for _, pod in sorted(by_slot(pods).items())]
        assert names == ["-0", "-0-1", "-0-2", "-0-3"]


def test_gang_is_placed_below_one_switch_where_it_fits(lab):
    occupy(lab, "n1")  # n2 is the first free node, and n3 the second
    pods, _ = running_gang(lab, create_job(lab, 2, cpu=8), 2)
    assert on_nodes(pods) == {"n3": 1, "n4": 1}


def test_one_switch_is_kept_when_asked_for(lab):
    gang = create_job(lab, 2, cpu=8, annotations={"berth.dev/switches": "1"})
    pods, job = running_gang(lab, gang, 2)
    assert len({switch_of(node) for node in on_nodes(pods)}) == 1 and len(on_nodes(pods)) == 2
    assert job["Switches"].startswith("1")


def test_pods_of_a_whole_core_each_fill_a_node_by_its_cpus(lab):
    gang = create_job(lab, 16, cpu=2)
    pods, _ = running_gang(lab, gang, 16)
    assert on_nodes(pods) == {"n1": 4, "n2": 4, "n3": 4, "n4": 4}


def test_no_node_has_more_pods_than_it_has_places_for(lab):
    """Slurm hands out cores: a pod that asks for one of a core's two threads holds the core, or shares it with one of its gang."""
    gang = create_job(lab, 10, cpu=1, annotations=asking(min_nodes="2"))
    pods, job = running_gang(lab, gang, 10)
    by_slot(pods)
    assert all(count <= 8 for count in on_nodes(pods).values()) and len(on_nodes(pods)) >= 2
    assert set(on_nodes(pods)) <= set(lab.slurm.run("scontrol", "show", "hostnames", job["NodeList"]).split())


def test_late_member_of_a_group_takes_a_thread_that_is_left(lab):
    group = create_group(lab, 3)
    join_group(lab, group, 3, cpu=1)
    _, job = running_gang(lab, group, 3)
    assert job["NumCPUs"] == "4", "Slurm hands out whole cores"
    late, = join_group(lab, group, 1, cpu=1)
    pods, _ = running_gang(lab, group, 4)
    assert late["metadata"]["uid"] in uids(pods) and not jobs_of(lab, late)
    assert sorted(by_slot(pods)) == ["0.0", "0.1", "0.2", "0.3"]


def test_odd_numbers_of_threads_leave_nobody_out(lab):
    gang = create_job(lab, 7, cpu=3)
    pods, _ = running_gang(lab, gang, 7)
    assert all(count <= 2 for count in on_nodes(pods).values())
