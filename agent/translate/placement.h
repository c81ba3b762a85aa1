// Placement: which of the site's nodes may take the pods of one shape, and which they would like best. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/translate/placeholder.h"

namespace berth {

// The nodes that Slurm must leave out, as a hostlist: those that are not in Kubernetes, those that do not suit one of the pods, and those
// that the author excludes by name. An error when none is left: it counts what kept the nodes away.
Result<std::string> excluded_nodes(const std::vector<const kube::Pod *> &pods, const std::vector<std::string> &by_name,
                                   const Site &site);

// The features that the heaviest preferred node affinity stands for ("a100|h100"), "" when none can be told to Slurm. What is left out
// is said in `notes`.
std::string preferred_features(const kube::Pod &pod, const Site &site, std::vector<std::string> &notes);

}  // namespace berth
