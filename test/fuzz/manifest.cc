// A YAML file of `berth explain -f`, as a user has it, down to what slurmctld would be asked for.
#include "agent/tool/manifest.h"

#include "test/fuzz/records.h"
#include "test/fuzz/site.h"

using namespace berth;

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    auto manifest = tool::read_manifest(fuzz::as_text(data, size), "x.yaml", "science");
    if (!manifest) {
        fuzz::require(manifest.error().starts_with("x.yaml"), "an error names the file", manifest.error());
        return 0;
    }
    fuzz::require_pod(manifest->pod);
    for (const ObjectPtr &owner : manifest->chain.owners)
        fuzz::require_object(*owner);
    manifest->pod.ns = "science";
    const auto membership = group_of(manifest->pod, manifest->chain, fuzz::config());
    if (membership)
        fuzz::try_translate(*membership, {&manifest->pod});
    else
        fuzz::require_sentence(membership.error(), 1000);
    return 0;
}
