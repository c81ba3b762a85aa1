// A whole watch: bytes in chunks, lines, events of pods, nodes and owners. First byte: how the rest is cut.
#include <algorithm>

#include "agent/kube/frames.h"
#include "test/fuzz/records.h"

using namespace berth;

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    if (size == 0)
        return 0;
    static kube::Decoder decoder;
    kube::Frames frames(64 << 10);
    std::string_view text = fuzz::as_text(data + 1, size - 1);
    const std::size_t chunk = (data[0] + 1u) * 8;
    while (!text.empty() && !frames.overlong()) {
        const std::size_t n = std::min(chunk, text.size());
        frames.append(text.substr(0, n));
        text.remove_prefix(n);
        while (const auto line = frames.next()) {
            fuzz::try_event<kube::Pod>(decoder, *line);
            fuzz::try_event<kube::Node>(decoder, *line);
            fuzz::try_event<kube::Object>(decoder, *line);
        }
    }
    return 0;
}
