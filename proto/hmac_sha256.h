// SHA-256 (FIPS 180-4) and HMAC with it (RFC 2104), of which a seal is made. Our own, because libcrypto takes longer to load than a prolog
// takes to run, and every sbatch, srun, prolog and epilog of a site loads the plugin. What is derived from the key is wiped before it returns.
// Pure functions, safe in any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace berth {

using Digest = std::array<std::uint8_t, 32>;

Digest sha256(std::string_view text);
Digest hmac_sha256(std::string_view key, std::string_view text);

std::string to_hex(const Digest &digest);  // lower case

// Takes as long for any two texts of one length, so that nobody finds a digest byte by byte.
bool same_secret(std::string_view a, std::string_view b);

}  // namespace berth
