// Demand: all that one pod asks of Slurm by its resources, of which Need (placeholder.h) is what a node can check. Pure.
#pragma once

#include <string>
#include <vector>

#include "agent/translate/annotations.h"
#include "agent/translate/placeholder.h"

namespace berth {

struct Demand {
    Need need;
    GresList licenses;
    std::uint64_t tmp_disk_mib = 0;
    std::vector<std::string> ignored;  // resources that nobody mapped, where the site lets them pass
};

// `sizes` needs no more than what read_sizes() gives.
Result<Demand> demand_of(const kube::Pod &pod, const Annotations &sizes, const Config &config);

// What it takes to serve either.
void raise(Demand &to, const Demand &from);

// "2c 4096m gpu:a100:1"
std::string need_text(const Need &need);

}  // namespace berth
