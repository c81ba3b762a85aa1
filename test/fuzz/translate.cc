// A whole hostile pod, from the API's JSON to what slurmctld would be asked for.
#include "test/fuzz/records.h"
#include "test/fuzz/site.h"

using namespace berth;

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    static kube::Decoder decoder;
    std::string text(fuzz::as_text(data, size));
    auto pod = decoder.pod(kube::padded(text));
    if (!pod)
        return 0;
    pod->ns = "science";  // the API server decides on namespaces, and each has the rights of its own
    fuzz::require_pod(*pod);
    const auto membership = group_of(*pod, {}, fuzz::config());
    if (!membership) {
        fuzz::require_sentence(membership.error(), 1000);
        return 0;
    }
    fuzz::try_translate(*membership, {&*pod});
    (void)shape_of(*pod, fuzz::config());
    for (const SiteNode &node : fuzz::site().nodes)
        if (const std::string why = mismatch(*pod, node, fuzz::config()); !why.empty())
            fuzz::require_sentence(why, 2000);
    (void)rank_key(*pod);
    (void)own_rank(*pod);
    return 0;
}
