#include "agent/translate/need.h"

#include <fmt/core.h>

#include <algorithm>

#include "agent/translate/quantity.h"

namespace berth {
namespace {

// A pod's extended resources, sorted by what they are in Slurm.
struct Mapped {
    GresList gres, licenses;
    std::int64_t memory_bytes = 0, tmp_disk_bytes = 0;
    std::vector<std::string> ignored;
};

std::int64_t sum_of_bytes(std::int64_t a, std::int64_t b) {
    std::int64_t sum = 0;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

Result<Mapped> map_extended(const kube::Pod &pod, const Config &config) {
    Mapped out;
    for (const auto &[resource, count] : pod.need.extended) {
        if (count <= 0)
            continue;
        const auto at = std::find_if(config.gres.begin(), config.gres.end(),
                                     [&, name = std::string_view(resource)](const GresConfig &g) { return g.resource == name; });
        if (at == config.gres.end()) {
            if (config.unmapped_resources == Unmet::refuse)
                return Error{fmt::format("the pod asks for {} of {}, which Slurm knows nothing of here; the site would map it with an "
                                         "entry \"resource: {}\" under gres in berth.yaml",
                                         count, shown(resource), shown(resource))};
            out.ignored.push_back(resource);
        } else if (at->memory) {
            out.memory_bytes = sum_of_bytes(out.memory_bytes, count);
        } else if (at->tmp_disk) {
            out.tmp_disk_bytes = sum_of_bytes(out.tmp_disk_bytes, count);
        } else if (!at->license.empty()) {
            add_gres(out.licenses, at->license, static_cast<std::uint64_t>(count));
        } else if (!at->ignore) {
            add_gres(out.gres, at->gres, static_cast<std::uint64_t>(count));
        }
    }
    return out;
}

// A berth smaller than its pod would break the promise to whoever else has work on the node.
Error too_small(std::string_view key, std::uint64_t wish, std::uint64_t least, std::int64_t need, std::string_view need_unit,
                std::string_view unit) {
    return Error{fmt::format("{} is less than the pod itself asks for ({}{}); accepted is {}{} or more, or no annotation",
                             annotation_words(kAnnotationPrefix, key, fmt::format("{}{}", wish, unit)), need, need_unit, least, unit)};
}

Result<std::uint16_t> cpus_of(const kube::Pod &pod, const Annotations &sizes, const Config &config) {
    const std::int64_t milli = pod.need.cpu_milli > 0 ? pod.need.cpu_milli : config.defaults.cpu_milli;
    std::int64_t cpus = std::max<std::int64_t>(1, milli / 1000 + (milli % 1000 > 0));
    if (sizes.cpus) {
        if (pod.need.cpu_milli > 0 && *sizes.cpus < cpus)
            return too_small("cpu-per-task", *sizes.cpus, cpus, pod.need.cpu_milli, "m CPU", "");
        cpus = *sizes.cpus;
    }
    if (cpus > kMaxCpus)
        return Error{fmt::format("the pod asks for {} CPUs; accepted are up to {}", cpus, kMaxCpus)};
    return static_cast<std::uint16_t>(cpus);
}

// Never 0, which would be all of a node's memory to Slurm.
Result<std::uint64_t> memory_of(const kube::Pod &pod, std::int64_t extra, const Annotations &sizes, const Config &config) {
    const std::int64_t own = sum_of_bytes(pod.need.memory_bytes, extra);
    const std::int64_t own_mib = mib_rounded_up(own);
    if (sizes.memory_mib) {
        if (*sizes.memory_mib < static_cast<std::uint64_t>(own_mib))
            return too_small("mem-per-node", *sizes.memory_mib, own_mib, own, " bytes of memory", "Mi");
        return *sizes.memory_mib;
    }
    // A container that says nothing needs some as well, and the pod is bounded by what it gets here.
    const std::uint64_t unsaid = sum_of(std::max<std::int64_t>(1, config.defaults.memory_mib), mib_rounded_up(extra));
    if (pod.need.memory_bytes == 0)
        return unsaid;
    return pod.memory_open ? std::max<std::uint64_t>(own_mib, unsaid) : static_cast<std::uint64_t>(own_mib);
}

// The annotation speaks for each kind that it mentions ("gpu" also for a need of "gpu:a100"), the pod for the others.
Result<GresList> gres_of(const GresList &need, const Annotations &sizes) {
    GresList out = sizes.gres;
    for (const auto &[name, count] : need) {
        const std::string_view kind = gres_kind(name);
        if (total_of_kind(sizes.gres, kind) == 0) {
            add_gres(out, name, count);
            continue;
        }
        const bool untyped = name == kind;
        const std::uint64_t wished = untyped ? total_of_kind(sizes.gres, kind) : count_of(sizes.gres, name);
        const std::uint64_t needed = untyped ? total_of_kind(need, kind) : count;
        if (wished < needed)
            return Error{fmt::format("annotation {}gres: {} of {} is less than the pod itself asks for; accepted is {} or more, or no {} "
                                     "in the annotation",
                                     kAnnotationPrefix, wished, name, needed, kind)};
    }
    std::sort(out.begin(), out.end());
    return out;
}

}  // namespace

Result<Demand> demand_of(const kube::Pod &pod, const Annotations &sizes, const Config &config) {
    if (!pod.problem.empty())
        return Error{pod.problem};
    Result<Mapped> mapped = map_extended(pod, config);
    if (!mapped)
        return Error{mapped.error()};
    const Result<std::uint16_t> cpus = cpus_of(pod, sizes, config);
    if (!cpus)
        return Error{cpus.error()};
    const Result<std::uint64_t> memory = memory_of(pod, mapped->memory_bytes, sizes, config);
    if (!memory)
        return Error{memory.error()};
    Result<GresList> gres = gres_of(mapped->gres, sizes);
    if (!gres)
        return Error{gres.error()};
    return Demand{{*cpus, *memory, std::move(*gres)},
                  std::move(mapped->licenses),
                  static_cast<std::uint64_t>(mib_rounded_up(mapped->tmp_disk_bytes)),
                  std::move(mapped->ignored)};
}

void raise(Demand &to, const Demand &from) {
    to.need.cpus = std::max(to.need.cpus, from.need.cpus);
    to.need.memory_mib = std::max(to.need.memory_mib, from.need.memory_mib);
    for (const auto &[name, count] : from.need.gres)
        raise_gres(to.need.gres, name, count);
    std::sort(to.need.gres.begin(), to.need.gres.end());
    to.tmp_disk_mib = std::max(to.tmp_disk_mib, from.tmp_disk_mib);
    // Licenses are counted by job, not by task.
    for (const auto &[name, count] : from.licenses)
        add_gres(to.licenses, name, count);
    for (const std::string &resource : from.ignored)
        if (std::find(to.ignored.begin(), to.ignored.end(), resource) == to.ignored.end())
            to.ignored.push_back(resource);
}

Result<Need> need_of(const kube::Pod &pod, const std::vector<kube::KeyValues> &layers, const Config &config) {
    const Result<Annotations> sizes = read_sizes(layers.empty() ? pod.annotations : merge_layers(layers));
    if (!sizes)
        return Error{sizes.error()};
    Result<Demand> demand = demand_of(pod, *sizes, config);
    if (!demand)
        return Error{demand.error()};
    return std::move(demand->need);
}

Need place_of(const Ticket &ticket) {
    const Result<GresList> gres = parse_gres(ticket.gres);
    return {static_cast<std::uint16_t>(std::min<std::uint32_t>(ticket.cpus, kMaxCpus)), ticket.memory_mib, gres ? *gres : GresList{}};
}

bool outgrows(const kube::Pod &pod, const Need &place, const Config &config) {
    const Result<Demand> demand = demand_of(pod, Annotations{}, config);
    if (!demand)
        return true;
    // What it leaves to the site's default, an annotation may have made smaller.
    if ((pod.need.cpu_milli > 0 && demand->need.cpus > place.cpus) ||
        (pod.need.memory_bytes > 0 && demand->need.memory_mib > place.memory_mib))
        return true;
    const auto total = [](const GresList &list, std::string_view kind) {
        std::uint64_t sum = 0;
        for (const auto &[name, count] : list)
            if (std::string_view(name).substr(0, name.find(':')) == kind)
                sum = sum_of(sum, count);
        return sum;
    };
    for (const auto &[name, count] : demand->need.gres) {
        const std::string_view kind = std::string_view(name).substr(0, name.find(':'));
        if (total(demand->need.gres, kind) > total(place.gres, kind))
            return true;
    }
    return false;
}

std::string gres_text(const GresList &gres) {
    std::string out;
    for (const auto &[name, count] : gres)
        out += fmt::format("{}{}:{}", out.empty() ? "" : ",", name, count);
    return out;
}

std::string need_text(const Need &need) {
    return fmt::format("{}c {}m{}{}", need.cpus, need.memory_mib, need.gres.empty() ? "" : " ", gres_text(need.gres));
}

std::string shape_of(const kube::Pod &pod, const Config &config) {
    const Result<Need> need = need_of(pod, {}, config);
    return need ? need_text(*need) : "";
}

}  // namespace berth
