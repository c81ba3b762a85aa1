#include "agent/slurm/request.h"

#include <fmt/format.h>
#include <jansson.h>

#include <cstdlib>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>

namespace berth::slurm {

namespace {

struct Free {
    void operator()(json_t *value) const { json_decref(value); }
    void operator()(char *text) const { std::free(text); }
};
using Json = std::unique_ptr<json_t, Free>;
using Gres = std::vector<std::pair<std::string, std::uint64_t>>;

// Writer and reader walk the same list, and the binding below stops compiling when a Placeholder gets a member that is not in it.
template <class P, class Field>
bool each_field(P &placeholder, Field &&field) {
    auto &[job_name, comment, uid, gid, account, partition, qos, reservation, constraints, prefer, licenses, wckey, tasks, cpus_per_task,
           memory_mib, gres, tmp_disk_mib, min_nodes, max_nodes, tasks_per_node, time_limit_minutes, priority, nice, exclusive, spread, pack,
           begin, deadline, dependency, switches, switches_wait_seconds, excluded_nodes] = placeholder;
    return field("job_name", job_name) && field("comment", comment) && field("uid", uid) && field("gid", gid) &&
           field("account", account) && field("partition", partition) && field("qos", qos) && field("reservation", reservation) &&
           field("constraints", constraints) && field("prefer", prefer) && field("licenses", licenses) && field("wckey", wckey) &&
           field("tasks", tasks) && field("cpus_per_task", cpus_per_task) && field("memory_mib", memory_mib) && field("gres", gres) &&
           field("tmp_disk_mib", tmp_disk_mib) && field("min_nodes", min_nodes) && field("max_nodes", max_nodes) &&
           field("tasks_per_node", tasks_per_node) && field("time_limit_minutes", time_limit_minutes) && field("priority", priority) &&
           field("nice", nice) && field("exclusive", exclusive) && field("spread", spread) && field("pack", pack) &&
           field("begin", begin) && field("deadline", deadline) && field("dependency", dependency) && field("switches", switches) &&
           field("switches_wait_seconds", switches_wait_seconds) && field("excluded_nodes", excluded_nodes);
}

Json write(const std::string &text) { return Json(json_stringn(text.data(), text.size())); }
Json write(bool value) { return Json(json_boolean(value)); }
template <class Number>
    requires std::is_integral_v<Number>
Json write(Number number) {
    return Json(json_integer(static_cast<json_int_t>(number)));  // 64 bits without a sign come back by the same cast
}
template <class Number>
Json write(const std::optional<Number> &number) {
    return number ? write(*number) : Json(json_null());
}
Json write(const Gres &gres) {
    Json list(json_array());
    for (const auto &[name, count] : gres) {
        Json pair(json_array());
        if (json_array_append_new(pair.get(), write(name).release()) != 0 || json_array_append_new(pair.get(), write(count).release()) != 0 ||
            json_array_append_new(list.get(), pair.release()) != 0)
            return nullptr;
    }
    return list;
}

bool read(const json_t *value, std::string &out) {
    if (!json_is_string(value))
        return false;
    out.assign(json_string_value(value), json_string_length(value));
    return true;
}
bool read(const json_t *value, bool &out) {
    out = json_is_true(value);
    return json_is_boolean(value);
}
template <class Number>
    requires std::is_integral_v<Number>
bool read(const json_t *value, Number &out) {
    if (!json_is_integer(value))
        return false;
    const json_int_t number = json_integer_value(value);
    out = static_cast<Number>(number);
    return static_cast<json_int_t>(out) == number;
}
template <class Number>
bool read(const json_t *value, std::optional<Number> &out) {
    Number number{};
    out.reset();
    if (json_is_null(value))
        return true;
    if (!read(value, number))
        return false;
    out = number;
    return true;
}
bool read(const json_t *value, Gres &out) {
    if (!json_is_array(value))
        return false;
    for (std::size_t i = 0; i < json_array_size(value); ++i) {
        const json_t *pair = json_array_get(value, i);
        std::pair<std::string, std::uint64_t> one;
        if (!json_is_array(pair) || !read(json_array_get(pair, 0), one.first) || !read(json_array_get(pair, 1), one.second))
            return false;
        out.push_back(std::move(one));
    }
    return true;
}

// Takes the reference, also when it fails: a string that is not UTF-8 is a null here.
bool put(json_t *object, const char *key, Json value) { return value && json_object_set_new(object, key, value.release()) == 0; }

std::string dump(const Json &object) {
    const std::unique_ptr<char, Free> text(json_dumps(object.get(), JSON_COMPACT | JSON_PRESERVE_ORDER));
    return text ? text.get() : "";
}

Json parse(std::string_view text) { return Json(json_loadb(text.data(), text.size(), JSON_REJECT_DUPLICATES, nullptr)); }

}  // namespace

std::string to_text(const Request &request) {
    const Json object(json_object());
    Json parts(json_array());
    for (std::size_t i = 0; i < request.parts.size() && i < request.tickets.size(); ++i) {
        Json part(json_object());
        const auto field = [&part](const char *key, const auto &value) { return put(part.get(), key, write(value)); };
        if (!put(part.get(), "ticket", write(request.tickets[i])) || !each_field(request.parts[i], field) ||
            json_array_append_new(parts.get(), part.release()) != 0)
            return {};
    }
    if (!put(object.get(), "port", write(request.doorbell_port)) || !put(object.get(), "not_after", write(request.not_after)) || !put(object.get(), "parts", std::move(parts)))
        return {};
    return dump(object);
}

Result<Request> parse_request(std::string_view text) {
    const Json object = parse(text);
    const json_t *const parts = json_object_get(object.get(), "parts");
    Request request;
    if (!read(json_object_get(object.get(), "port"), request.doorbell_port) ||
        !read(json_object_get(object.get(), "not_after"), request.not_after) || !json_is_array(parts) || json_array_size(parts) == 0)
        return Error{"not a request: port, not_after and parts are expected"};
    for (std::size_t i = 0; i < json_array_size(parts); ++i) {
        const json_t *const part = json_array_get(parts, i);
        std::string problem;
        const auto field = [part, &problem](const char *key, auto &value) {
            const bool good = read(json_object_get(part, key), value);
            if (!good)
                problem = key;
            return good;
        };
        if (!field("ticket", request.tickets.emplace_back()) || !each_field(request.parts.emplace_back(), field))
            return Error{fmt::format("part {} of the request: {} is missing or of the wrong type", i, problem)};
    }
    return request;
}

std::string to_text(const Submission &submission) {
    const Json object(json_object());
    Json problem = write(submission.problem);
    if (!problem)
        problem = write(std::string("what slurmctld said is not UTF-8"));
    if (!put(object.get(), "outcome", write(static_cast<int>(submission.outcome))) || !put(object.get(), "job", write(submission.job)) ||
        !put(object.get(), "problem", std::move(problem)))
        return {};
    return dump(object);
}

Result<Submission> parse_submission(std::string_view text) {
    const Json object = parse(text);
    Submission out;
    int outcome = 0;
    if (!read(json_object_get(object.get(), "outcome"), outcome) || outcome < 0 ||
        outcome > static_cast<int>(Submission::Outcome::unsure) || !read(json_object_get(object.get(), "job"), out.job) ||
        !read(json_object_get(object.get(), "problem"), out.problem))
        return Error{"not an answer to a submission"};
    out.outcome = static_cast<Submission::Outcome>(outcome);
    return out;
}

}  // namespace berth::slurm
