// A site with two tenants, and what it may be asked for by a pod of the first, whatever the pod says.
#pragma once

#include <algorithm>

#include "agent/config.h"
#include "agent/slurm/description.h"
#include "agent/slurm/request.h"
#include "agent/translate/hostlist.h"
#include "agent/translate/placeholder.h"
#include "test/fuzz/fuzz.h"

namespace berth::fuzz {

inline const Config &config() {
    static const Config made = *parse_config(R"(
clusters: [{name: main, kubeconfig: /etc/berth/kubeconfig}]
tenants:
  - {namespace: science, user: ada, accounts: [physics, chemistry], partitions: [batch, gpu], qos: [normal, high], reservations: [maint]}
  - {namespace: other, user: bob, accounts: [secret], partitions: [root], qos: [king]}
gres:
  - {resource: example.com/a100, gres: "gpu:a100"}
  - {resource: example.com/matlab, license: matlab}
  - {resource: example.com/scratch, as: tmp_disk}
priority_classes: [{name: urgent, qos: high}, {name: patient, nice: 500}, {name: pushy, nice: -100}, {name: royal, qos: king}]
features: [{label: zone}]
unmet: {resources: ignore}
)",
                                             "berth.yaml");
    return made;
}

inline Site site() {
    static const std::vector<SiteNode> nodes = [] {
        std::vector<SiteNode> out;
        for (const char *name : {"n1", "n2", "n3", "gpu-01"}) {
            kube::Node node;
            node.name = node.uid = name;
            node.labels = {{"kubernetes.io/hostname", name}, {"zone", name[1] < '3' ? "a" : "b"}};
            if (name[0] == 'g')
                node.taints = {{"example.com/gpu", "yes", "NoSchedule", ""}};
            node.cpu_milli = 8000;
            node.memory_bytes = 16LL << 30;
            node.ready = true;
            out.push_back(make_site_node(name, &node));
        }
        return out;
    }();
    return Site{config(),
                [](const std::string &user, const std::string &group) -> Result<Identity> {
                    if (user == "ada" && (group.empty() || group == "science"))
                        return Identity{1001, 2001};
                    return Error{"nobody knows them"};
                },
                nodes,
                [](const std::string &, const std::string &, const std::string &name) -> Result<std::vector<std::uint32_t>> {
                    if (name == "prepare")
                        return std::vector<std::uint32_t>{12, 13};
                    return Error{"no such workload"};
                },
                1794830400};
}

inline bool is_plain(std::string_view text, std::size_t most) {
    return text.size() <= most && std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c < 0x7f; });
}

inline void require_choice(const std::string &chosen, std::initializer_list<std::string_view> allowed, const char *what) {
    require(std::find(allowed.begin(), allowed.end(), chosen) != allowed.end(), what, chosen);
}

// Of a pod in namespace science.
inline void require_placeholder(const Placeholder &p) {
    require(p.uid == 1001 && p.gid == 2001, "a placeholder is its tenant's");
    require_choice(p.account, {"physics", "chemistry"}, "the account is one of the tenant's");
    require_choice(p.partition, {"batch", "gpu"}, "the partition is one of the tenant's");
    require_choice(p.qos, {"normal", "high"}, "the QOS is one of the tenant's");
    require_choice(p.reservation, {"", "maint"}, "the reservation is one of the tenant's");
    require(!p.priority && p.nice.value_or(0) >= 0, "no priority beyond the tenant's");
    for (const std::string *text : {&p.job_name, &p.comment, &p.constraints, &p.prefer, &p.licenses, &p.wckey, &p.dependency})
        require(is_plain(*text, 4096), "Slurm gets plain text of bounded length", *text);
    require(p.tasks >= 1 && p.cpus_per_task >= 1 && p.memory_mib >= 1, "a placeholder has a size");
    require(p.excluded_nodes.empty() || expand_hostlist(p.excluded_nodes).ok(), "excluded nodes are a hostlist", p.excluded_nodes);
    for (const auto &[name, count] : p.gres)
        require(is_plain(name, 200) && count > 0, "devices are counted", name);

    slurm::Description description(p, "{\"berth\":1}", 1);
    const job_desc_msg_t &job = description.message();
    const std::uint64_t memory = job.pn_min_memory & ~MEM_PER_CPU;
    require(job.min_cpus >= p.cpus_per_task && job.min_cpus < NO_VAL && job.cpus_per_task < NO_VAL16, "CPUs are counted");
    require(memory > 0 && (p.tasks > 1 || job.pn_min_memory == p.memory_mib), "memory is what the pod needs, not a flag");

    slurm::Request request;
    request.parts = {p};
    request.tickets = {"{}"};
    const auto back = slurm::parse_request(slurm::to_text(request));
    require(back && slurm::to_text(*back) == slurm::to_text(request), "a request reads back as it was");
}

inline void try_translate(const Membership &membership, const std::vector<const kube::Pod *> &pods) {
    const auto shapes = translate(membership, pods, site());
    if (!shapes)
        return require_sentence(shapes.error(), 2000);
    std::size_t members = 0;
    for (const Shape &shape : *shapes) {
        require_placeholder(shape.placeholder);
        members += shape.pod_uids.size();
        for (const std::string &note : shape.notes)
            require_sentence(note, 1000);
    }
    require(members >= 1 && members <= pods.size(), "each pod has one place");
}

}  // namespace berth::fuzz
