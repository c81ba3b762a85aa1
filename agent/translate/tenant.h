// Tenant: who a pod is in Slurm, and what it may choose there. Slurm trusts the submitter as its administrator, so nothing behind these
// checks would stop a wish that they let through. Pure but for the lookup that is given.
#pragma once

#include <string>

#include "agent/translate/annotations.h"
#include "agent/translate/placeholder.h"

namespace berth {

// The tenant entry for the pod, or a sentence that says that there is none.
Result<const TenantConfig *> tenant_of(const kube::Pod &pod, const Config &config);

// User and group, never 0; an annotation may confirm them, not choose them.
Result<Identity> identity_of(const TenantConfig &tenant, const Annotations &wishes, const std::string &ns, const IdentityLookup &lookup);

// Account, partition, QOS, reservation, priority and nice, inside what the entry allows. `priority_class` may be null.
Result<void> choose(const TenantConfig &tenant, const Annotations &wishes, const PriorityClassConfig *priority_class, const std::string &ns,
                    Placeholder &out);

}  // namespace berth
