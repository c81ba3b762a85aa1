#include "agent/tool/manifest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <jansson.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>

#include "agent/kube/decode.h"
#include "agent/workload/kinds.h"
#include "agent/yaml.h"

namespace berth::tool {

namespace {

struct Free {
    void operator()(json_t *value) const { json_decref(value); }
};
using Json = std::unique_ptr<json_t, Free>;

constexpr const char *made_up_uid = "dry-run";

bool one_of(const std::string &word, std::initializer_list<std::string_view> words) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

Json number_or_text(const std::string &text) {
    if (text == "true" || text == "false")
        return Json(json_boolean(text == "true"));
    char *end = nullptr;
    const long long whole = std::strtoll(text.c_str(), &end, 10);
    if (!text.empty() && *end == '\0')
        return Json(json_integer(whole));
    const double real = std::strtod(text.c_str(), &end);
    if (!text.empty() && *end == '\0' && text.find_first_not_of("0123456789.+-eE") == std::string::npos)
        return Json(json_real(real));
    return Json(json_stringn(text.data(), text.size()));
}

// How the values inside a map are to be taken: as YAML means them, as quantities (a bare number is one), or as strings alone, which the
// API server insists on.
enum class Values { any, quantities, strings };

Values values_of(const std::string &key, Values outer) {
    if (one_of(key, {"requests", "limits", "overhead", "minResources", "capacity"}))
        return Values::quantities;
    if (one_of(key, {"annotations", "labels", "nodeSelector", "matchLabels"}))
        return Values::strings;
    return outer == Values::quantities || outer == Values::strings ? Values::any : outer;
}

Result<Json> to_json(const yaml::Node &node, Values values) {
    if (node.is_map()) {
        Json object(json_object());
        for (const yaml::Node &child : node.children()) {
            const Values inner = child.is_map() || child.is_list() ? values_of(child.key(), values) : values;
            auto value = to_json(child, inner);
            if (!value)
                return value;
            json_object_set_new(object.get(), child.key().c_str(), value->release());
        }
        return object;
    }
    if (node.is_list()) {
        Json list(json_array());
        for (const yaml::Node &child : node.children()) {
            auto value = to_json(child, Values::any);
            if (!value)
                return value;
            json_array_append_new(list.get(), value->release());
        }
        return list;
    }
    if (node.is_null())
        return Json(json_null());
    if (node.quoted() || values == Values::quantities)
        return Json(json_stringn(node.text().data(), node.text().size()));
    Json value = number_or_text(node.text());
    if (values == Values::strings && !json_is_string(value.get()))
        return node.error("must be in quotes here: Kubernetes takes strings only");
    return value;
}

// The documents of a file, each followed by as many empty lines as stood before it, so that line numbers stay true.
std::vector<std::string> documents(std::string_view text) {
    std::vector<std::string> out(1);
    std::size_t lines = 0;
    for (std::size_t at = 0; at < text.size(); ++lines) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        const std::string_view line = text.substr(at, end - at);
        if (line == "---" || line.starts_with("--- "))
            out.emplace_back(lines + 1, '\n');
        else
            out.back().append(line).push_back('\n');
        at = end + 1;
    }
    return out;
}

std::string text_at(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text != nullptr ? text : "";
}

// The object at this key, made when it is not there; null when something else is.
json_t *object_at(json_t *object, const char *key) {
    json_t *found = json_object_get(object, key);
    if (found == nullptr || json_is_null(found)) {
        json_object_set_new(object, key, json_object());
        found = json_object_get(object, key);
    }
    return json_is_object(found) ? found : nullptr;
}

void set_default(json_t *object, const char *key, const std::string &text) {
    if (object != nullptr && text_at(object, key).empty())
        json_object_set_new(object, key, json_string(text.c_str()));
}

void fill_metadata(json_t *object, const std::string &ns, const std::string &name) {
    json_t *metadata = object_at(object, "metadata");
    if (metadata == nullptr)
        return;
    set_default(metadata, "namespace", ns);
    set_default(metadata, "name", text_at(metadata, "generateName").empty() ? name : text_at(metadata, "generateName") + "xxxxx");
    json_object_set_new(metadata, "uid", json_string(made_up_uid));
}

std::string dump(const json_t *value) {
    char *text = json_dumps(value, JSON_COMPACT);
    std::string out = text != nullptr ? text : "";
    std::free(text);
    return out;
}

bool has_template(const std::string &kind) { return one_of(kind, {"Job", "Deployment", "ReplicaSet", "StatefulSet"}); }

class Reader {
  public:
    Reader(const std::string &file, const std::string &ns) : file_(file), ns_(ns) {}

    Result<Manifest> read(std::string_view text) {
        std::vector<std::string> passed_over;
        for (const std::string &document : documents(text)) {
            const auto tree = yaml::parse(document, file_);
            if (!tree)
                return Error{tree.error()};
            if (tree->is_null())
                continue;
            if (!tree->is_map())
                return tree->error("a Kubernetes object is expected");
            auto object = to_json(*tree, Values::any);
            if (!object)
                return Error{object.error()};
            const std::string kind = text_at(object->get(), "kind");
            if (kind == "PodGroup")
                groups_.push_back(std::move(*object));
            else if ((kind == "Pod" || has_template(kind)) && !workload_)
                workload_ = std::move(*object);
            else
                passed_over.push_back(kind.empty() ? "a document without kind" : kind);
        }
        if (!workload_)
            return Error{fmt::format("{}: no Pod, Job, Deployment, ReplicaSet or StatefulSet in it{}", file_,
                                     passed_over.empty() ? "" : fmt::format(", but {}", fmt::join(passed_over, ", ")))};
        return understand();
    }

  private:
    Result<kube::Object> object(json_t *json) const {
        kube::Object blank;
        blank.api_version = text_at(json, "apiVersion");
        blank.kind = text_at(json, "kind");
        std::string body = dump(json);
        kube::Decoder decoder;
        auto out = decoder.object(kube::padded(body), blank);
        return out ? std::move(out) : Error{fmt::format("{}: {}", file_, out.error())};
    }

    Result<Manifest> understand() {
        Manifest out;
        out.kind = text_at(workload_.get(), "kind");
        fill_metadata(workload_.get(), ns_, "unnamed");
        const json_t *metadata = json_object_get(workload_.get(), "metadata");
        out.ns = text_at(metadata, "namespace");
        out.name = text_at(metadata, "name");
        Json pod(json_incref(workload_.get()));
        if (has_template(out.kind)) {
            auto owner = object(workload_.get());
            if (!owner)
                return Error{owner.error()};
            out.chain.owners.push_back(std::make_shared<const kube::Object>(std::move(*owner)));
            json_t *spec = object_at(workload_.get(), "spec");
            json_t *const template_ = spec != nullptr ? object_at(spec, "template") : nullptr;
            if (template_ == nullptr)
                return Error{fmt::format("{}: {} {} has no pod template", file_, out.kind, out.name)};
            pod.reset(json_incref(template_));
            fill_metadata(template_, out.ns, out.name + "-xxxxx");
            if (json_t *labels = object_at(object_at(template_, "metadata"), "labels"); out.kind == "Job" && labels != nullptr)
                set_default(labels, "job-name", out.name);
        }
        json_t *spec = object_at(pod.get(), "spec");
        if (spec == nullptr || !json_is_array(json_object_get(spec, "containers")))
            return Error{fmt::format("{}: the pod has no spec.containers", file_)};
        set_default(spec, "schedulerName", "default-scheduler");
        set_default(spec, "serviceAccountName", "default");
        std::string body = dump(pod.get());
        kube::Decoder decoder;
        auto decoded = decoder.pod(kube::padded(body));
        if (!decoded)
            return Error{fmt::format("{}: {}", file_, decoded.error())};
        out.pod = std::move(*decoded);
        return find_group(out) ? Result<Manifest>(std::move(out)) : Result<Manifest>(Error{problem_});
    }

    bool find_group(Manifest &out) {
        const std::string wanted(out.pod.label(labels::pod_group));
        if (wanted.empty())
            return true;
        for (const Json &group : groups_) {
            fill_metadata(group.get(), out.ns, "unnamed");
            if (text_at(json_object_get(group.get(), "metadata"), "name") != wanted)
                continue;
            auto read = object(group.get());
            if (!read) {
                problem_ = read.error();
                return false;
            }
            out.chain.pod_group = std::make_shared<const kube::Object>(std::move(*read));
            return true;
        }
        out.notes.push_back(fmt::format("The pod names the PodGroup {}, which is not in this file: one pod alone is asked for.", wanted));
        return true;
    }

    const std::string &file_, &ns_;
    Json workload_;
    std::vector<Json> groups_;
    std::string problem_;
};

}  // namespace

Result<Manifest> read_manifest(std::string_view text, const std::string &file, const std::string &ns) {
    return Reader(file, ns).read(text);
}

}  // namespace berth::tool
