#include "agent/tool/story.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "agent/keys.h"
#include "agent/slurm/reason.h"
#include "agent/tool/moments.h"
#include "agent/tool/reasons.h"

namespace berth::tool {

namespace {

using slurm::JobState;
using slurm::QueuedJob;

constexpr std::int64_t controller_patience = 10;  // a pod that nobody has touched for so many seconds has no controller
constexpr std::int64_t bind_patience = 30;        // from allocation to binding

class Teller {
  public:
    explicit Teller(const Case &facts) : facts_(facts) {}

    Story tell() {
        if (!facts_.pod)
            absent();
        else
            present(*facts_.pod);
        add_last_event();
        return std::move(story_);
    }

  private:
    const QueuedJob *job() const { return facts_.jobs.empty() ? nullptr : &facts_.jobs.front(); }
    std::string title() const { return fmt::format("Pod {}/{}", facts_.ns, facts_.name); }
    void detail(const char *name, std::string text) { story_.details.emplace_back(name, std::move(text)); }
    void say(const char *verdict, std::string summary, std::string advice) {
        story_.verdict = verdict;
        story_.summary = std::move(summary);
        story_.advice = std::move(advice);
    }

    void absent();
    void present(const kube::Pod &pod);
    void ours(const kube::Pod &pod);
    void bound(const kube::Pod &pod);
    void without_job(const kube::Pod &pod);
    void waiting(const QueuedJob &job);
    void unbound(const kube::Pod &pod, const QueuedJob &job);
    void ended(const QueuedJob *job);
    void add_workload(const kube::Pod &pod);
    void add_tenant(const kube::Pod &pod);
    void add_job();
    void add_last_event();
    bool slurm_unknown() const { return !facts_.slurm_problem.empty(); }

    const Case &facts_;
    Story story_;
};

std::string end_words(const QueuedJob &job) {
    if (job.state_name == "TIMEOUT")
        return "its time limit was over";
    if (job.state_name == "CANCELLED")
        return "somebody cancelled the job (scancel), or its pod was deleted";
    if (job.state_name == "PREEMPTED")
        return "a job of higher rank needed its place";
    if (job.state_name == "NODE_FAIL")
        return "its node failed";
    if (job.state_name == "DEADLINE")
        return "it could not end before its deadline";
    if (job.state_name == "COMPLETED")
        return "its pods succeeded";
    if (job.state_name == "FAILED")
        return "a pod of it failed, or Slurm could not start it";
    return "see sacct";
}

std::string end_advice(const QueuedJob &job) {
    if (job.state_name == "TIMEOUT")
        return "Ask for more time (annotation slurmjob.slinky.slurm.net/timelimit), or make the work shorter, and create the pod again.";
    if (job.state_name == "PREEMPTED" || job.state_name == "NODE_FAIL")
        return "Create the pod again; a Job or Deployment does that by itself.";
    if (job.state_name == "CANCELLED")
        return fmt::format("Create the pod again if it was not meant. sacct -j {} says who cancelled it.", job.id);
    return fmt::format("sacct -j {} has the details.", job.id);
}

// What pods are told in their condition, as a sentence of its own.
std::string waiting_advice(const QueuedJob &job) {
    std::string advice = slurm::reason_advice(job.reason, job.id);
    if (job.reason == "Priority" || job.reason == "Resources")
        return fmt::format(
            "Wait: {}. A shorter time limit (annotation slurmjob.slinky.slurm.net/timelimit) may let it start earlier, in a gap.", advice);
    if (job.reason == "None" || job.reason == "SchedDefer" || job.reason == "Cleaning")
        return "Wait some seconds and ask again.";
    if (advice.empty())
        return "See squeue(1), JOB REASON CODES, or ask the site's administrators.";
    advice.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(advice.front())));
    return advice + ".";
}

void Teller::absent() {
    const QueuedJob *const last = job();
    if (last != nullptr && last->lives()) {
        add_job();
        return say("absent", fmt::format("There is no pod {}/{}, but Slurm job {} holds a place for it.", facts_.ns, facts_.name, last->id),
                   "Nothing, if the pod was deleted just now: the job ends by itself within a minute. If it stays, see whether berthd's "
                   "controller runs: berth doctor.");
    }
    if (last != nullptr) {
        add_job();
        return say("absent",
                   fmt::format("There is no pod {}/{} any more. Its Slurm job {} ended: {}, {}.", facts_.ns, facts_.name, last->id,
                               last->state_name, end_words(*last)),
                   end_advice(*last));
    }
    say("absent", fmt::format("There is no pod {}/{}.", facts_.ns, facts_.name),
        fmt::format("Check the name and the namespace: kubectl get pods -n {}.", facts_.ns));
}

void Teller::add_workload(const kube::Pod &pod) {
    const QueuedJob *const first = job();
    if (first != nullptr && first->ticket && !first->ticket->single()) {
        const Ticket &ticket = *first->ticket;
        detail("workload", fmt::format("{} {}/{}, {} pods that start together", ticket.kind, ticket.ns, ticket.name, ticket.gang));
    } else if (!pod.owner.empty()) {
        detail("owner", fmt::format("{} {}/{}", pod.owner.kind, pod.ns, pod.owner.name));
    }
}

void Teller::add_tenant(const kube::Pod &pod) {
    if (!facts_.tenants_known)
        return;
    detail("tenant", facts_.tenant.empty() ? fmt::format("none: berth.yaml has no entry for namespace {}", pod.ns)
                                           : fmt::format("{} in Slurm, by berth.yaml", facts_.tenant));
}

void Teller::add_job() {
    for (const QueuedJob &one : facts_.jobs) {
        std::string text = fmt::format("{} {}", one.id, one.completing ? one.state_name + " (COMPLETING)" : one.state_name);
        if (!facts_.user.empty())
            text += ", user " + facts_.user;
        if (!one.account.empty())
            text += ", account " + one.account;
        text += ", partition " + one.partition;
        if (!one.qos.empty())
            text += ", QOS " + one.qos;
        if (one.pending() && one.submit_time != 0)
            text += fmt::format("; waiting for {}", duration_words(facts_.now - one.submit_time));
        detail("job", text);
    }
}

// The last thing that was said about the pod, when it is not what the story says already.
void Teller::add_last_event() {
    const auto last =
        std::find_if(facts_.events.rbegin(), facts_.events.rend(), [](const PodEvent &event) { return event.type == "Warning"; });
    if (last == facts_.events.rend() || story_.summary.find(last->message) != std::string::npos)
        return;
    for (const auto &[name, text] : story_.details)
        if (text.find(last->message) != std::string::npos)
            return;
    const std::string when = last->at != 0 ? fmt::format(" ({} ago)", duration_words(facts_.now - last->at)) : "";
    detail("event", fmt::format("{}: {}{}", last->reason, last->message, when));
}

void Teller::present(const kube::Pod &pod) {
    if (pod.scheduler_name != facts_.scheduler) {
        detail("scheduler", fmt::format("{}, not Berth's ({})", pod.scheduler_name, facts_.scheduler));
        const bool has_node = !pod.node_name.empty();
        return say(
            "other_scheduler",
            fmt::format("{} names another scheduler, {}: Berth leaves it alone{}.", title(), pod.scheduler_name,
                        has_node ? fmt::format(", and it is on node {}", pod.node_name) : ""),
            has_node ? "Nothing." : fmt::format("To have Slurm schedule it, create it with spec.schedulerName: {}.", facts_.scheduler));
    }
    detail("scheduler", pod.scheduler_name + " (Berth)");
    add_tenant(pod);
    add_workload(pod);
    ours(pod);
}

void Teller::ended(const QueuedJob *last) {
    add_job();
    if (last == nullptr || last->lives())
        return say("ended", fmt::format("{} was ended by Slurm: {}.", title(), facts_.disruption),
                   "Create the pod again; a Job or Deployment does that by itself.");
    say("ended", fmt::format("{} was ended by Slurm: job {} is {}, {}.", title(), last->id, last->state_name, end_words(*last)),
        end_advice(*last));
}

void Teller::ours(const kube::Pod &pod) {
    if (pod.terminal()) {
        if (!facts_.disruption.empty())
            return ended(job());
        add_job();
        const bool good = pod.phase == kube::Phase::succeeded;
        if (!pod.node_name.empty())
            detail("node", pod.node_name);
        return say("finished",
                   good ? fmt::format("{} has succeeded.", title())
                        : fmt::format("{} has failed: {}.", title(),
                                      pod.exit_reason.empty() ? fmt::format("exit code {}", pod.exit_code)
                                                              : fmt::format("{}, exit code {}", pod.exit_reason, pod.exit_code)),
                   good ? "Nothing." : fmt::format("Look at its output: kubectl logs -n {} {}.", facts_.ns, facts_.name));
    }
    if (!pod.node_name.empty())
        return bound(pod);
    if (pod.deleting) {
        add_job();
        return say("deleting", fmt::format("{} is being deleted.", title()),
                   "Nothing. If it stays, a finalizer holds it: kubectl get pod -o yaml shows which.");
    }
    if (pod.gated)
        return say("gated", fmt::format("{} has scheduling gates: nobody may schedule it before they are removed.", title()),
                   "Wait for whoever set the gates (kubectl get pod -o jsonpath={.spec.schedulingGates}), or remove them.");
    if (slurm_unknown()) {
        detail("slurm", facts_.slurm_problem);
        if (!pod.scheduled_message.empty())
            detail("told", pod.scheduled_message);
        return say("unknown", fmt::format("{} waits, and slurmctld cannot be asked why.", title()),
                   "Try again when slurmctld answers (scontrol ping).");
    }
    const QueuedJob *const first = job();
    if (first == nullptr)
        return without_job(pod);
    const auto state = [this](JobState wanted) {
        return std::any_of(facts_.jobs.begin(), facts_.jobs.end(), [wanted](const QueuedJob &one) { return one.state == wanted; });
    };
    if (state(JobState::ended))
        return ended(first);
    if (state(JobState::pending))
        return waiting(*std::find_if(facts_.jobs.begin(), facts_.jobs.end(), [](const QueuedJob &one) { return one.pending(); }));
    unbound(pod, *first);
}

void Teller::bound(const kube::Pod &pod) {
    const std::string_view id = pod.annotation(keys::job_id);
    const QueuedJob *const first = job();
    detail("node", pod.node_name);
    // A job that is COMPLETED or FAILED was ended by its pods.
    if (!facts_.disruption.empty() ||
        (first != nullptr && !first->lives() && first->state_name != "COMPLETED" && first->state_name != "FAILED"))
        return ended(first);
    add_job();
    if (pod.deleting)
        return say(
            "deleting", fmt::format("{} is being deleted; it is on node {}.", title(), pod.node_name),
            "Nothing: its place is given back when its processes are gone. If that lasts, look at the kubelet and at berthd on that node.");
    if (id.empty())
        return say("running", fmt::format("{} is on node {}, but not by Berth: it carries no Slurm job.", title(), pod.node_name),
                   "Find out who bound it. Its room there was not given by Slurm.");
    if (first != nullptr && first->state == JobState::suspended)
        return say("suspended", fmt::format("{} is on node {}, and its Slurm job {} is suspended.", title(), pod.node_name, id),
                   fmt::format("An operator suspended the job and lets it go on with: scontrol resume {}.", id));
    if (pod.phase == kube::Phase::running)
        return say("running", fmt::format("{} runs on node {} in the place of Slurm job {}.", title(), pod.node_name, id), "Nothing.");
    if (!facts_.container_waits.empty())
        detail("container", facts_.container_waits);
    say("starting", fmt::format("{} has its place on node {} (Slurm job {}), and the kubelet is starting it.", title(), pod.node_name, id),
        facts_.container_waits.empty() || facts_.container_waits.starts_with("ContainerCreating")
            ? "Wait. If it lasts, the pod's events say what the kubelet waits for: kubectl describe pod."
            : "Look at what the kubelet says of its containers: kubectl describe pod. Slurm's part is done.");
}

void Teller::without_job(const kube::Pod &pod) {
    const std::int64_t age = facts_.now - pod.created;
    const bool told = pod.scheduled_status == "False" && !pod.scheduled_message.empty();
    if (told && pod.scheduled_reason == "WaitingForGang")
        return say(
            "gathering", fmt::format("{} waits for the other pods of its gang: {}.", title(), pod.scheduled_message),
            "Make sure that all of its pods are created: look at its owner (kubectl describe) and at quotas. Nothing is submitted before "
            "they are all there.");
    const bool stale = pod.scheduled_message.starts_with("Slurm job ");
    if (told && !stale)
        return say("refused", fmt::format("{} was not submitted to Slurm: {}.", title(), pod.scheduled_message),
                   "Correct what the message names. It is tried again by itself, at most a minute later.");
    if (facts_.tenants_known && facts_.tenant.empty())
        return say("refused", fmt::format("{} is nobody in Slurm: no tenant in berth.yaml matches namespace {}.", title(), pod.ns),
                   "Create the pod in a namespace that has a tenant, or ask the site's administrators for an entry in berth.yaml.");
    if (age < controller_patience)
        return say("unseen", fmt::format("{} was created {} ago and has no Slurm job yet.", title(), duration_words(age)),
                   "Wait some seconds and ask again.");
    if (stale)
        detail("told", pod.scheduled_message);
    say("unseen", fmt::format("{} has been there for {}, and Slurm has no job for it that you may see.", title(), duration_words(age)),
        "Is berthd's controller running on slurmctld's host, and does it know this scheduler name? Ask there: systemctl status berthd; "
        "berth doctor.");
}

void Teller::waiting(const QueuedJob &pending) {
    add_job();
    const std::string_view words = reason_words(pending.reason);
    const bool never = slurm::can_never_start(pending.reason);
    detail("reason", fmt::format("{}: {}{}", pending.reason, words,
                                 pending.reason_detail.empty() ? "" : fmt::format(" ({})", pending.reason_detail)));
    if (!never && pending.start_time > facts_.now)
        detail("start", "expected " + moment_words(pending.start_time, facts_.now));
    if (!never && facts_.ahead > 0)
        detail("ahead", fmt::format("{} pending {} of higher priority in its partition", facts_.ahead, facts_.ahead == 1 ? "job" : "jobs"));
    if (never)
        return say("never", fmt::format("{} cannot start as it is: Slurm job {} is pending, {}.", title(), pending.id, words),
                   waiting_advice(pending));
    say("pending", fmt::format("{} waits in Slurm's queue: job {} is pending, {}.", title(), pending.id, words), waiting_advice(pending));
}

void Teller::unbound(const kube::Pod &pod, const QueuedJob &running) {
    add_job();
    if (running.state == JobState::suspended)
        return say("suspended", fmt::format("{} waits: its Slurm job {} is suspended.", title(), running.id),
                   fmt::format("An operator suspended the job and lets it go on with: scontrol resume {}.", running.id));
    detail("nodes", running.nodes);
    const std::int64_t since = running.start_time != 0 ? facts_.now - running.start_time : 0;
    if (pod.scheduled_status == "False" && !pod.scheduled_message.empty() && !pod.scheduled_message.starts_with("Slurm job "))
        detail("told", pod.scheduled_message);
    const std::string words = fmt::format("{} has its place on {} (Slurm job {}, for {}) and is not bound yet", title(), running.nodes,
                                          running.id, duration_words(since));
    if (since < bind_patience)
        return say("unbound", words + ".", "Wait some seconds and ask again.");
    say("unbound", words + ".",
        fmt::format(
            "Look at the agent on {}: systemctl status berthd, journalctl -u berthd. It binds the pod when the Kubernetes node is ready "
            "and schedulable and the pod's volumes are there.",
            running.nodes));
}

Tone verdict_tone(std::string_view verdict) {
    if (verdict == "running" || verdict == "finished")
        return Tone::good;
    return verdict == "refused" || verdict == "never" || verdict == "ended" ? Tone::bad : Tone::heading;
}

}  // namespace

Story tell(const Case &facts) { return Teller(facts).tell(); }

std::string to_text(const Story &story, const Paint &paint) {
    std::string out = paint(verdict_tone(story.verdict), story.summary) + "\n";
    std::size_t widest = 0;
    for (const auto &[name, text] : story.details)
        widest = std::max(widest, name.size());
    if (!story.details.empty())
        out += "\n";
    for (const auto &[name, text] : story.details)
        out += fmt::format("  {}  {}\n", paint(Tone::faint, fmt::format("{:<{}}", name, widest)), text);
    return out + fmt::format("\n{} {}\n", paint(Tone::heading, "What to do:"), story.advice);
}

JsonObject to_json(const Story &story, const Case &facts) {
    JsonObject out;
    out.add("pod", facts.ns + "/" + facts.name).add("verdict", story.verdict).add("summary", story.summary);
    std::vector<JsonObject> details, jobs;
    for (const auto &[name, text] : story.details)
        details.push_back(JsonObject().add("name", name).add("text", text));
    for (const QueuedJob &job : facts.jobs) {
        JsonObject one;
        one.add("id", job.id).add("state", job.state_name).add("reason", job.reason).add("user", facts.user).add("account", job.account);
        one.add("partition", job.partition).add("qos", job.qos).add("priority", job.priority).add("nodes", job.nodes);
        one.add_time("submitted", job.submit_time).add_time("start", job.start_time).add_time("end", job.end_time);
        jobs.push_back(one);
    }
    out.add("node", facts.pod ? facts.pod->node_name : "").add("jobs", jobs).add("ahead", facts.ahead).add("details", details);
    out.add("advice", story.advice);
    return out;
}

}  // namespace berth::tool
