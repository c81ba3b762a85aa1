// load_kubeconfig() for daemons, which believe a file only where nobody else can have changed it. What it reads and refuses is said in
// credentials.h.
#pragma once

#include <functional>
#include <string>

#include "agent/kube/credentials.h"

namespace berth::kube {

// Asked about every file and credential program before it is believed (`secret`: it holds a key or token), and again whenever they are read
// again.
using FileCheck = std::function<Result<void>(const std::string &path, bool secret)>;
Result<Credentials> load_kubeconfig(const std::string &paths, const std::string &context, const FileCheck &check);

}  // namespace berth::kube
