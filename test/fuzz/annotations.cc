// Annotations alone, a line each ("account=physics", "+nice=5" for Berth's own), on a gang of two ordinary pods.
#include "agent/translate/annotations.h"

#include "agent/workload/grouping.h"
#include "test/fuzz/site.h"

using namespace berth;

namespace {

kube::Pod pod_of(std::string_view text, const char *name) {
    kube::Pod pod;
    pod.ns = "science";
    pod.name = pod.uid = name;
    pod.service_account = "default";
    pod.need = {1500, 1LL << 30, {{"example.com/a100", 1}}};
    while (!text.empty()) {
        const std::string_view line = fuzz::take_line(text);
        const std::size_t equals = line.find('=');
        const bool own = line.starts_with('+');
        pod.annotations.emplace_back(std::string(own ? kOwnPrefix : kAnnotationPrefix).append(line.substr(own, equals - own)),
                                     equals == std::string_view::npos ? "" : line.substr(equals + 1));
    }
    std::sort(pod.annotations.begin(), pod.annotations.end());
    // One value for a key, as in any JSON object that was decoded.
    pod.annotations.erase(std::unique(pod.annotations.begin(), pod.annotations.end(),
                                      [](const auto &a, const auto &b) { return a.first == b.first; }),
                          pod.annotations.end());
    return pod;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    const std::string_view text = fuzz::as_text(data, size);
    const kube::Pod first = pod_of(text, "ring-0"), second = pod_of(text, "ring-1");
    if (const auto read = read_annotations(first.annotations); !read)
        fuzz::require_sentence(read.error(), 1000);
    (void)job_wide(first.annotations);
    const auto single = group_of(first, {}, fuzz::config());
    if (!single) {
        fuzz::require_sentence(single.error(), 1000);
        return 0;
    }
    fuzz::try_translate(*single, {&first});
    Membership gang = *single;
    gang.key = gang.owner_uid = "gang";
    gang.kind = "Job";
    gang.name = "ring";
    gang.gang = true;
    gang.size = 2;
    fuzz::try_translate(gang, {&first, &second});
    return 0;
}
