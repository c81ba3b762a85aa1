#include <algorithm>

#include "agent/kube/record_decode.h"

namespace berth::kube {

namespace {

Requirement::Op op_of(std::string_view name) {
    using Op = Requirement::Op;
    return name == "In"             ? Op::in
           : name == "NotIn"        ? Op::not_in
           : name == "Exists"       ? Op::exists
           : name == "DoesNotExist" ? Op::does_not_exist
           : name == "Gt"           ? Op::gt
           : name == "Lt"           ? Op::lt
                                    : Op::unknown;
}

Term read_term(Json term) {
    Term out;
    const auto take = [&](std::string_view list, bool field) {
        each(term, list, [&](Json line) {
            Requirement one;
            one.key = text(line, "key");
            one.op = op_of(text(line, "operator"));
            one.field = field;
            simdjson::dom::array values;
            if (line["values"].get(values) == simdjson::SUCCESS)
                for (const auto element : values) {
                    std::string_view value;
                    if (element.get(value) == simdjson::SUCCESS)
                        one.values.emplace_back(value);
                }
            out.push_back(std::move(one));
        });
    };
    take("matchExpressions", false);
    take("matchFields", true);
    return out;
}

void read_node_affinity(Json affinity, Placement &out) {
    inside(affinity, "requiredDuringSchedulingIgnoredDuringExecution", [&](Json required) {
        out.has_required = true;
        each(required, "nodeSelectorTerms", [&](Json term) {
            // To Kubernetes a term that says nothing matches no node; kept, it would read as one that matches all.
            if (Term one = read_term(term); !one.empty())
                out.required.push_back(std::move(one));
        });
    });
    each(affinity, "preferredDuringSchedulingIgnoredDuringExecution", [&](Json preferred) {
        inside(preferred, "preference", [&](Json term) {
            if (Term one = read_term(term); !one.empty())
                out.preferred.emplace_back(number(preferred, "weight"), std::move(one));
        });
    });
    std::stable_sort(out.preferred.begin(), out.preferred.end(),
                     [](const auto &a, const auto &b) { return a.first > b.first; });
}

// The two tolerations that the API server adds to every pod.
bool given_to_all(const Toleration &one) {
    return one.op == "Exists" && one.effect == "NoExecute" &&
           (one.key == "node.kubernetes.io/not-ready" || one.key == "node.kubernetes.io/unreachable");
}

}  // namespace

std::shared_ptr<const Placement> read_placement(Json spec) {
    Placement out;
    out.node_selector = read_all(spec, "nodeSelector");
    inside(spec, "affinity", [&](Json affinity) {
        inside(affinity, "nodeAffinity", [&](Json of_node) { read_node_affinity(of_node, out); });
        for (const char *kind : {"podAffinity", "podAntiAffinity"})
            inside(affinity, kind, [&](Json of_pods) {
                out.pod_affinity =
                    out.pod_affinity || has_items(of_pods, "requiredDuringSchedulingIgnoredDuringExecution");
            });
    });
    each(spec, "tolerations", [&](Json toleration) {
        Toleration one{std::string(text(toleration, "key")), std::string(text(toleration, "operator")),
                       std::string(text(toleration, "value")), std::string(text(toleration, "effect"))};
        if (one.op.empty())
            one.op = "Equal";
        if (!given_to_all(one))
            out.tolerations.push_back(std::move(one));
    });
    each(spec, "topologySpreadConstraints", [&](Json spread) {
        out.topology_spread = out.topology_spread || text(spread, "whenUnsatisfiable") == "DoNotSchedule";
    });
    return out == Placement{} ? nullptr : std::make_shared<const Placement>(std::move(out));
}

}  // namespace berth::kube
