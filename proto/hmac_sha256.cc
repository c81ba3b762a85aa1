#include "proto/hmac_sha256.h"

#include <bit>
#include <cstring>

namespace berth {

namespace {

constexpr std::size_t block_size = 64;

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::array<std::uint32_t, 64> constants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t load(const std::uint8_t *from) {
    return std::uint32_t{from[0]} << 24 | std::uint32_t{from[1]} << 16 | std::uint32_t{from[2]} << 8 | std::uint32_t{from[3]};
}

void store(std::uint32_t value, std::uint8_t *to) {
    for (int i = 0; i < 4; ++i)
        to[i] = static_cast<std::uint8_t>(value >> (24 - 8 * i));
}

// One running digest. Its state says something about the key when it began with one, so it is wiped at the end.
class Sha256 {
  public:
    Sha256() = default;
    ~Sha256() {
        explicit_bzero(state_.data(), sizeof state_);
        explicit_bzero(words_.data(), sizeof words_);
        explicit_bzero(rest_.data(), sizeof rest_);
    }
    Sha256(const Sha256 &) = delete;
    Sha256 &operator=(const Sha256 &) = delete;

    Sha256 &add(const std::uint8_t *data, std::size_t size) {
        bits_ += std::uint64_t{size} * 8;
        while (size > 0) {
            if (used_ == 0 && size >= block_size) {
                take(data);
                data += block_size;
                size -= block_size;
                continue;
            }
            const std::size_t part = std::min(size, block_size - used_);
            std::memcpy(rest_.data() + used_, data, part);
            used_ += part;
            data += part;
            size -= part;
            if (used_ == block_size) {
                take(rest_.data());
                used_ = 0;
            }
        }
        return *this;
    }
    Sha256 &add(std::string_view text) { return add(reinterpret_cast<const std::uint8_t *>(text.data()), text.size()); }

    // A one bit, zeros, and the length in 64 bits fill the last block.
    Digest finish() {
        const std::uint64_t bits = bits_;
        static constexpr std::array<std::uint8_t, block_size> padding = {0x80};
        add(padding.data(), 1 + (block_size * 2 - sizeof bits - 1 - used_) % block_size);
        std::array<std::uint8_t, sizeof bits> length;
        store(static_cast<std::uint32_t>(bits >> 32), length.data());
        store(static_cast<std::uint32_t>(bits), length.data() + 4);
        add(length.data(), length.size());
        Digest digest;
        for (std::size_t i = 0; i < state_.size(); ++i)
            store(state_[i], digest.data() + 4 * i);
        return digest;
    }

  private:
    void take(const std::uint8_t *block) {
        for (std::size_t i = 0; i < 16; ++i)
            words_[i] = load(block + 4 * i);
        for (std::size_t i = 16; i < words_.size(); ++i) {
            const std::uint32_t w15 = words_[i - 15], w2 = words_[i - 2];
            const std::uint32_t s0 = std::rotr(w15, 7) ^ std::rotr(w15, 18) ^ (w15 >> 3);
            const std::uint32_t s1 = std::rotr(w2, 17) ^ std::rotr(w2, 19) ^ (w2 >> 10);
            words_[i] = words_[i - 16] + s0 + words_[i - 7] + s1;
        }
        auto [a, b, c, d, e, f, g, h] = state_;
        for (std::size_t i = 0; i < words_.size(); ++i) {
            const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
            const std::uint32_t one = h + s1 + (g ^ (e & (f ^ g))) + constants[i] + words_[i];
            const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
            const std::uint32_t two = s0 + ((a & b) | (c & (a | b)));
            h = g;
            g = f;
            f = e;
            e = d + one;
            d = c;
            c = b;
            b = a;
            a = one + two;
        }
        const std::uint32_t after[] = {a, b, c, d, e, f, g, h};
        for (std::size_t i = 0; i < state_.size(); ++i)
            state_[i] += after[i];
    }

    // The first 32 bits of the fractional parts of the square roots of the first 8 primes.
    std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    std::array<std::uint32_t, 64> words_;
    std::array<std::uint8_t, block_size> rest_;
    std::size_t used_ = 0;
    std::uint64_t bits_ = 0;
};

}  // namespace

Digest sha256(std::string_view text) { return Sha256().add(text).finish(); }

Digest hmac_sha256(std::string_view key, std::string_view text) {
    std::array<std::uint8_t, block_size> inner{}, outer{};
    if (key.size() > block_size) {
        Digest shorter = sha256(key);
        std::memcpy(inner.data(), shorter.data(), shorter.size());
        explicit_bzero(shorter.data(), shorter.size());
    } else if (!key.empty()) {
        std::memcpy(inner.data(), key.data(), key.size());
    }
    for (std::size_t i = 0; i < block_size; ++i) {
        outer[i] = inner[i] ^ 0x5c;
        inner[i] ^= 0x36;
    }
    Digest digest = Sha256().add(inner.data(), inner.size()).add(text).finish();
    digest = Sha256().add(outer.data(), outer.size()).add(digest.data(), digest.size()).finish();
    explicit_bzero(inner.data(), inner.size());
    explicit_bzero(outer.data(), outer.size());
    return digest;
}

std::string to_hex(const Digest &digest) {
    static constexpr char hex[] = "0123456789abcdef";
    std::string out;
    out.reserve(2 * digest.size());
    for (const std::uint8_t byte : digest) {
        out.push_back(hex[byte >> 4]);
        out.push_back(hex[byte & 15]);
    }
    return out;
}

bool same_secret(std::string_view a, std::string_view b) {
    if (a.size() != b.size())
        return false;
    // volatile: the compiler must not leave the loop at the first difference.
    volatile unsigned char difference = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        difference = difference | static_cast<unsigned char>(a[i] ^ b[i]);
    return difference == 0;
}

}  // namespace berth
