#include "test/bench/commands.h"

#include "agent/kube/credentials.h"
#include "test/bench/raw_slurm.h"

namespace berth::bench {

namespace {

Json made(json_t *json) { return Json(json, json_decref); }

std::string text(json_t *object, const char *key, const char *otherwise = "") {
    const char *value = json_string_value(json_object_get(object, key));
    return value != nullptr ? value : otherwise;
}

unsigned number(json_t *object, const char *key, unsigned otherwise) {
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? static_cast<unsigned>(json_integer_value(value)) : otherwise;
}

Json trouble(const std::string &what) {
    Json answer = made(json_object());
    json_object_set_new(answer.get(), "error", json_string(what.c_str()));
    return answer;
}

Json to_json(const std::vector<Answer> &answers) {
    json_t *sent = json_array(), *answered = json_array(), *status = json_array(), *uid = json_array();
    std::string problem;
    for (const Answer &answer : answers) {
        json_array_append_new(sent, json_real(answer.sent));
        json_array_append_new(answered, json_real(answer.answered));
        json_array_append_new(status, json_integer(answer.status));
        json_array_append_new(uid, json_string(answer.uid.c_str()));
        if (problem.empty() && (answer.status < 200 || answer.status >= 300))
            problem = answer.error;
    }
    Json out = made(json_object());
    json_object_set_new(out.get(), "sent", sent);
    json_object_set_new(out.get(), "answered", answered);
    json_object_set_new(out.get(), "status", status);
    json_object_set_new(out.get(), "uid", uid);
    json_object_set_new(out.get(), "problem", json_string(problem.c_str()));
    return out;
}

Json to_json(const std::vector<Call> &calls) {
    json_t *sent = json_array(), *answered = json_array(), *job = json_array(), *started = json_array();
    std::string problem;
    for (const Call &call : calls) {
        json_array_append_new(sent, json_real(call.sent));
        json_array_append_new(answered, json_real(call.answered));
        json_array_append_new(job, json_integer(call.job));
        json_array_append_new(started, json_boolean(call.started));
        if (problem.empty())
            problem = call.problem;
    }
    Json out = made(json_object());
    json_object_set_new(out.get(), "sent", sent);
    json_object_set_new(out.get(), "answered", answered);
    json_object_set_new(out.get(), "job", job);
    json_object_set_new(out.get(), "started", started);
    json_object_set_new(out.get(), "problem", json_string(problem.c_str()));
    return out;
}

Size size_of(json_t *command) {
    Size size;
    size.tasks = number(command, "tasks", 1);
    size.cpus_per_task = number(command, "cpus", 1);
    size.nodes = number(command, "nodes", 1);
    size.memory_mib = number(command, "memory", 16);
    size.user = number(command, "user", 0);
    size.name = text(command, "name", "bench");
    size.held = json_is_true(json_object_get(command, "held"));
    return size;
}

}  // namespace

void Commands::run(const std::string &line, const Answered &answered) {
    json_error_t error;
    const Json command = made(json_loads(line.c_str(), 0, &error));
    const std::string what = text(command.get(), "do");
    if (what == "send")
        send(command.get(), answered);
    else if (what == "watch")
        log_.watch(text(command.get(), "scheduler"), [answered] { answered(made(json_object())); });
    else if (what == "count")
        answered(count());
    else if (what == "pods")
        answered(pods());
    else if (what == "forget")
        log_.forget(), answered(made(json_object()));
    else if (what == "allocate" || what == "batch" || what == "kill")
        slurm_calls(command.get(), answered);
    else
        answered(trouble("no such command: " + line.substr(0, 200)));
}

Result<kube::Http *> Commands::http_of(const char *kubeconfig) {
    if (*kubeconfig == '\0')
        return &http_;
    auto &other = others_[kubeconfig];
    if (!other) {
        auto credentials = kube::load_kubeconfig(kubeconfig);
        if (!credentials)
            return Error{credentials.error()};
        other = kube::Http::create(loop_, std::move(*credentials), {});
    }
    return other.get();
}

void Commands::send(json_t *command, const Answered &answered) {
    const auto http = http_of(text(command, "kubeconfig").c_str());
    if (!http)
        return answered(trouble(http.error()));
    Batch batch{text(command, "method", "GET"), text(command, "path"), text(command, "body"), text(command, "type", "application/json"), {},
                number(command, "window", 64)};
    std::size_t index;
    json_t *values, *value;
    const char *name;
    json_array_foreach(json_object_get(command, "values"), index, values) {
        auto &one = batch.values.emplace_back();
        json_object_foreach(values, name, value) {
            one[name] = json_string_value(value) != nullptr ? json_string_value(value) : "";
        }
    }
    auto sender = std::make_shared<Sender>(**http);
    sender->send(std::move(batch), [sender, answered](const std::vector<Answer> &answers) { answered(to_json(answers)); });
}

void Commands::slurm_calls(json_t *command, const Answered &answered) {
    const unsigned threads = number(command, "threads", 4);
    auto &workers = workers_[threads];
    if (!workers)
        workers = std::make_unique<Workers>(loop_, threads);
    const std::string what = text(command, "do");
    std::vector<std::function<Call()>> calls;
    std::size_t index;
    json_t *job;
    json_array_foreach(json_object_get(command, "jobs"), index, job) {
        calls.emplace_back([id = static_cast<std::uint32_t>(json_integer_value(job))] { return kill(id); });
    }
    for (unsigned i = 0; i < number(command, "count", 0); ++i)
        calls.emplace_back([size = size_of(command), what] { return what == "batch" ? submit_batch(size) : allocate(size); });
    if (calls.empty())
        return answered(to_json(std::vector<Call>()));
    const auto results = std::make_shared<std::vector<Call>>(calls.size());
    const auto left = std::make_shared<std::size_t>(calls.size());
    for (std::size_t i = 0; i < calls.size(); ++i)
        workers->submit(std::move(calls[i]), [i, results, left, answered](Call &&call) {
            (*results)[i] = std::move(call);
            if (--*left == 0)
                answered(to_json(*results));
        });
}

Json Commands::count() const {
    json_int_t added = 0, bound = 0, deleting = 0, ended = 0, gone = 0;
    for (const auto &[name, times] : log_.pods()) {
        added += times.added > 0;
        bound += times.bound > 0;
        deleting += times.deleting > 0;
        ended += times.ended > 0;
        gone += times.gone > 0;
    }
    return made(json_pack("{s:I,s:I,s:I,s:I,s:I}", "added", added, "bound", bound, "deleting", deleting, "ended", ended, "gone", gone));
}

Json Commands::pods() const {
    Json out = made(json_object());
    for (const auto &[name, times] : log_.pods())
        json_object_set_new(out.get(), name.c_str(),
                            json_pack("{s:s,s:s,s:f,s:f,s:f,s:f,s:f}", "uid", times.uid.c_str(), "node", times.node.c_str(), "added", times.added,
                                      "bound", times.bound, "deleting", times.deleting, "ended", times.ended, "gone", times.gone));
    return out;
}

}  // namespace berth::bench
