// berth explain NS/POD: reads both sides and tells the story of one pod. Blocks; one thread.
#pragma once

#include <cstdio>
#include <string>

#include "agent/tool/access.h"
#include "agent/tool/story.h"

namespace berth::tool {

// "team-a/train-0", or "train-0" of the namespace that the options name. Exit status: 0 told, 1 could not find out.
int explain(const AccessOptions &options, const std::string &what, std::FILE *out, std::FILE *err);

// What the API says of a pod beyond kube::Pod, put into the case: Slurm's verdict, what its containers wait for. Pure, as is the next.
void read_status(std::string &pod_json, Case &facts);
// The answer to a list of events about it.
void read_events(std::string &list_json, Case &facts);

}  // namespace berth::tool
