#include "agent/slurm/will_run.h"

#include <unistd.h>

#include "agent/slurm/description.h"
#include "agent/slurm/hosts.h"
#include "agent/slurm/libslurm_log.h"
#include "agent/slurm/session.h"
#include "proto/slurm_api.h"

namespace berth::slurm {

bool may_ask_for_others() { return geteuid() == 0 || geteuid() == slurm_user(); }

Result<Forecast> will_run(const Placeholder &placeholder) {
    Placeholder asked = placeholder;
    if (asked.exclusive && asked.tasks > 1 && asked.tasks_per_node == 0) {
        const auto pods = pods_on_whole_node(asked);
        if (!pods)
            return Error{pods.error()};
        asked.tasks_per_node = *pods;
    }
    Description description(asked, "", 0);
    job_desc_msg_t &message = description.message();
    message.spank_job_env = nullptr;
    message.spank_job_env_size = 0;

    will_run_response_msg_t *answer = nullptr;
    const Sayings sayings;
    if (slurm_job_will_run2(&message, &answer) != SLURM_SUCCESS) {
        const int error = slurm_api::last_errno();
        return Error{failed_submission(error, sayings.text()).problem};
    }
    Forecast out;
    if (answer == nullptr)
        return out;
    out.start = answer->start_time;
    out.nodes = answer->node_list != nullptr ? answer->node_list : "";
    out.partition = answer->part_name != nullptr ? answer->part_name : "";
    out.cpus = answer->proc_cnt;
    if (answer->preemptee_job_id != nullptr) {
        const auto iterator = slurm_list_iterator_create(answer->preemptee_job_id);
        while (const void *id = slurm_list_next(iterator))
            out.preempts.push_back(*static_cast<const std::uint32_t *>(id));
        slurm_list_iterator_destroy(iterator);
    }
    slurm_api::free_answer(answer);
    return out;
}

}  // namespace berth::slurm
