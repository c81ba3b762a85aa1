"""Slurm's commands as calls, for tests."""

import os
import subprocess

# These have a line of `scontrol show job` to themselves, and their values may hold spaces.
FREE_TEXT = ("AdminComment", "Comment", "SystemComment", "Command", "WorkDir", "StdErr", "StdIn", "StdOut", "Extra")


class CommandError(Exception):
    """A command that failed; text is what it said on standard error."""

    def __init__(self, command, status, text):
        super().__init__(f"{' '.join(command)}: exit {status}: {text.strip()}")
        self.status, self.text = status, text


def parse_show(text):
    """The first record of `scontrol show job|node` as a dict."""
    out = {}
    for line in text.split("\n\n")[0].splitlines():
        line = line.strip()
        key, _, value = line.partition("=")
        if key in FREE_TEXT or key == "Reason" and line.startswith("Reason="):
            out[key] = value
            continue
        for word in line.split():
            key, _, value = word.partition("=")
            out[key] = value
    return out


class Slurm:
    def __init__(self, environment):
        self.environment = environment

    def run(self, *command, user=None, check=True, timeout=60, stdin=None):
        """What the command prints. As another user of the system where `user` is given."""
        command = [str(word) for word in command]
        as_user = {"user": user, "group": user, "extra_groups": []} if user else {}
        done = subprocess.run(command, env={**os.environ, **self.environment}, cwd="/tmp", capture_output=True, text=True,
                              timeout=timeout, check=False, input=stdin, **as_user)
        if check and done.returncode != 0:
            raise CommandError(command, done.returncode, done.stderr)
        return done.stdout

    def version(self):
        """(24, 11), for what Slurm itself does differently in another version."""
        return tuple(int(number) for number in self.run("scontrol", "--version").split()[1].split(".")[:2])

    def sbatch(self, *options, wrap="sleep 1000", user=None):
        """Submits a batch job whose output goes nowhere; its id."""
        text = self.run("sbatch", "--parsable", "--output=/dev/null", *options, "--wrap", wrap, user=user)
        return int(text.split(";")[0])

    def jobs(self, *options):
        """What squeue shows: a list of dicts with id, name, user, state, reason, nodes and partition."""
        text = self.run("squeue", "-h", "-o", "%A|%j|%u|%T|%r|%N|%P", *options)
        keys = ("id", "name", "user", "state", "reason", "nodes", "partition")
        out = [dict(zip(keys, line.split("|"))) for line in text.splitlines()]
        for job in out:
            job["id"] = int(job["id"])
        return out

    def job(self, job_id):
        """`scontrol show job`, or None for a job that slurmctld does not know."""
        try:
            return parse_show(self.run("scontrol", "show", "job", job_id))
        except CommandError as error:
            if "Invalid job id" in error.text:
                return None
            raise

    def job_state(self, job_id):
        job = self.job(job_id)
        return job["JobState"] if job else None

    def scancel(self, *arguments, user=None):
        self.run("scancel", *arguments, user=user)

    def node(self, name):
        return parse_show(self.run("scontrol", "show", "node", name))

    def nodes(self):
        """Node name -> state as sinfo has it, in lower case with its flags ("idle", "drained*", ...)."""
        return dict(line.split("|") for line in self.run("sinfo", "-h", "-N", "-o", "%N|%T").splitlines())

    def update(self, *words):
        self.run("scontrol", "update", *words)

    def resume(self, nodes):
        """Ends DOWN and DRAIN. A node that came back by itself meanwhile (a slurmd that has just registered) is fine, too."""
        for node in self.run("scontrol", "show", "hostnames", nodes).split():
            try:
                self.update(f"NodeName={node}", "State=RESUME")
            except CommandError as error:
                state = self.nodes()[node]
                if "Invalid node state" not in error.text or "down" in state or "drain" in state:
                    raise
