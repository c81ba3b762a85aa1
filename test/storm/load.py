"""The load of a storm: pods, gangs and native jobs, and what users and operators do to them.

Servers may be away at any moment, so whatever is asked of them is asked again for a while. A pod that came to its end knows why, if
somebody outside of Berth was the cause: its excuses. A pod or Job without any must have run to the end that it was made for.
"""

import http.client
import os
import queue
import subprocess
import threading
import time

from gangs import GROUP, job_object
from handover import terminal
from kube import ApiError
from lab import JOB_ID, Lab
from slurm import CommandError
from witness import asking

PATIENCE = 90        # seconds for which something is tried again
KEEP_ENDED = 40      # seconds for which an ended pod or Job stays before it is swept away, as a TTL controller would
BACKLOG = 40         # pods and jobs under way; beyond them new work waits, so that a slow machine has a storm and no flood
PAST_ITS_TIME = "80s"  # Slurm's shortest time limit is a minute
NATIVE = "chaos-native"
GREEDY = ({"user-id": "20002"}, {"priority": "4000000"}, {"partition": "elsewhere"})  # none of them is team-a's
AWAY = (OSError, http.client.HTTPException, CommandError, subprocess.TimeoutExpired)
THREADS = 12  # for each sort; an endless pod keeps one until its end


def native_script(lab, name, seconds):
    """What a native job does: its process says by its name which job it is and where."""
    return f"exec -a {NATIVE}:{lab.name}:{name}:$SLURM_JOB_ID:$SLURMD_NODENAME sleep {seconds}"


class Load:
    def __init__(self, lab, say):
        self._lab, self._say = lab, say
        self.counts = {}
        self.pods = {}       # uid -> {"name", "end": the phase it shall reach, "excuses": [...]}
        self.gangs = {}      # the same of Jobs, with the condition that they shall have
        self.greedy = set()  # "namespace/name" of pods that ask for what their namespace may not have
        self.natives = {}    # name -> job id or None
        self._sruns = []
        self._queues, self._busy, self._backlog = {"work": queue.Queue(), "nuisance": queue.Queue()}, 0, 0
        self.left_out = 0    # work that was never asked for, because the storm was over first
        self._guard = threading.Lock()
        self._over = threading.Event()
        for sort, waiting in self._queues.items():
            for number in range(THREADS):
                threading.Thread(target=self._serve, args=(waiting,), daemon=True, name=f"{sort} {number}").start()
        threading.Thread(target=self._sweep, daemon=True, name="sweep").start()

    def begin(self, number, step):
        with self._guard:
            self._busy += 1
        self._queues[step.sort].put((number, step))

    def idle(self):
        return self._busy == 0

    def stop(self):
        self._over.set()

    def _serve(self, waiting):
        while True:
            number, step = waiting.get()
            while step.sort == "work" and self._backlog > BACKLOG and not self._over.wait(1):
                pass
            try:
                if self._over.is_set():
                    self.left_out += 1
                    continue
                getattr(self, "_do_" + step.kind.replace(" ", "_"))(step)
                with self._guard:
                    self.counts[step.kind] = self.counts.get(step.kind, 0) + 1
            except Exception as error:  # pylint: disable=broad-except
                self._say(f"{number} {step.kind} could not be done: {error!r}")
            finally:
                with self._guard:
                    self._busy -= 1

    def _patiently(self, action):
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return action()
            except ApiError as error:
                if error.status == 409 and "already exists" in str(error):
                    return None  # an earlier attempt got through and its answer did not
                if error.status < 500 and error.status not in (403, 429) or time.monotonic() > end:
                    raise
            except AWAY:
                if time.monotonic() > end:
                    raise
            time.sleep(0.3)

    # --- work

    def _words(self, step):
        words = step.words
        out = {"ns": words["ns"], "memory": "64Mi", "run_for": f"{int(step.seconds * 1000)}ms", "exit_code": words["exit_code"], "grace": 8}
        if words["die_after"]:
            out["die_after"] = f"{int(words['die_after'] * 1000)}ms"
        if words["deaf"]:
            out["ignore_term"], out["grace"] = True, 3
        if words["start_delay"]:
            out["start_delay"] = f"{int(words['start_delay'] * 1000)}ms"
        return out

    def _create(self, pod, end, *excuses):
        made = self._patiently(lambda: self._lab.create(pod)) or self._patiently(lambda: self._lab.kube.find(Lab.path(pod)))
        if made:
            self.pods[made["metadata"]["uid"]] = {"name": f"{made['metadata']['namespace']}/{made['metadata']['name']}", "end": end,
                                                  "excuses": list(excuses)}
        return made

    def _do_pod(self, step):
        pod = self._lab.pod(name=step.target, cpu=step.words["cpu"], **self._words(step))
        self._create(pod, "Failed" if step.words["exit_code"] else "Succeeded")

    def _do_endless_pod(self, step):
        """Somebody deletes it or cancels its job, some time after it was made."""
        words = self._words(step)
        del words["run_for"]
        pod = self._create(self._lab.pod(name=step.target, cpu=step.words["cpu"], **words), None, "endless")
        if not pod:
            return
        self._over.wait(step.seconds * 2)
        if step.words["size"] % 2:
            self._patiently(lambda: self._delete(pod))
        else:
            self._patiently(lambda: self._cancel_of(pod))

    def _delete(self, pod, grace=None):
        try:
            self._lab.delete(pod, grace)
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    def _cancel_of(self, pod):
        """Its job once it has one; without the job the pod is deleted."""
        now = self._lab.get(pod)
        job = now and now["metadata"].get("annotations", {}).get(JOB_ID)
        if job:
            self._lab.slurm.run("scancel", job, timeout=20)
        else:
            self._delete(pod)

    def _do_pod_past_its_time(self, step):
        words = self._words(step)
        words["run_for"] = PAST_ITS_TIME
        self._create(self._lab.pod(name=step.target, cpu="500m", annotations=asking(timelimit="1"), **words), None, "time limit")

    def _do_greedy_pod(self, step):
        """Asks for another tenant's identity, or for what only operators may have. Slurm must never hear of it."""
        wish = GREEDY[step.words["size"] % len(GREEDY)]
        pod = self._lab.pod(name=step.target, annotations=asking(**wish), **{**self._words(step), "ns": "team-a"})
        self.greedy.add(f"team-a/{step.target}")
        made = self._create(pod, None, "greedy")
        self._over.wait(step.seconds * 2)
        if made:
            self._patiently(lambda: self._delete(made))

    def _do_gang(self, step):
        job = job_object(self._lab, step.words["size"], name=step.target, backoff=2, cpu="1", **self._words(step))
        made = self._patiently(lambda: self._lab.create_owner(job)) or self._patiently(lambda: self._lab.kube.find(self._lab.owner_path(job)))
        if made:
            self.gangs[made["metadata"]["uid"]] = {"name": f"{step.words['ns']}/{step.target}", "end": "Failed" if step.words["exit_code"] else "Complete",
                                                   "excuses": []}

    def _do_group(self, step):
        ns, size = step.words["ns"], step.words["size"]
        group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": step.target, "namespace": ns},
                 "spec": {"minMember": size}}
        self._patiently(lambda: self._lab.create_owner(group))
        for number in range(size):
            pod = self._lab.pod(name=f"{step.target}-{number}", cpu="1", **self._words(step))
            pod["metadata"]["labels"] = {GROUP: step.target}
            # A member whose job ended with another's is no fault, so members are held to less.
            self._create(pod, None, "member")

    def _sbatch(self, step, *options, wrap):
        self.natives[step.target] = None
        user = "lab_bob" if step.words["ns"] == "team-b" else "lab_alice"
        job = self._patiently(lambda: self._lab.slurm.sbatch("--no-requeue", "-J", step.target, "--mem=64", "-t", "5", *options, wrap=wrap, user=user))
        self.natives[step.target] = job

    def _do_batch(self, step):
        size = ["--exclusive"] if step.words["size"] == 4 and step.words["deaf"] else ["-c", str(step.words["size"])]
        self._sbatch(step, *size, wrap=f"bash -c '{native_script(self._lab, step.target, step.seconds)}'")

    def _do_wide_batch(self, step):
        self._sbatch(step, "-N2", "--ntasks-per-node=1", "-c", str(step.words["size"]),
                     wrap=f"srun bash -c '{native_script(self._lab, step.target, step.seconds)}'")

    def _do_srun(self, step):
        user = "lab_bob" if step.words["ns"] == "team-b" else "lab_alice"
        self.natives[step.target] = None
        self._sruns.append(subprocess.Popen(
            ["srun", "-J", step.target, "--mem=64", "-t", "5", "-c", str(step.words["size"]), "bash", "-c", native_script(self._lab, step.target, step.seconds)],
            env={**os.environ, **self._lab.env}, cwd="/tmp", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            user=user, group=user, extra_groups=[]))

    # --- nuisances: what users and operators do

    def excuse(self, pod, why):
        """The pod, and the Job that makes another one in its place and counts that as a failure."""
        for uid in (pod["metadata"]["uid"], *[owner["uid"] for owner in pod["metadata"].get("ownerReferences", [])]):
            for records in (self.pods, self.gangs):
                if uid in records:
                    records[uid]["excuses"].append(why)

    def excuse_all(self, why, which=lambda pod: True):
        """Everything that is alive now and meant."""
        for pod in self._patiently(self._lab.pods):
            if not terminal(pod) and which(pod):
                self.excuse(pod, why)

    def _placeholders(self, *options):
        return sorted(job["id"] for job in self._lab.slurm.jobs(*options) if job["name"] not in self.natives)

    def _do_scancel(self, step):
        jobs = self._placeholders()
        if jobs:
            job = jobs[step.words["which"] % len(jobs)]
            self._excuse_job(job, "scancel")
            self._patiently(lambda: self._lab.slurm.run("scancel", job, timeout=20))
            self._excuse_job(job, "scancel")

    def _excuse_job(self, job, why):
        record = self._patiently(lambda: self._lab.slurm.job(job))
        for records in (self.pods, self.gangs):
            for uid in records:
                if record and f'"uid":"{uid}' in record.get("AdminComment", ""):
                    records[uid]["excuses"].append(why)

    def _victim(self, step):
        pods = sorted((pod for pod in self._patiently(self._lab.pods) if not terminal(pod)), key=lambda pod: pod["metadata"]["uid"])
        return pods[step.words["which"] % len(pods)] if pods else None

    def _delete_step(self, step, grace):
        pod = self._victim(step)
        if pod:
            self.excuse(pod, "deleted")
            self._patiently(lambda: self._delete(pod, grace))

    def _do_delete(self, step):
        self._delete_step(step, None)

    def _do_force_delete(self, step):
        self._delete_step(step, 0)

    def _do_node_down(self, step):
        def on_it(pod):
            return pod["spec"].get("nodeName") in (None, step.target)
        self.excuse_all("node down", on_it)
        self._patiently(lambda: self._lab.slurm.update(f"NodeName={step.target}", "State=DOWN", "Reason=chaos"))
        self.excuse_all("node down", on_it)
        self._over.wait(step.seconds)
        self._patiently(lambda: self._lab.slurm.resume(step.target))

    def _do_drain(self, step):
        self._patiently(lambda: self._lab.slurm.update(f"NodeName={step.target}", "State=DRAIN", "Reason=chaos"))
        self._over.wait(step.seconds)
        self._patiently(lambda: self._lab.slurm.resume(step.target))

    def _do_suspend(self, step):
        jobs = self._placeholders("-t", "R")
        if not jobs:
            return
        job = jobs[step.words["which"] % len(jobs)]
        try:
            self._lab.slurm.run("scontrol", "suspend", job, timeout=20)
        except AWAY:
            pass
        self._over.wait(step.seconds)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                if self._lab.slurm.job_state(job) != "SUSPENDED":
                    return
                self._lab.slurm.run("scontrol", "resume", job, timeout=20)
            except AWAY:
                pass
            time.sleep(0.5)

    def _do_reconfigure(self, _step):
        self._lab.slurm.run("scontrol", "reconfigure", check=False, timeout=30)

    def _do_meddle(self, step):
        """A pod's user tries to change its job past Kubernetes. Refused or not, the checker sees whether it is changed."""
        jobs = sorted((job["id"], job["user"]) for job in self._lab.slurm.jobs() if job["name"] not in self.natives)
        if not jobs:
            return
        job, user = jobs[step.words["which"] % max(1, len(jobs) // 2)]  # of the older half
        try:
            self._lab.slurm.run("scontrol", "update", f"JobId={job}", "JobName=meddled", timeout=20, user=user)
            answer = "done"
        except AWAY as error:
            answer = "refused" if "denied" in str(error).lower() else f"failed: {error}"
        self._say(f"meddle with job {job}: {answer}")
        with self._guard:
            word = f"meddle {answer.partition(':')[0]}"
            self.counts[word] = self.counts.get(word, 0) + 1

    # --- the broom

    def _sweep(self):
        """Ended pods and Jobs do not stay for ever, or the lab would slow down with the length of the storm."""
        seen = {}
        while not self._over.wait(3):
            try:
                pods = self._lab.pods()
                self._backlog = sum(not terminal(pod) for pod in pods) + sum(job["name"] in self.natives for job in self._lab.slurm.jobs())
                for pod in pods:
                    if not terminal(pod) or pod["metadata"].get("deletionTimestamp"):
                        continue
                    self.note_end(pod)
                    if not pod["metadata"].get("ownerReferences") and time.monotonic() > seen.setdefault(pod["metadata"]["uid"], time.monotonic()) + KEEP_ENDED:
                        self._delete(pod)
                self.end_forgotten_natives()
                self.resume_nodes("drain", but="chaos")
                for job in self._lab.owners("Job"):
                    if self.note_gangs_end(job) and time.monotonic() > seen.setdefault(job["metadata"]["uid"], time.monotonic()) + KEEP_ENDED:
                        self._lab.delete_owner(job)
            except (ApiError, *AWAY):
                pass  # the next round

    def note_end(self, pod):
        record = self.pods.get(pod["metadata"]["uid"])
        if record:
            record["phase"] = pod["status"]["phase"]

    def note_gangs_end(self, job):
        """Whether the Job is over."""
        ended = [c["type"] for c in job["status"].get("conditions", []) if c["type"] in ("Complete", "Failed") and c["status"] == "True"]
        record = self.gangs.get(job["metadata"]["uid"])
        if ended and record:
            record["phase"] = ended[0]
        return bool(ended)

    # --- the end

    def unfinished(self):
        """Jobs that are not over, as sentences: between two tries one has no pod that could be seen."""
        return [f"Job {job['metadata']['namespace']}/{job['metadata']['name']} is not over" for job in self._lab.owners("Job") if not self.note_gangs_end(job)]

    def wind_down(self):
        """Ends what would go on for long; everything else is left to end by itself."""
        self._over.set()
        for pod in self._patiently(self._lab.pods):
            lasts = pod["metadata"].get("annotations", {}).get("hollow.berth.dev/run-for")
            if lasts in (None, PAST_ITS_TIME) and not terminal(pod):
                self._patiently(lambda victim=pod: self._delete(victim))
        for srun in self._sruns:
            if srun.poll() is None:
                srun.terminate()

    def end_short_groups(self):
        """A PodGroup that lost a member to a user waits for another one, rightly and for ever; its author gives it up."""
        pods = [pod for pod in self._lab.pods() if not terminal(pod)]
        for group in self._lab.owners("PodGroup"):
            left = [pod for pod in pods if pod["metadata"].get("labels", {}).get(GROUP) == group["metadata"]["name"]]
            if left and len(left) < group["spec"]["minMember"] and not any(pod["spec"].get("nodeName") for pod in left):
                for pod in left:
                    self._delete(pod)

    def end_forgotten_natives(self):
        """slurmctld, killed after a native job's end but before it saved that, believes that the job runs. None of them lasts a minute; their
        user gives them up, or nodes would be kept for nothing."""
        for line in self._lab.slurm.run("squeue", "-h", "-t", "R", "-o", "%A|%j|%M").splitlines():
            job, name, time = line.split("|")
            if name in self.natives and not time.startswith("0:"):
                self._lab.slurm.scancel(job)

    def resume_nodes(self, *states, but="berth:"):
        """Nodes that Slurm took out of service by itself ("Duplicate jobid", when it has forgotten a job and a slurmd has not)."""
        for name, state in self._lab.slurm.nodes().items():
            if any(word in state for word in states) and not self._lab.slurm.node(name).get("Reason", "").startswith(("berth:", but)):
                self._lab.slurm.resume(name)

    def without_excuse(self):
        """How many pods and Jobs must come to the end that they were made for."""
        return sum(not record["excuses"] for records in (self.pods, self.gangs) for record in list(records.values()))

    def lost(self):
        """Pods and Jobs that came to another end than they were made for, without an excuse: [(uid, name, what is wrong)]"""
        for pod in self._lab.pods():
            self.note_end(pod)
        out = []
        for kind, records in (("pod", self.pods), ("Job", self.gangs)):
            for uid, record in records.items():
                if not record["excuses"] and record.get("phase") != record["end"]:
                    out.append((uid, f"{kind} {record['name']}", f"should have ended {record['end']}, but " + (record.get("phase") or "vanished")))
        return out
