// Config: /etc/berth/berth.yaml, read with defaults first. Unknown keys and wrong types are errors that name file,
// line and key. The same file serves the controller and every node; which role runs is said on the command line.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/lifecycle/lost_node.h"
#include "agent/lifecycle/mirror.h"
#include "agent/result.h"

namespace berth {

// clusters[]: one Kubernetes cluster.
struct ClusterConfig {
    std::string name = "main";  // goes into every placeholder; two clusters on one slurmctld differ in it
    std::string kubeconfig;     // empty: the pod's own service account
    std::string context;
    std::string scheduler_name = "slurm-bridge-scheduler";
};

// tenants[]: who pods of a namespace are in Slurm. The first entry that matches counts; a namespace without one gets nothing.
struct TenantConfig {
    std::string ns;               // a name, or a pattern with '*'
    std::string service_account;  // empty: any
    std::string user;             // Slurm user (a name the system knows, or a number)
    std::string group;            // empty: the user's primary group
    std::vector<std::string> accounts, partitions, qos, reservations;  // what annotations may choose; the first is the default
                                                                        // (reservations: no default); empty: Slurm's default only
    bool may_set_priority = false;  // the annotation "priority", and "nice" below zero
};

// defaults: for pods that say nothing.
struct DefaultsConfig {
    std::int64_t memory_mib = 512;   // pods that ask for no memory ("defaults.memory: 512Mi")
    std::int64_t cpu_milli = 1000;   // pods that ask for no CPU
    std::uint32_t time_limit_minutes = 0;  // 0: the partition's
    bool exclusive = false;
    bool indexed_job_is_gang = false;  // "defaults.gang: indexed": an Indexed Job with completions = parallelism is one gang
    std::string managed_taint = "slinky.slurm.net/managed-node";  // keeps others off the nodes that Slurm schedules, never our pods
};

// What happens to a wish that Slurm cannot be told.
enum class Unmet : std::uint8_t { refuse, ignore };

// priority_classes[]: what a pod's priorityClassName means in Slurm. A class without an entry means nothing.
struct PriorityClassConfig {
    std::string name;
    std::string qos;                    // must be one that the tenant may choose
    std::optional<std::int32_t> nice;
};

// features[]: labels of Kubernetes nodes whose values are Slurm features of the same nodes, for preferred node affinity.
struct FeatureConfig {
    std::string label;
};

// gres[]: extended resource -> Slurm GRES. nvidia.com/gpu and amd.com/gpu -> gpu are there from the start.
struct GresConfig {
    std::string resource;  // "nvidia.com/gpu", "hugepages-2Mi", "ephemeral-storage"
    std::string gres;      // "gpu" or "gpu:a100"; or one of the next three
    std::string license;   // "matlab": so many of this license
    bool memory = false;   // "as: memory": bytes that count as memory (hugepages, from the start)
    bool tmp_disk = false; // "as: tmp_disk": bytes of Slurm's TmpDisk
    bool ignore = false;   // "as: ignore" (ephemeral-storage, from the start)
};

// controller.lease: which of several controllers leads.
struct LeaseConfig {
    std::string ns = "berth-system";
    std::string name;      // empty: the cluster's scheduler_name
    std::string identity;  // empty: the host's name
    std::chrono::seconds duration{15};        // a holder that is silent for so long is succeeded
    std::chrono::seconds renew_deadline{10};  // a holder that cannot renew for so long stops writing
    std::chrono::seconds retry{2};
};

// A number, or a share of slurmctld's MaxJobCount.
struct PlaceholderCap {
    std::uint32_t number = 0;  // 0: the share
    unsigned percent = 50;

    std::uint32_t of(std::uint32_t max_job_count) const;
    bool operator==(const PlaceholderCap &) const = default;
};

struct ControllerConfig {
    std::uint16_t doorbell_port = 0;             // TCP port slurmctld rings; 0: any free one
    std::string notify_socket = "/run/berth/notify.sock";   // where job_submit_berth.so says that a placeholder was changed
    std::string placeholder_table = "/run/berth/placeholders";  // what job_submit_berth.so reads
    std::chrono::seconds reconcile{30};
    unsigned submit_threads = 4;
    PlaceholderCap max_placeholders;             // that live in Slurm at a time; the others wait in the controller
    std::chrono::milliseconds condition_delay{1000};  // a pod that waits longer than this is told why
    std::chrono::seconds warn{300};              // so long before the end of their job pods are told; 0: never
    LeaseConfig lease;
};

// services: pods of ReplicaSets and StatefulSets, which are meant to run on, in partitions with a time limit.
struct ServicesConfig {
    bool renew = false;                     // their limit is extended while partition and renew_up_to allow; else they are replaced
    std::uint32_t renew_up_to_minutes = 0;  // the longest limit that a job gets so; 0: the partition's ("unlimited")
};

// nodes.map[]: a node whose names differ.
struct NodeMapConfig {
    std::string slurm, kubernetes;
};

// nodes: what the controller does about all of them.
struct NodesConfig {
    MirrorPolicy mirror;
    std::chrono::seconds not_ready_patience{40};  // a node that is not ready for less is left alone
    std::vector<NodeMapConfig> map;
    OnLostNode lost = OnLostNode::wait;  // for the kubelet of a pod on a dead node, or delete the pod by force
    bool taint = false;  // defaults.managed_taint is put on every node that both sides have
};

// How pods and native jobs share a node's CPUs.
enum class Isolation : std::uint8_t { shares, cores };

// node: one node's own agent.
struct NodeConfig {
    std::string run_dir = "/run/berth";  // "%n" is replaced by the Slurm node name
    std::string kube_name;               // Kubernetes node name; empty: the Slurm node name
    std::string cgroup_mount = "/sys/fs/cgroup";
    std::string cgroup_root = "/";       // the kubelet's --cgroup-root; "%n" likewise
    Isolation isolation = Isolation::shares;  // cores: pods run on the CPUs of their job alone
    std::chrono::seconds reconcile{30};
};

struct HoldConfig {
    std::chrono::seconds max_grace{120};  // a pod's own grace counts up to this when Slurm ends its job
    std::chrono::seconds limit{180};      // then grace 0 and its cgroup is killed
    std::chrono::seconds kill_wait{30};   // what lives on after that drains the node
    std::chrono::seconds api_down{600};   // how long the hold's clock may stand still while the API server is away
};

// web: metrics, health and the status page.
struct WebConfig {
    std::string listen = "127.0.0.1:9484";  // the controller's; "off": nowhere
    std::string node_listen = "off";        // of a process with the node role alone
    bool beyond_loopback = false;           // other hosts may reach them
};

struct Config {
    std::string key_file = "/etc/berth/key";  // seals what nodes trust; SlurmUser and root may read it
    std::string log_level = "info";
    std::vector<ClusterConfig> clusters;
    std::vector<TenantConfig> tenants;
    DefaultsConfig defaults;
    std::vector<GresConfig> gres{{.resource = "nvidia.com/gpu", .gres = "gpu"}, {.resource = "amd.com/gpu", .gres = "gpu"},
                                 {.resource = "hugepages-2Mi", .memory = true}, {.resource = "hugepages-1Gi", .memory = true},
                                 {.resource = "ephemeral-storage", .ignore = true}};
    Unmet unmapped_resources = Unmet::refuse;  // "unmet.resources"
    Unmet pod_affinity = Unmet::refuse;        // "unmet.pod_affinity"
    Unmet topology_spread = Unmet::ignore;     // "unmet.topology_spread"; ignored is said in an event
    std::vector<PriorityClassConfig> priority_classes;
    std::vector<FeatureConfig> features;
    ControllerConfig controller;
    ServicesConfig services;
    NodesConfig nodes;
    NodeConfig node;
    HoldConfig hold;
    WebConfig web;
};

Result<Config> load_config(const std::string &path);
// The same from text, for tests; `name` stands for the file in errors.
Result<Config> parse_config(const std::string &text, const std::string &name);

}  // namespace berth
