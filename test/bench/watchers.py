"""What the servers themselves tell of what was done: the audit log, sdiag, the API server's metrics, the kernel's accounts. Nothing here asks Berth."""

import datetime
import glob
import json
import os
import re

# What slurmd and this benchmark tell or ask slurmctld.
NOT_OURS = ("MESSAGE_", "REQUEST_COMPLETE_PROLOG", "REQUEST_STEP_COMPLETE", "REQUEST_STATS_INFO", "REQUEST_COMPLETE_BATCH", "REQUEST_UPDATE_PARTITION",
            "REQUEST_NODE_INFO_SINGLE")


def seconds(text):
    """An audit log's time."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


class Audit:
    """Writes of Berth's identities, from where it was last read; without the controllers' lease, which is written all the time."""

    def __init__(self, lab):
        self.path, self.offset = f"{lab.dir}/kubernetes/audit.log", 0
        self.skip()

    def skip(self):
        for _ in self.new():
            pass

    def new(self):
        """Each as a dict: verb, resource ("pods/binding"), name, code, received, answered, job (of a Binding)."""
        if not os.path.exists(self.path):
            return  # nothing was written yet
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self.offset += len(line)
                entry = json.loads(line)
                ref = entry.get("objectRef", {})
                if ref.get("resource") == "leases":
                    continue
                notes = (entry.get("requestObject") or {}).get("metadata", {}).get("annotations", {})
                yield {"verb": entry["verb"], "resource": "/".join(filter(None, (ref.get("resource"), ref.get("subresource")))),
                       "name": ref.get("name"), "code": entry["responseStatus"]["code"], "user": entry["user"]["username"],
                       "received": seconds(entry["requestReceivedTimestamp"]), "answered": seconds(entry["stageTimestamp"]),
                       "job": int(notes.get("scheduler.slinky.slurm.net/slurm-jobid", 0))}

    def bindings(self):
        """Pod name -> its accepted Binding, of those not read before."""
        return {e["name"]: e for e in self.new() if e["resource"] == "pods/binding" and e["code"] == 201}

    def deletes(self):
        return {e["name"]: e for e in self.new() if e["resource"] == "pods" and e["verb"] == "delete" and e["code"] == 200}


def rpcs(lab):
    """Message type -> how many of it slurmctld has had, those of its own daemons left out."""
    text = lab.slurm.run("sdiag").split("statistics by message type")[1].split("statistics by user")[0]
    return {name: int(count) for name, count in re.findall(r"^\s+(\w+)\s+\(\s*\d+\)\s+count:(\d+)", text, re.M) if not name.startswith(NOT_OURS)}


def difference(after, before):
    return {key: after[key] - before.get(key, 0) for key in after if after[key] != before.get(key, 0)}


def cpu_seconds(pid):
    """What all its threads have had so far."""
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        try:
            with open(path, encoding="ascii") as file:
                total += int(file.read().split()[0])
        except OSError:
            pass  # the thread has ended
    return total / 1e9


def rss_mib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        status = dict(line.split(":", 1) for line in file)
    return int(status["VmRSS"].split()[0]) / 1024
