// Pods as an API server sends them, alone and in lists.
#include "test/fuzz/records.h"

using namespace berth;

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    static kube::Decoder decoder;  // its memory is reused from text to text, as in a watch
    std::string text(fuzz::as_text(data, size));
    const std::string_view json = kube::padded(text);
    if (const auto pod = decoder.pod(json))
        fuzz::require_pod(*pod);
    else
        fuzz::require_sentence(pod.error(), fuzz::longest_problem);
    fuzz::try_list<kube::Pod>(decoder, json);
    return 0;
}
