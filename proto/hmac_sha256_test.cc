// The published vectors: FIPS 180-4's examples for SHA-256, RFC 4231's for HMAC.
#include "proto/hmac_sha256.h"

#include "test/unit/suite.h"

using namespace berth;

namespace {

std::string bytes(std::size_t count, int value) { return std::string(count, static_cast<char>(value)); }

}  // namespace

START_TEST(sha256_gives_the_published_digests) {
    ck_assert_text(to_hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    ck_assert_text(to_hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    ck_assert_text(to_hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
                   "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    ck_assert_text(to_hex(sha256("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu")),
                   "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
    ck_assert_text(to_hex(sha256(std::string(1000000, 'a'))), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}
END_TEST

// Around the end of a block the length goes into this block or the next.
START_TEST(sha256_pads_texts_of_every_length) {
    ck_assert_text(to_hex(sha256(bytes(55, 'a'))), "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
    ck_assert_text(to_hex(sha256(bytes(56, 'a'))), "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
    ck_assert_text(to_hex(sha256(bytes(63, 'a'))), "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34");
    ck_assert_text(to_hex(sha256(bytes(64, 'a'))), "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
    ck_assert_text(to_hex(sha256(bytes(65, 'a'))), "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0");
}
END_TEST

START_TEST(hmac_gives_the_published_codes) {
    std::string counting;
    for (int i = 1; i <= 25; ++i)
        counting.push_back(static_cast<char>(i));
    const struct {
        std::string key, text, code;
    } cases[] = {
        {bytes(20, 0x0b), "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
        {"Jefe", "what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
        {bytes(20, 0xaa), bytes(50, 0xdd), "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
        {counting, bytes(50, 0xcd), "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
        {bytes(131, 0xaa), "Test Using Larger Than Block-Size Key - Hash Key First",
         "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
        {bytes(131, 0xaa),
         "This is a test using a larger than block-size key and a larger than block-size data. The key needs to be hashed before "
         "being used by the HMAC algorithm.",
         "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"},
    };
    for (const auto &one : cases)
        ck_assert_text(to_hex(hmac_sha256(one.key, one.text)), one.code);
    // Case 5 publishes the first half alone.
    ck_assert_text(to_hex(hmac_sha256(bytes(20, 0x0c), "Test With Truncation")).substr(0, 32), "a3b6167473100ee06e0c796c2955552b");
}
END_TEST

START_TEST(secrets_are_the_same_when_every_byte_is) {
    ck_assert(same_secret("", ""));
    ck_assert(same_secret("abc", "abc"));
    ck_assert(!same_secret("abc", "abd") && !same_secret("abc", "bbc") && !same_secret("abc", "ab") && !same_secret("", "a"));
}
END_TEST

int main() {
    return test::run_suite("hmac_sha256", {sha256_gives_the_published_digests, sha256_pads_texts_of_every_length, hmac_gives_the_published_codes,
                                           secrets_are_the_same_when_every_byte_is});
}
