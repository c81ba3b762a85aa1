// SPANK_BERTH as a job brings it to its node: sealed by slurmctld's plugin, or by nobody.
#include "proto/seal.h"

#include "proto/ticket.h"
#include "test/fuzz/fuzz.h"

using namespace berth;

namespace {

constexpr std::string_view key = "0123456789abcdef0123456789abcdef", other = "0123456789abcdef0123456789abcdeF";

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    const std::string_view text = fuzz::as_text(data, size);
    // The fuzzer does not find an HMAC: whatever opens was sealed.
    if (const auto opened = open_seal(key, text))
        fuzz::require(seal(key, *opened) == text, "only a seal of this key opens", text);
    std::string sealed = seal(key, text);
    const auto opened = open_seal(key, sealed);
    fuzz::require(opened && *opened == text, "a sealed text opens as it was", text);
    fuzz::require(!open_seal(other, sealed), "another key does not open it", text);
    sealed[size % sealed.size()] ^= 1;
    fuzz::require(!open_seal(key, sealed), "one changed bit is one too many", text);
    // And as the node goes on with it.
    std::string why;
    (void)parse_ticket(*opened, why);
    return 0;
}
