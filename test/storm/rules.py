"""The rules of a storm: what must never be seen, whatever is killed. Pure: observations in (observe.py), violations out.

    judge = Judge(tenants)
    judge.pod(time, pod), judge.slurm(view), judge.bind(bind), judge.write(write), judge.kernel(look, known)      in any order of sources
    judge.violations

An observation is a moment's truth about one system, and the two systems and the kernel are never seen at the same moment. So each
rule concludes from order alone: a violation is what no order of events inside the observed intervals can explain. Where slurmctld
was started again between two views it may have forgotten what it did last; then only what the kernel saw counts.

| rule | violated when |
|---|---|
| past-slurm | a pod of ours is bound and slurmctld, seen before and after, never had its job, or has it pending, or on other nodes |
| after-end | the API server received a Binding after a view in which its job was over |
| crowded | living pods of a job ask for more on a node than the job has there; or share a slot |
| room-shared | a pod's process and another job's lived at the same moment on CPUs that both jobs were given, or the node was too small for both |
| bound-twice | a pod was bound by two Bindings, or has processes on two nodes |
| doubled | a workload has two live jobs for longer than lost answers explain |
| homeless | a pod lives on without a job that holds its room there |
| idle-berth | a job holds a node for no pod |
| stranger | a job belongs to somebody else than its namespace does, or a pod runs for a job of another namespace |
| altered | a placeholder, known for long, was changed by its owner |
| deposed | a controller wrote to Kubernetes, or submitted to Slurm, after another one had taken the lease, or without having it |
| drained | Berth drained a node, or failed in a prolog or epilog so that Slurm did, though nothing lasted long enough to ask for it |
"""

from dataclasses import dataclass, field

from observe import SCHEDULER

END_SLACK = 1.0            # seconds between a node's question to slurmctld and its Binding that an end may fall into
COMPLETING_SLACK = 5.0     # the same while the end has not reached the node: its epilog is yet to come, and will wait
DOUBLED_GRACE = 60.0       # a lost answer's second job is found and cancelled by then
HOMELESS_GRACE = 90.0
IDLE_GRACE = 120.0
GUARD_GRACE = 60.0         # slurmctld's host has by then the placeholders of a controller elsewhere, whatever stopped its own
LEADERLESS_GRACE = 400.0   # what a controller alone can put right may wait for one that leads for long enough, but no longer than this
LEASE_GAP = 4.0            # who did not renew the lease for so long writes nothing
FORGOTTEN_END_GRACE = 30.0  # a slurmctld that was killed may run a job on whose end everybody else has heard of; the controllers look again by then
STATE_SAVED = 10.0         # slurmctld has written down by then what it did
LONGEST_WAY = 15.0         # from a node's question to slurmctld to its Binding's arrival, whatever stands in between
OWN_ERRORS = ("berth:", "Prolog error", "Epilog error")  # why a node was drained; the lab has no prolog or epilog but Berth's
VIEWS_KEPT = 50
LOOKS_KEPT = 200
LEASES_KEPT = 500


@dataclass
class Violation:
    rule: str
    time: float
    text: str


@dataclass
class Berth:
    """All that was ever seen of one placeholder: (job id, nonce)."""
    ticket: dict
    state: str = ""
    since: float = 0.0                          # the end of the view that first showed this state
    boot: object = None
    rooms: dict = field(default_factory=dict)   # node -> (CPU ids, MiB), as last seen
    node_names: tuple = ()
    suspended: bool = False                     # ever: Slurm then gave its CPUs away, by somebody's wish
    name: str = ""
    first_seen: float = 0.0
    seen: float = 0.0                           # the last view that had it, with that name
    submitted_in: object = None                 # the boot of slurmctld that surely took it

    @property
    def live(self):
        return self.state in ("PENDING", "RUNNING", "SUSPENDED", "CONFIGURING")


class Judge:
    def __init__(self, tenants):
        self._tenants = tenants
        self.since = 0.0          # what controllers wrote before is not judged
        self.awake = True         # while it is not, pods that are bound already are taken as they are
        self.violations, self._told = [], set()
        self.pods = {}            # uid -> Pod, as the API has them
        self._dead = {}           # uid -> Pod, removed from the API; processes may be left
        self._ended = {}          # uid -> when it was first seen over or removed
        self._forgotten = set()   # uids of pods, and their owners, whose job a slurmctld that was started again did not have
        self._bound = []          # (time, pod): yet to be compared with the next view
        self._binds, self._accepted = [], {}
        self._writes, self._leases = [], []
        self.berths = {}          # (job id, nonce) -> Berth
        self._views, self._looks = [], []
        self._boots = []          # (time, boot) of each change
        self._since = {}          # (rule, key) -> when it began to be so
        self.counts = {"views": 0, "looks": 0, "judged looks": 0, "binds": 0, "bound pods": 0, "not judged for past-slurm": 0,
                       "forgotten jobs": 0, "pods of forgotten jobs": 0, "controllers' writes": 0, "leaders": 0}
        self.drains = set()

    def _violate(self, rule, time, key, text):
        if (rule, key) not in self._told:
            self._told.add((rule, key))
            self.violations.append(Violation(rule, time, text))

    def _lasts(self, rule, key, true, now, grace, by_leader=False):
        """Whether `true` has been so for longer than the grace, by the views; by_leader: while the same controller led."""
        if not true:
            self._since.pop((rule, key), None)
            return False
        since = self._since.setdefault((rule, key), now)
        return now - (max(since, self._led_since(now)) if by_leader else since) > grace or now - since > max(grace, LEADERLESS_GRACE)

    def _led_since(self, now):
        """Since when the controller that leads does so without a gap; now, when none does."""
        since = now
        for lease in reversed(self._leases):
            if not lease.holder or since - lease.answered > LEASE_GAP or lease.term != self._leases[-1].term:
                return since
            since = lease.received
        return since if self._leases else 0.0

    def _restarted(self, since, until):
        """Whether slurmctld was started again between these moments, as far as seen."""
        return any(since <= time <= until for time, _ in self._boots[1:])

    def excused(self, uid):
        """Whether Slurm itself took the pod's room, or that of a pod of this owner: it forgot the job, or gave the node up."""
        return uid in self._forgotten or any(berth.ticket["uid"].partition("/")[0] == uid and "NODE_FAIL" in berth.state for berth in self.berths.values())

    def _forget(self, pod):
        if pod.uid not in self._forgotten:
            self.counts["pods of forgotten jobs"] += 1
        self._forgotten.update((pod.uid, *pod.owners))

    # --- Kubernetes

    def pod(self, now, pod, gone=False):
        if pod.scheduler != SCHEDULER:
            return
        before = self.pods.get(pod.uid)
        if self.awake and pod.node and not (before and before.node):
            self._bound.append((now, pod))
            self.counts["bound pods"] += 1
        if gone or pod.over:
            self._ended.setdefault(pod.uid, now)
        if gone:
            self.pods.pop(pod.uid, None)
            self._dead[pod.uid] = pod if pod.node else before or pod
        else:
            self.pods[pod.uid] = pod

    def bind(self, bind):
        """A Binding from the audit log."""
        self.counts["binds"] += 1
        if bind.code == 201:
            self._accepted[bind.uid] = self._accepted.get(bind.uid, 0) + 1
            if self._accepted[bind.uid] > 1:
                self._violate("bound-twice", bind.received, bind.uid, f"pod {bind.name}: a second Binding, to {bind.node}, was accepted")
            self._binds.append(bind)

    def write(self, write):
        """What a controller wrote, from the audit log. Judged with a later view: by then the log has all that came before it."""
        if write.holder is None:
            if write.received > self.since:
                self.counts["controllers' writes"] += 1
                self._writes.append(write)
        elif write.code in (200, 201):
            if not self._leases or self._leases[-1].agent != write.agent:
                self.counts["leaders"] += 1
            self._leases.append(write)

    def _judge_write(self, write):
        """Between the answer to one's taking of the lease and another's request for it nobody else may write."""
        own = max((l for l in self._leases if l.agent == write.agent and l.received < write.received), key=lambda l: l.received, default=None)
        taken = [l for l in self._leases if l.agent != write.agent and l.holder and l.answered < write.sent and (not own or l.received > own.answered)]
        what = f"{write.agent}: {write.what}, received after {write.received - write.sent:.2f} s on its way and answered {write.code}, "
        if taken:
            self._violate("deposed", write.received, (write.agent, write.received),
                          f"{what}{write.sent - taken[0].answered:.2f} s after {taken[0].holder} had taken the lease")
        elif own and not own.holder and own.answered < write.sent:
            self._violate("deposed", write.received, (write.agent, write.received), f"{what}though it had let the lease go")
        elif not own and self._leases and self._leases[0].answered < write.sent:
            self._violate("deposed", write.received, (write.agent, write.received), f"{what}though it never had the lease")

    # --- Slurm

    def slurm(self, view):
        self.counts["views"] += 1
        if not self._boots or self._boots[-1][1] != view.boot:
            self._boots.append((view.began, view.boot))
            self._judge_memory(view)
        # Bindings received before this view are compared with what was known before it.
        for bind in [b for b in self._binds if b.received < view.began]:
            self._judge_end(bind)
            self._binds.remove(bind)
        for write in [w for w in self._writes if w.answered < view.began - 1]:
            self._judge_write(write)
            self._writes.remove(write)
        self._leases = self._leases[-LEASES_KEPT:]
        self._remember(view)
        self._views = self._views[-VIEWS_KEPT:] + [view]
        for now, pod in [entry for entry in self._bound if entry[0] < view.began]:
            self._judge_bound(now, pod, view)
            self._bound.remove((now, pod))
        for look in [l for l in self._looks if l.ended < view.began]:
            self._judge_look(look, view)
            self._looks.remove(look)
        self._judge_workloads(view)
        self._judge_owners(view)
        for name, (state, _, reason) in view.nodes.items():
            if "DRAIN" in state and reason and reason != "chaos":
                self.drains.add((name, reason))
                if reason.startswith(OWN_ERRORS):
                    self._violate("drained", view.ended, (name, reason), f"node {name} is {state}: {reason}")

    def _judge_memory(self, view):
        """The first view of a slurmctld that was started again: pods that lived in the last one before it and have no job now may go."""
        for pod in [*self.pods.values(), *self._dead.values()] if self._views else []:
            if pod.node and self._ended.get(pod.uid, view.ended) > self._views[-1].began and not self._housed(pod, view):
                self._forget(pod)

    def _remember(self, view):
        for job in view.jobs.values():
            if not job.ticket:
                continue
            if job.key not in self.berths:
                self._judge_submitted(job, view)
            berth = self.berths[job.key]
            self._judge_name(job, berth, view)
            if berth.state != job.state:
                berth.state, berth.since = job.state, view.ended
            berth.boot = view.boot
            berth.rooms.update(job.nodes)
            berth.node_names = job.node_names or berth.node_names
            berth.suspended = berth.suspended or job.state == "SUSPENDED"
        there = {job.key for job in view.jobs.values() if job.ticket}
        for key, berth in self.berths.items():
            if key not in there and berth.boot != view.boot and berth.live:
                berth.state, berth.since = "FORGOTTEN", view.ended
                self.counts["forgotten jobs"] += 1
            elif key not in there and berth.live:
                berth.state, berth.since = "PURGED", view.ended

    def _judge_submitted(self, job, view):
        """slurmctld counts its jobs, so a larger number was submitted later. What one life of it knew of terms, the next does not."""
        known = bool(self._views) and self._views[-1].boot == view.boot
        term = job.ticket.get("term", 0)
        for (number, _), berth in self.berths.items():
            if berth.submitted_in == view.boot and number < job.id and berth.ticket.get("term", 0) > term:
                self._violate("deposed", view.ended, job.key, f"job {job.id} ({job.name}) was submitted in term {term}, after job {number} of term "
                              f"{berth.ticket['term']}")
                break
        self.berths[job.key] = Berth(job.ticket, name=job.name, first_seen=view.ended, seen=view.ended, submitted_in=view.boot if known else None)

    def _judge_name(self, job, berth, view):
        if berth.state and not berth.live:
            berth.first_seen = view.ended  # it was over, which slurmctld may have forgotten: then it is as a new one
        if job.name != berth.name and berth.seen - berth.first_seen > GUARD_GRACE and not self._restarted(view.ended - FORGOTTEN_END_GRACE, view.ended):
            self._violate("altered", view.ended, job.key, f"job {job.id} was {berth.name} for {berth.seen - berth.first_seen:.0f} s and is {job.name} now")
        berth.name, berth.seen = job.name, view.began

    def _judge_end(self, bind):
        berth = self.berths.get(bind.job)
        if not berth or berth.live or self._restarted(berth.since, bind.received):
            return
        slack = COMPLETING_SLACK if berth.state == "COMPLETING" else END_SLACK
        if bind.received - berth.since > slack:
            self._violate("after-end", bind.received, bind.uid, f"pod {bind.name} was bound to {bind.node} by {bind.who} for job {bind.job[0]}, "
                          f"which had been {berth.state} for at least {bind.received - berth.since:.2f} s")

    def _judge_bound(self, now, pod, view):
        """`view` was begun after the pod was seen bound."""
        berth = self.berths.get(pod.job)
        if not berth:
            wrong = "which slurmctld never had"
        elif berth.state == "PENDING":
            wrong = "which is pending"
        elif berth.node_names and pod.node not in berth.node_names:
            wrong = f"which has {','.join(berth.node_names)}"
        else:
            return
        # What slurmctld had then may not be what it has now; room-shared and homeless see to the pod.
        if self._restarted(now - LONGEST_WAY - STATE_SAVED, view.ended):
            self.counts["not judged for past-slurm"] += 1
            self._forget(pod)
        else:
            self._violate("past-slurm", now, pod.uid, f"pod {pod.ns}/{pod.name} is bound to {pod.node} for job {pod.job[0]} (nonce {pod.job[1]}), {wrong}")

    def _judge_workloads(self, view):
        now, live = view.ended, {}
        for job in view.jobs.values():
            if job.ticket and self.berths[job.key].live:
                live.setdefault((job.ticket["uid"], job.ticket.get("part", 0)), []).append(job)
        for key in {k for r, k in self._since if r == "doubled"} | set(live):
            jobs = live.get(key, [])
            if self._lasts("doubled", key, len(jobs) > 1, now, DOUBLED_GRACE, by_leader=True):
                self._violate("doubled", now, key, f"{jobs[0].name} has the live jobs {sorted(job.id for job in jobs)} for more than {DOUBLED_GRACE} s")
        holding = {job.key: job for jobs in live.values() for job in jobs if job.state in ("RUNNING", "SUSPENDED")}
        for key in {k for r, k in self._since if r == "idle-berth"} | set(holding):
            job = holding.get(key)
            if self._lasts("idle-berth", key, job is not None and not self._wanted(job), now, IDLE_GRACE, by_leader=True):
                self._violate("idle-berth", now, key, f"job {job.id} ({job.name}) holds {','.join(job.node_names)} for no pod")
        living = {pod.uid: pod for pod in self.pods.values() if pod.node and not pod.over}
        for uid in {k for r, k in self._since if r == "homeless"} | set(living):
            pod = living.get(uid)
            if self._lasts("homeless", uid, pod is not None and not self._housed(pod, view), now, HOMELESS_GRACE):
                self._violate("homeless", now, uid, f"pod {pod.ns}/{pod.name} lives on {pod.node}, and its job {pod.job[0]} does not hold it")

    def _wanted(self, job):
        """Whether any pod lives, or waits, for which the job may be."""
        for pod in self.pods.values():
            if not pod.over and pod.ns == job.ticket["ns"]:
                if pod.job == job.key or pod.uid == job.ticket["uid"]:
                    return True
                if job.ticket["kind"] != "Pod" and any(job.ticket["uid"].startswith(owner) or owner == job.ticket["name"] for owner in pod.owners):
                    return True
        return False

    @staticmethod
    def _housed(pod, view):
        job = view.jobs.get(pod.job[0])
        return job is not None and job.key == pod.job and not job.over and pod.node in job.node_names

    def _judge_owners(self, view):
        for job in view.jobs.values():
            if job.ticket and job.user != self._tenants.get(job.ticket["ns"]):
                self._violate("stranger", view.ended, job.key, f"job {job.id} ({job.name}) belongs to {job.user}, namespace {job.ticket['ns']} does not")
        for pod in self.pods.values():
            berth = self.berths.get(pod.job)
            if pod.node and berth and (berth.ticket["ns"] != pod.ns or berth.ticket["kind"] == "Pod" and berth.ticket["uid"] != pod.uid):
                self._violate("stranger", view.ended, pod.uid, f"pod {pod.ns}/{pod.name} runs for job {pod.job[0]} of {berth.ticket['ns']}/{berth.ticket['name']}")

    # --- the kernel

    def known(self):
        """The pods as they are now: to be asked before a look at the kernel is begun, and given to kernel() with it."""
        return dict(self.pods)

    def kernel(self, look, known):
        """Judged by _judge_look() once a view from after it is there."""
        self.counts["looks"] += 1
        homes = {}
        for (uid, node), pids in look.pods.items():
            if uid in homes:
                self._violate("bound-twice", look.began, uid, f"pod {uid} has processes on {homes[uid]} and {node}: {pids}")
            homes[uid] = node
        self._judge_crowds(look, known)
        self._looks = self._looks[-LOOKS_KEPT:] + [look]

    def _judge_crowds(self, look, known):
        """Who lives, by the API or by the kernel, fits into what the job has. Pods seen in the API before the look and processes in it: that
        order makes a pod that took a dead one's place too early visible."""
        rooms = {}
        alive = {uid for uid, _ in look.pods}
        for uid in alive | set(known):
            pod = known.get(uid) or self._dead.get(uid)
            if pod and pod.node and (uid in alive or not pod.over):
                rooms.setdefault((pod.job, pod.node), []).append(pod)
        for (key, node), pods in rooms.items():
            berth = self.berths.get(key)
            if not berth or node not in berth.rooms:
                continue
            cpus, memory = berth.rooms[node]
            asked, names = sum(pod.milli_cpu for pod in pods), sorted(pod.name for pod in pods)
            if asked > 1000 * len(cpus) or sum(pod.memory for pod in pods) > memory > 0:
                self._violate("crowded", look.began, (key, node), f"{names} ask for {asked}m CPUs on {node}, where job {key[0]} has {len(cpus)}")
            slots = [pod.slot for pod in pods if pod.slot]
            if len(slots) != len(set(slots)):
                self._violate("crowded", look.began, (key, node, "slot"), f"{names} of job {key[0]} on {node} share a slot: {sorted(slots)}")

    def _judge_look(self, look, after):
        """Who was given the same CPUs and lived at the same moment. A native job counts when it ran in a view before the look and in one
        after it."""
        before = [view for view in self._views if view.ended < look.began]
        if not before:
            return
        before = before[-1]
        self.counts["judged looks"] += 1
        tenants = {}  # node -> [(who, CPU ids or None, milli CPUs, key)]
        for (uid, node), pids in look.pods.items():
            pod = self.pods.get(uid) or self._dead.get(uid)
            berth = pod and self.berths.get(pod.job)
            if not pod or berth and berth.suspended:
                continue
            cpus = berth.rooms[node][0] if berth and node in berth.rooms else None
            tenants.setdefault(node, []).append((f"pod {pod.ns}/{pod.name} (job {pod.job[0]}, {berth.state if berth else 'unknown'}, pids {pids})",
                                                 cpus, pod.milli_cpu, pod.job))
        for name, number, node, pid in look.natives:
            jobs = [view.jobs.get(number) for view in (before, after)]
            if all(job and job.name == name and job.state == "RUNNING" and node in job.nodes for job in jobs):
                cpus = jobs[1].nodes[node][0]
                tenants.setdefault(node, []).append((f"native job {number} ({name}, pid {pid})", cpus, 1000 * len(cpus), number))
        for node, here in tenants.items():
            self._judge_node(look, after, node, here)

    def _judge_node(self, look, after, node, here):
        pods = [one for one in here if isinstance(one[3], tuple)]
        for at, one in enumerate(here):
            for other in here[at + 1:]:
                if one[3] != other[3] and one in pods and one[1] and other[1] and one[1] & other[1]:
                    self._violate("room-shared", look.began, (one[3], other[3], node),
                                  f"on {node} {one[0]} and {other[0]} lived at the same moment, and both were given CPUs {sorted(one[1] & other[1])}")
        seen, total = set(), 0
        for _, _, amount, key in here:
            if isinstance(key, tuple) or key not in seen:
                total += amount
                seen.add(key)
        if pods and node in after.nodes and total > 1000 * after.nodes[node][1]:
            self._violate("room-shared", look.began, (node, tuple(sorted(str(one[3]) for one in here))),
                          f"{total}m CPUs are in use on {node}, which has {after.nodes[node][1]}: " + "; ".join(one[0] for one in here))
