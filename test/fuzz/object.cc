// Everything else that an API server sends: owners of pods, groups, nodes and claims, alone and in lists.
#include "test/fuzz/records.h"

using namespace berth;

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    static kube::Decoder decoder;
    std::string text(fuzz::as_text(data, size));
    const std::string_view json = kube::padded(text);
    kube::Object job;
    job.api_version = "batch/v1";
    job.kind = "Job";
    if (const auto object = decoder.object(json, job))
        fuzz::require_object(*object);
    else
        fuzz::require_sentence(object.error(), fuzz::longest_problem);
    if (const auto node = decoder.node(json))
        fuzz::require_record(*node);
    if (const auto claim = decoder.claim(json); !claim)
        fuzz::require_sentence(claim.error(), fuzz::longest_problem);
    fuzz::try_list<kube::Object>(decoder, json, job);
    fuzz::try_list<kube::Node>(decoder, json);
    return 0;
}
