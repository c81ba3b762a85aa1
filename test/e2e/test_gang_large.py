"""A gang of 200 pods on 20 nodes."""

import os
import time

from gangs import by_slot, create_job, jobs_of_owner, on_nodes, running_gang, uids, wait_gang_job, wait_free
from lab import wait_for
from witness import audit, bindings

HERE = os.path.dirname(os.path.abspath(__file__))
LAB = ["--nodes", "20", "--cpus", "12", "--slurm-conf", HERE + "/gang.conf", "--berth-yaml", HERE + "/gang.yaml"]


def test_two_hundred_pods_on_twenty_nodes_start_whole(lab):
    began = time.monotonic()
    gang = create_job(lab, 200, cpu=1, memory="16Mi", run_for="20s")
    pods, job = running_gang(lab, gang, 200, 90)
    print(f"        200 pods run after {time.monotonic() - began:.1f} s")
    assert job["NumTasks"] == "200" and len(jobs_of_owner(lab, gang)) == 1
    counts = bindings(lab)
    assert all(counts[uid] == 1 for uid in uids(pods))
    assert all(1 < count <= 12 for count in on_nodes(pods).values()) and sum(on_nodes(pods).values()) == 200
    assert sorted(by_slot(pods), key=lambda slot: int(slot[2:])) == [f"0.{i}" for i in range(200)]
    refused = [w for w in audit(lab) if w["resource"] == "pods/binding" and w["code"] != 201]
    assert not refused, "no two nodes wanted the same pod"
    assert wait_gang_job(lab, gang, "COMPLETED", deadline=60)["ExitCode"] == "0:0"
    wait_free(lab)
    wait_for(lambda: lab.get_owner(gang)["status"].get("succeeded") == 200, 60, "the Job counts them all")
