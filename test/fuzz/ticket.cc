// The admin_comment of a job, as slurmctld's plugin, the controller and (out of its seal) the node read it.
#include "proto/ticket.h"

#include "test/fuzz/fuzz.h"

using namespace berth;

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    const std::string_view text = fuzz::as_text(data, size);
    std::string why;
    const auto ticket = parse_ticket(text, why);
    if (!ticket) {
        fuzz::require_sentence(why, 300);
        return 0;
    }
    // Else a placeholder could pass the guard of job_submit_berth.so unseen and be one all the same.
    fuzz::require(looks_like_ticket(text), "what parse_ticket() takes looks like a ticket", text);
    fuzz::require(text.size() <= 8192, "no ticket is longer than its bound");
    const std::string again = to_json(*ticket);
    if (again.empty())
        return 0;  // escapes may have made a text longer than its bound
    const auto back = parse_ticket(again, why);
    fuzz::require(back.has_value(), "what to_json() writes is read", again);
    fuzz::require(*back == *ticket, "a ticket reads back as it was", again);
    return 0;
}
