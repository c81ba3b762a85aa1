#include "agent/controller/standby.h"

#include <map>

#include "agent/log.h"
#include "agent/slurm/client.h"

namespace berth {

Standby::Standby(Loop &loop, const Config &config, std::string cluster)
    : loop_(loop), config_(config), cluster_(std::move(cluster)), table_(config.controller.placeholder_table), lookers_(loop, 1) {}

Result<void> Standby::start() {
    if (auto opened = table_.open(); !opened)
        return opened;
    look();
    return {};
}

void Standby::retire() {
    retired_ = true;
    timer_.reset();
}

void Standby::look() {
    lookers_.submit([cluster = cluster_] {
                        std::uint32_t records = 0;  // of no interest here
                        return slurm::load_all(cluster, records);
                    },
                    [this](const Result<std::vector<slurm::Job>> &jobs) {
                        if (retired_)
                            return;
                        std::map<std::uint32_t, std::uint32_t> live;
                        for (const slurm::Job &job : jobs ? *jobs : std::vector<slurm::Job>())
                            if (job.lives())
                                live[job.id] = job.uid;
                        if (jobs)
                            table_.replace(live);
                        else
                            log::warning("{}; the placeholders of this host's table stay as they are", jobs.error());
                        timer_ = loop_.after(config_.controller.reconcile, [this] { look(); });
                    });
}

}  // namespace berth
