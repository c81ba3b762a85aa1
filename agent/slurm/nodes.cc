#include "agent/slurm/nodes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "agent/slurm/queue_rows.h"
#include "agent/slurm/session.h"
#include "agent/slurm/workers.h"
#include "proto/slurm_api.h"

namespace berth::slurm {

namespace {

using Nodes = std::unique_ptr<node_info_msg_t, decltype(&slurm_free_node_info_msg)>;

SlurmNode to_node(const node_info_t &info) {
    constexpr std::uint32_t asleep =
        NODE_STATE_POWERED_DOWN | NODE_STATE_POWERING_DOWN | NODE_STATE_POWERING_UP | NODE_STATE_POWER_DOWN | NODE_STATE_REBOOT_ISSUED;
    SlurmNode node;
    node.name = info.name;
    node.drain = (info.node_state & NODE_STATE_DRAIN) != 0;
    node.down = (info.node_state & NODE_STATE_BASE) == NODE_STATE_DOWN;
    node.fail = (info.node_state & NODE_STATE_FAIL) != 0;
    node.maint = (info.node_state & NODE_STATE_MAINT) != 0;
    node.asleep = (info.node_state & asleep) != 0;
    node.reason = info.reason != nullptr ? info.reason : "";
    return node;
}

Result<SlurmNode> load_node(const std::string &name) {
    std::string text = name;
    node_info_msg_t *raw = nullptr;
    if (counted(metrics::Rpc::load_nodes, slurm_load_node_single(&raw, text.data(), SHOW_ALL)) != SLURM_SUCCESS)
        return Error{fmt::format("asking slurmctld for node {}: {}", name, last_error())};
    const Nodes nodes(raw, slurm_free_node_info_msg);
    for (std::uint32_t i = 0; i < nodes->record_count; ++i)
        if (const node_info_t &info = nodes->node_array[i]; info.name != nullptr && info.name == name)
            return to_node(info);
    return Error{fmt::format("slurmctld knows no node {}", name)};
}

Result<bool> update(const std::string &name, std::uint32_t state, std::string reason) {
    std::string text = name;
    update_node_msg_t change;
    slurm_init_update_node_msg(&change);
    change.node_names = text.data();
    change.node_state = state;
    if (!reason.empty()) {
        change.reason = reason.data();
        slurm_api::set_reason_uid(change, getuid());
    }
    if (!may_write())
        return Error{fmt::format("changing Slurm node {}: {}", name, Fence::closed_text)};
    if (counted(metrics::Rpc::update_node, slurm_update_node(&change)) != SLURM_SUCCESS)
        return Error{fmt::format("changing Slurm node {}: {}", name, last_error())};
    return true;
}

}  // namespace

Result<std::optional<NodeTable>> load_nodes(std::time_t since) {
    node_info_msg_t *raw = nullptr;
    if (counted(metrics::Rpc::load_nodes, slurm_load_node(since, &raw, SHOW_ALL | SHOW_DETAIL)) != SLURM_SUCCESS) {
        if (slurm_api::last_errno() == SLURM_NO_CHANGE_IN_DATA)
            return std::optional<NodeTable>();
        return Error{"asking slurmctld for its nodes: " + last_error()};
    }
    const Nodes nodes(raw, slurm_free_node_info_msg);
    NodeTable table;
    table.as_of = nodes->last_update;
    for (std::uint32_t i = 0; i < nodes->record_count; ++i)
        if (const node_info_t &info = nodes->node_array[i]; info.name != nullptr && *info.name != '\0') {  // holes of deleted nodes
            table.nodes.push_back(to_node(info));
            table.shown.push_back(to_queue_node(info));
        }
    return std::optional<NodeTable>(std::move(table));
}

Result<bool> drain_node(const std::string &name, const std::string &reason) {
    const auto now = load_node(name);
    if (!now)
        return Error{now.error()};
    const bool off = now->drain || now->down || now->fail;
    if (off && !(now->drain && is_mirror_reason(now->reason)))
        return false;
    return update(name, NODE_STATE_DRAIN, reason);
}

Result<bool> resume_node(const std::string &name) {
    const auto now = load_node(name);
    if (!now)
        return Error{now.error()};
    if (!now->drain || !is_mirror_reason(now->reason))
        return false;
    // A node that went down meanwhile kept our reason, and comes back by itself only with Slurm's own (ReturnToService=1).
    if (now->down)
        return update(name, NODE_STATE_UNDRAIN, "Not responding");
    // A resume would undo these, too.
    return update(name, now->fail || now->asleep ? NODE_STATE_UNDRAIN : NODE_RESUME, "");
}

}  // namespace berth::slurm
