"""Scenes for the checker: recorded moments, each with the rule that must fire, or with none. Without a lab; test/chaos --self-test
plays them all. A scene and its innocent twin stand side by side, for a rule that always fires is as useless as one that never does.
"""

from observe import AuditEye, Bind, Job, KernelLook, Pod, SlurmView, Write, parse_jobs, parse_nodes
from rules import COMPLETING_SLACK, DOUBLED_GRACE, END_SLACK, GUARD_GRACE, HOMELESS_GRACE, IDLE_GRACE, LEADERLESS_GRACE, LONGEST_WAY, STATE_SAVED, Judge

TENANTS = {"default": "lab_alice", "team-b": "lab_bob"}
NONCE = "0123456789abcdef"


class Stage:
    """A judge, and a clock that goes on by a tenth of a second with each observation."""

    def __init__(self):
        self.now, self.boot = 100.0, "first"
        self.judge = Judge(TENANTS)

    def tick(self, seconds=0.1):
        self.now += seconds
        return self.now

    def slurm(self, *jobs, nodes=None):
        began = self.tick()
        self.judge.slurm(SlurmView(began, self.tick(0.05), self.boot, {job.id: job for job in jobs}, nodes or {"n1": ("IDLE", 4, "")}))

    def pod(self, pod, gone=False):
        self.judge.pod(self.tick(), pod, gone)

    def bind(self, pod, after=0.1, code=201):
        at = self.tick(after)
        self.judge.bind(Bind(pod.uid, f"{pod.ns}/{pod.name}", pod.job, pod.node, at, self.tick(0.01), code, "berth-node:n1"))

    def kernel(self, *pods, natives=()):
        known, began = self.judge.known(), self.tick()
        self.judge.kernel(KernelLook(began, self.tick(0.02), {(pod.uid, pod.node): [77] for pod in pods}, list(natives)), known)

    def write(self, agent, on_its_way=0.0, code=200, holder=None, term=""):
        received = self.tick()
        self.judge.write(Write(agent, "patch a pod", received, self.tick(0.01), code, holder, term, received - on_its_way))

    def lease(self, agent, holder=None, code=200, term="1"):
        self.write(agent, code=code, holder=agent if holder is None else holder, term=term)

    def lead(self, agent, seconds, *jobs, term="1"):
        """So long it leads and renews, and these are the jobs."""
        until = self.now + seconds
        while self.now < until:
            self.lease(agent, term=term)
            self.slurm(*jobs)
            self.tick(1)

    def conclude(self):
        self.tick(2)
        self.slurm()

    def restart(self):
        self.boot = f"after {self.now}"


def placeholder(number=1, state="RUNNING", uid="u1", nonce=NONCE, user="lab_alice", ns="default", cpus=(0, 1), node="n1", **ticket):
    full = {"berth": 1, "ns": ns, "kind": "Pod", "name": "p", "uid": uid, "nonce": nonce, **ticket}
    rooms = {node: (set(cpus), 128)} if state in ("RUNNING", "SUSPENDED") else {}
    names = () if state == "PENDING" else (node,)
    return Job(number, f"{ns}/{full['name']}", user, "", "main", state, rooms, names, full)


def native(number, name="w1", state="RUNNING", cpus=(2, 3), node="n1"):
    return Job(number, name, "lab_bob", "", "main", state, {node: (set(cpus), 64)} if state == "RUNNING" else {}, (node,))


def docked(uid="u1", number=1, nonce=NONCE, node="n1", cpu=2000, ns="default", **words):
    return Pod(uid, ns, uid, node, (number, nonce), milli_cpu=cpu, memory=64, **words)


def waiting(uid="u1", **words):
    return Pod(uid, "default", uid, **words)


def bound_pod(stage, **words):
    """A pod bound as it should be."""
    pod = docked(**words)
    stage.pod(waiting(pod.uid))
    stage.slurm(placeholder(pod.job[0], uid=pod.uid))
    stage.bind(pod)
    stage.pod(pod)
    stage.slurm(placeholder(pod.job[0], uid=pod.uid))
    return pod


# --- scene(stage); the rule that must fire is in its name after "__", none in an innocent one

def a_pod_runs_and_ends(stage):
    pod = bound_pod(stage)
    stage.kernel(pod)
    stage.pod(docked(phase="Succeeded"))
    stage.slurm(placeholder(state="COMPLETED"))
    stage.kernel(natives=[("w1", 2, "n1", 5)])
    stage.slurm(placeholder(state="COMPLETED"), native(2))
    stage.pod(docked(phase="Succeeded"), gone=True)
    stage.slurm(native(2))


def bound_by_hand__past_slurm(stage):
    stage.slurm()
    stage.pod(waiting())
    stage.pod(Pod("u1", "default", "u1", "n1"))
    stage.slurm()


def bound_while_pending__past_slurm(stage):
    stage.pod(waiting())
    stage.slurm(placeholder(state="PENDING"))
    stage.pod(docked())
    stage.slurm(placeholder(state="PENDING"))


def bound_to_another_node__past_slurm(stage):
    stage.pod(waiting())
    stage.slurm(placeholder())
    stage.pod(docked(node="n2"))
    stage.slurm(placeholder())


def bound_with_another_nonce__past_slurm(stage):
    stage.pod(waiting())
    stage.slurm(placeholder())
    stage.pod(docked(nonce="ffffffffffffffff"))
    stage.slurm(placeholder())


def slurmctld_forgot_the_job_of_a_bound_pod(stage):
    stage.slurm()
    stage.pod(waiting())
    stage.pod(docked())
    stage.restart()
    stage.slurm()


def bound_past_slurm_long_after_a_restart__past_slurm(stage):
    stage.pod(waiting())
    stage.slurm()
    stage.restart()
    stage.slurm()
    stage.tick(LONGEST_WAY + STATE_SAVED)
    stage.pod(docked())
    stage.slurm()


def bound_after_its_job_was_over__after_end(stage):
    stage.pod(waiting())
    stage.slurm(placeholder())
    stage.slurm(placeholder(state="CANCELLED"))
    stage.bind(docked(), after=END_SLACK + 0.1)
    stage.slurm(placeholder(state="CANCELLED"))


def bound_long_into_the_end__after_end(stage):
    stage.slurm(placeholder(state="COMPLETING"))
    stage.bind(docked(), after=COMPLETING_SLACK + 0.1)
    stage.slurm(placeholder(state="COMPLETING"))


def bound_after_the_job_was_purged__after_end(stage):
    stage.slurm(placeholder())
    stage.slurm()
    stage.bind(docked(), after=END_SLACK + 0.1)
    stage.slurm()


def end_and_binding_cross(stage):
    stage.slurm(placeholder(state="COMPLETING"))
    stage.bind(docked())
    stage.slurm(placeholder(state="COMPLETING"))


def slurmctld_forgot_the_end_as_well(stage):
    """The job was over, slurmctld was killed before it had written that down, and the job runs on; no view has shown it yet."""
    stage.slurm(placeholder())
    stage.slurm(placeholder(state="CANCELLED"))
    stage.restart()
    stage.slurm()
    stage.bind(docked(), after=END_SLACK + 1)
    stage.slurm(placeholder())


def refused_binding_after_the_end(stage):
    stage.slurm(placeholder(state="CANCELLED"))
    stage.bind(docked(), after=END_SLACK + 1, code=409)
    stage.slurm(placeholder(state="CANCELLED"))


def two_pods_in_the_room_of_one__crowded(stage):
    bound_pod(stage)
    stage.pod(docked("u2"))
    stage.kernel()


def a_pod_in_the_room_of_a_living_process__crowded(stage):
    old = bound_pod(stage, slot="0.0", uid="u1")
    stage.pod(old, gone=True)
    stage.pod(docked("u2", slot="0.0"))
    stage.kernel(old)


def a_pod_in_a_slot_that_was_left(stage):
    old = bound_pod(stage, slot="0.0")
    stage.pod(old, gone=True)
    stage.pod(docked("u2", slot="0.0"))
    stage.kernel()


def two_pods_of_one_slot__crowded(stage):
    bound_pod(stage, cpu=500, slot="0.0")
    stage.pod(docked("u2", cpu=500, slot="0.0"))
    stage.kernel()


def a_native_job_on_a_living_pods_cpus__room_shared(stage):
    pod = bound_pod(stage)
    stage.slurm(placeholder(state="NODE_FAIL"), native(2, cpus=(1, 2)))
    stage.kernel(pod, natives=[("w1", 2, "n1", 5)])
    stage.slurm(placeholder(state="NODE_FAIL"), native(2, cpus=(1, 2)))


def a_native_job_beside_a_pod(stage):
    pod = bound_pod(stage)
    stage.slurm(placeholder(), native(2))
    stage.kernel(pod, natives=[("w1", 2, "n1", 5)])
    stage.slurm(placeholder(), native(2))


def a_native_process_that_slurm_has_given_up(stage):
    pod = bound_pod(stage)
    stage.slurm(placeholder(), native(2, state="NODE_FAIL"))
    stage.kernel(pod, natives=[("w1", 2, "n1", 5)])
    stage.slurm(placeholder(), native(2, state="NODE_FAIL"))


def a_native_job_with_a_forgotten_pods_cpus__room_shared(stage):
    pod = bound_pod(stage)
    stage.restart()
    stage.slurm(native(1, cpus=(0, 1)))
    stage.kernel(pod, natives=[("w1", 1, "n1", 5)])
    stage.slurm(native(1, cpus=(0, 1)))


def a_native_job_while_the_pods_job_is_suspended(stage):
    pod = bound_pod(stage)
    stage.slurm(placeholder(state="SUSPENDED"), native(2, cpus=(0, 1)))
    stage.kernel(pod, natives=[("w1", 2, "n1", 5)])
    stage.slurm(placeholder(state="SUSPENDED"), native(2, cpus=(0, 1)))


def two_pods_on_the_same_cpus__room_shared(stage):
    first = bound_pod(stage)
    stage.slurm(placeholder(state="CANCELLED"), placeholder(2, uid="u2", nonce="b" * 16))
    second = docked("u2", 2, "b" * 16)
    stage.pod(second)
    stage.kernel(first, second)
    stage.slurm(placeholder(state="CANCELLED"), placeholder(2, uid="u2", nonce="b" * 16))


def more_than_the_node_has__room_shared(stage):
    pod = docked(cpu=2000)
    stage.pod(waiting())
    stage.slurm(native(2, cpus=(0, 1, 2)))
    stage.restart()
    stage.pod(pod)
    stage.slurm(native(2, cpus=(0, 1, 2)))
    stage.kernel(pod, natives=[("w1", 2, "n1", 5)])
    stage.slurm(native(2, cpus=(0, 1, 2)))


def two_bindings__bound_twice(stage):
    pod = bound_pod(stage)
    stage.bind(pod)


def on_two_nodes__bound_twice(stage):
    pod = bound_pod(stage)
    stage.kernel(pod, docked(node="n2"))


def two_live_jobs__doubled(stage):
    stage.pod(waiting())
    for _ in range(2):
        stage.slurm(placeholder(1, "PENDING"), placeholder(2, "PENDING", nonce="b" * 16))
        stage.tick(DOUBLED_GRACE + 1)


def a_lost_answers_second_job_is_found(stage):
    stage.pod(waiting())
    stage.slurm(placeholder(1, "PENDING"), placeholder(2, "PENDING", nonce="b" * 16))
    stage.tick(DOUBLED_GRACE - 10)
    stage.slurm(placeholder(1, "PENDING"), placeholder(2, "CANCELLED", nonce="b" * 16))
    stage.tick(DOUBLED_GRACE)
    stage.slurm(placeholder(1, "PENDING"))


def two_parts_of_one_job(stage):
    stage.pod(waiting(owners=("u1",)))
    for _ in range(2):
        stage.slurm(placeholder(1, "PENDING", kind="Job", part=0), placeholder(2, "PENDING", kind="Job", part=1))
        stage.tick(DOUBLED_GRACE + 1)


def a_pod_lives_on__homeless(stage):
    pod = bound_pod(stage)
    for _ in range(2):
        stage.slurm(placeholder(state="CANCELLED"))
        stage.kernel(pod)
        stage.tick(HOMELESS_GRACE + 1)


def a_job_for_nobody__idle_berth(stage):
    pod = bound_pod(stage)
    stage.pod(pod, gone=True)
    for _ in range(2):
        stage.slurm(placeholder())
        stage.tick(IDLE_GRACE + 1)


def a_job_for_nobody_under_one_leader__idle_berth(stage):
    pod = bound_pod(stage)
    stage.pod(pod, gone=True)
    stage.lead("a", IDLE_GRACE / 2, placeholder())
    stage.lead("b", IDLE_GRACE + 3, placeholder(), term="2")


def a_job_for_nobody_while_leaders_change(stage):
    pod = bound_pod(stage)
    stage.pod(pod, gone=True)
    stage.lead("a", IDLE_GRACE - 5, placeholder())
    stage.lead("a", IDLE_GRACE - 5, placeholder(), term="2")
    stage.tick(IDLE_GRACE / 2)  # nobody leads
    stage.lead("a", IDLE_GRACE / 4, placeholder(), term="2")


def a_job_for_nobody_whoever_leads__idle_berth(stage):
    pod = bound_pod(stage)
    stage.pod(pod, gone=True)
    for term in range(5):
        stage.lead("a", LEADERLESS_GRACE / 4, placeholder(), term=str(term))


def a_gangs_job_while_a_member_waits(stage):
    stage.pod(waiting("u7", owners=("u1",)))
    for _ in range(2):
        stage.slurm(placeholder(kind="Job", uid="u1/7"))
        stage.tick(IDLE_GRACE + 1)


def anothers_job__stranger(stage):
    stage.slurm(placeholder(user="lab_bob"))


def roots_job__stranger(stage):
    stage.slurm(placeholder(user="root"))


def a_pod_on_another_namespaces_job__stranger(stage):
    stage.slurm(placeholder(ns="team-b", user="lab_bob", uid="u9"))
    stage.pod(docked())
    stage.slurm(placeholder(ns="team-b", user="lab_bob", uid="u9"))


def a_pod_of_its_own_namespace_on_anothers_job__stranger(stage):
    stage.pod(waiting())
    stage.slurm(placeholder(uid="u9"))
    stage.pod(docked())
    stage.slurm(placeholder(uid="u9"))


def a_gangs_pod_on_another_namespaces_job__stranger(stage):
    stage.pod(waiting())
    stage.slurm(placeholder(ns="team-b", user="lab_bob", kind="Job"))
    stage.pod(docked())
    stage.slurm(placeholder(ns="team-b", user="lab_bob", kind="Job"))


def one_leads_and_another_follows(stage):
    stage.lease("a")
    stage.write("a")
    stage.lease("b", code=409)
    stage.write("a")
    stage.tick(10)
    stage.lease("b")
    stage.write("b")
    stage.lease("a")
    stage.write("a")
    stage.conclude()


def a_leader_that_was_replaced_writes__deposed(stage):
    stage.lease("a")
    stage.tick(10)
    stage.lease("b")
    stage.write("a", code=409)  # an attempt is enough: the next one may be accepted
    stage.conclude()


def a_leaders_last_word_that_the_wire_kept(stage):
    stage.lease("a")
    stage.tick(10)
    stage.lease("b")
    stage.write("a", on_its_way=5)
    stage.conclude()


def a_late_word_that_the_wire_kept_for_less__deposed(stage):
    stage.lease("a")
    stage.tick(10)
    stage.lease("b")
    stage.tick(5)
    stage.write("a", on_its_way=4)
    stage.conclude()


def a_leader_that_let_go_writes__deposed(stage):
    stage.lease("a")
    stage.lease("a", holder="")
    stage.write("a")
    stage.conclude()


def one_that_never_led_writes__deposed(stage):
    stage.lease("a")
    stage.write("b")
    stage.conclude()


def a_job_of_a_term_before__deposed(stage):
    stage.slurm()
    stage.slurm(placeholder(1, term=8))
    stage.slurm(placeholder(1, term=8), placeholder(2, uid="u2", nonce="b" * 16, term=7))


def a_job_of_a_term_before_that_came_first(stage):
    stage.slurm()
    stage.slurm(placeholder(2, term=8))
    stage.slurm(placeholder(2, term=8), placeholder(1, uid="u2", nonce="b" * 16, term=7))


def a_slurmctld_that_started_has_not_heard_of_the_term(stage):
    stage.slurm()
    stage.slurm(placeholder(1, term=8))
    stage.restart()
    stage.slurm(placeholder(1, term=8), placeholder(2, uid="u2", nonce="b" * 16, term=7))


def its_owner_renames_a_placeholder__altered(stage):
    stage.pod(waiting())
    stage.slurm(placeholder(state="PENDING"))
    stage.tick(GUARD_GRACE + 1)
    stage.slurm(placeholder(state="PENDING"))
    renamed(stage)


def its_owner_renames_one_that_nobody_guards_yet(stage):
    stage.pod(waiting())
    stage.slurm(placeholder(state="PENDING"))
    renamed(stage)
    stage.tick(GUARD_GRACE + 1)
    renamed(stage)


def renamed(stage):
    """A view with the placeholder, renamed by its owner."""
    job = placeholder(state="PENDING")
    job.name = "mine"
    stage.slurm(job)


def its_owner_renames_one_whose_end_slurmctld_may_have_forgotten(stage):
    stage.pod(waiting())
    stage.slurm(placeholder(state="PENDING"))
    stage.tick(GUARD_GRACE + 1)
    stage.slurm(placeholder(state="PENDING"))
    stage.restart()
    renamed(stage)


def its_owner_renames_one_long_after_slurmctld_was_started__altered(stage):
    stage.pod(waiting())
    stage.slurm(placeholder(state="PENDING"))
    stage.restart()
    stage.slurm(placeholder(state="PENDING"))
    stage.tick(GUARD_GRACE + 1)
    stage.slurm(placeholder(state="PENDING"))
    renamed(stage)


def a_node_that_berth_drained__drained(stage):
    stage.slurm(nodes={"n1": ("IDLE+DRAIN", 4, "berth: pod default/p of job 1 is not proven gone after 120 s")})


def a_node_whose_prolog_failed__drained(stage):
    stage.slurm(nodes={"n1": ("IDLE+DRAIN", 4, "Prolog error")})


def a_node_that_an_operator_drained(stage):
    stage.slurm(nodes={"n1": ("IDLE+DRAIN", 4, "chaos")})


# --- who may vanish: excuses are as narrow as what happened

def excuses():
    """[(what, whether the pod is excused, whether it should be)]"""
    out = []

    def scene(what, expected, after, uid="u1"):
        stage = Stage()
        pod = bound_pod(stage, owners=("o1",))
        after(stage, pod)
        out.append((what, stage.judge.excused(uid), expected))

    def restarted(*jobs, ended_first=False, gone_late=False):
        def after(stage, pod):
            if ended_first:
                stage.pod(docked(phase="Failed"))
                stage.slurm(placeholder(state="FAILED"))
            stage.restart()
            if gone_late:
                stage.pod(pod, gone=True)
            stage.slurm(*jobs)
        return after

    scene("a job that slurmctld forgot", True, restarted())
    scene("and the pod went before the checker looked again", True, restarted(gone_late=True))
    scene("an owner of such a pod", True, restarted(), uid="o1")
    scene("a job that waits again", True, restarted(placeholder(state="PENDING")))
    scene("a job on another node", True, restarted(placeholder(node="n2")))
    scene("a job that slurmctld remembers", False, restarted(placeholder()))
    scene("a pod that was over when slurmctld was started", False, restarted(ended_first=True))
    scene("no restart at all", False, lambda stage, pod: stage.slurm())
    scene("a node that Slurm gave up", True, lambda stage, pod: stage.slurm(placeholder(state="NODE_FAIL")))
    return out


# --- the readers, on recorded text

JOBS = """JobId=12 JobName=default/w3
   UserId=lab_alice(20001) GroupId=lab_alice(20001) MCS_label=N/A
   Priority=4294901748 Nice=0 Account=(null) QOS=(null)
   JobState=RUNNING Reason=None Dependency=(null)
   Partition=main AllocNode:Sid=localhost:7
   NodeList=n[1-2]
   JOB_GRES=(null)
     Nodes=n[1-2] CPU_IDs=0,2-3 Mem=64 GRES=
   AdminComment={"berth":1,"ns":"default","kind":"Pod","name":"w3","uid":"u3","nonce":"0123456789abcdef"}
   Comment=pod default/w3

JobId=13 JobName=w4
   UserId=lab_bob(20002) GroupId=lab_bob(20002) MCS_label=N/A
   JobState=COMPLETING Reason=None Dependency=(null)
   Partition=main AllocNode:Sid=localhost:7
   NodeList=n3
"""


def readers():
    jobs = parse_jobs(JOBS)
    assert jobs[12].nodes == {"n1": ({0, 2, 3}, 64), "n2": ({0, 2, 3}, 64)} and jobs[12].key == (12, "0123456789abcdef"), jobs[12]
    assert jobs[12].user == "lab_alice" and jobs[12].node_names == ("n1", "n2") and not jobs[12].over
    assert jobs[13].ticket is None and jobs[13].nodes == {} and jobs[13].state == "COMPLETING"
    nodes = parse_nodes("NodeName=n1 Arch=x86_64 CPUAlloc=0 CPUTot=4 CPULoad=0.1 RealMemory=4000 State=IDLE+DRAIN ThreadsPerCore=1 "
                        "Reason=berth: pod a/b of job 3 lives [root@2026-11-18T00:00:00]\n")
    assert nodes == {"n1": ("IDLE+DRAIN", 4, "berth: pod a/b of job 3 lives")}, nodes
    assert AuditEye  # read from a real server's log in the sabotage


def play():
    """Plays all scenes; the sentences say what is wrong, and how many there were."""
    wrong, count = [], 0
    for name, scene in list(globals().items()):
        if not callable(scene) or getattr(scene, "__code__", None) is None or scene.__code__.co_varnames[:1] != ("stage",) \
                or scene in (bound_pod, renamed):
            continue
        stage, expected = Stage(), name.partition("__")[2].replace("_", "-")
        scene(stage)
        fired = {violation.rule for violation in stage.judge.violations}
        if fired != ({expected} if expected else set()):
            wrong.append(f"scene {name}: expected {expected or 'nothing'}, fired {[v.text for v in stage.judge.violations]}")
        count += 1
    for what, found, expected in excuses():
        if found != expected:
            wrong.append(f"excuse {what}: {found}, expected {expected}")
        count += 1
    readers()
    return wrong, count
