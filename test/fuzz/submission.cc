// What the child that submits heterogeneous jobs is told on standard input, and what it answers.
#include "agent/slurm/request.h"
#include "test/fuzz/fuzz.h"

using namespace berth;

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    const std::string_view text = fuzz::as_text(data, size);
    if (const auto request = slurm::parse_request(text)) {
        fuzz::require(!request->parts.empty() && request->parts.size() == request->tickets.size(), "each part has its ticket");
        const std::string again = slurm::to_text(*request);
        const auto back = slurm::parse_request(again);
        fuzz::require(back && slurm::to_text(*back) == again, "a request reads back as it was", again);
    } else {
        fuzz::require_sentence(request.error(), 300);
    }
    if (const auto submission = slurm::parse_submission(text)) {
        const auto back = slurm::parse_submission(slurm::to_text(*submission));
        fuzz::require(back && back->job == submission->job && back->outcome == submission->outcome && back->problem == submission->problem,
                      "an answer reads back as it was", text);
    }
    return 0;
}
