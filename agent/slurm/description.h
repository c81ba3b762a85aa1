// Description: a Placeholder as slurmctld wants to hear it. Owns what the message points to, hence stays where it is.
#pragma once

#include <cstdint>
#include <string>

#include "agent/translate/placeholder.h"
#include "proto/slurm_api.h"

namespace berth::slurm {

class Description {
  public:
    // `ticket` is to_json() of the part's; an exclusive gang has tasks_per_node (see pods_on_whole_node()).
    Description(const Placeholder &placeholder, std::string ticket, std::uint16_t doorbell_port);
    Description(const Description &) = delete;
    Description &operator=(const Description &) = delete;

    job_desc_msg_t &message() { return message_; }

  private:
    void ask_for_room();
    void ask_for_memory();

    Placeholder placeholder_;
    std::string ticket_, gres_, variable_;
    char *variables_[2] = {};
    char host_[256] = "localhost", work_dir_[2] = "/";
    job_desc_msg_t message_;
};

}  // namespace berth::slurm
