#include "proto/seal.h"

#include <sys/stat.h>
#include <unistd.h>

#include <random>

#include "test/unit/scratch.h"
#include "test/unit/suite.h"

using namespace berth;
using berth::test::Scratch;

namespace {

const std::string key_a(32, 'a'), key_b(32, 'b');

bool accepted(const std::string &path) {
    std::string why;
    const bool read = read_key(path, why).has_value();
    ck_assert(read || why.starts_with(path + ": "));
    return read;
}

}  // namespace

START_TEST(seal_is_hmac_sha256_in_hex_then_dot_then_text) {
    // RFC 4231, test case 2.
    ck_assert_text(seal("Jefe", "what do ya want for nothing?"),
                     "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843.what do ya want for nothing?");
}
END_TEST

START_TEST(sealed_text_comes_back) {
    for (const std::string &text :
         {std::string(), std::string("x"), std::string("a.b\n\0c", 6), std::string(100000, 'z')}) {
        const std::string sealed = seal(key_a, text);
        const auto opened = open_seal(key_a, sealed);
        ck_assert(opened.has_value());
        ck_assert(*opened == text);
        ck_assert(opened->data() == sealed.data() + 65);
    }
}
END_TEST

START_TEST(another_key_does_not_open) {
    const std::string sealed = seal(key_a, "text");
    ck_assert(!open_seal(key_b, sealed));
    ck_assert(!open_seal("", sealed));
    ck_assert(!open_seal(key_a + "a", sealed));
}
END_TEST

START_TEST(every_changed_byte_breaks_the_seal) {
    const std::string sealed = seal(key_a, R"({"berth":1,"user":1001})");
    for (std::size_t at = 0; at < sealed.size(); ++at)
        for (int bit = 0; bit < 8; ++bit) {
            std::string forged = sealed;
            forged[at] = static_cast<char>(forged[at] ^ (1 << bit));
            ck_assert(!open_seal(key_a, forged));
        }
    for (std::size_t length = 0; length < sealed.size(); ++length)
        ck_assert(!open_seal(key_a, std::string_view(sealed).substr(0, length)));
    ck_assert(!open_seal(key_a, sealed + " "));
    ck_assert(!open_seal(key_a, " " + sealed));
}
END_TEST

START_TEST(forged_seals_do_not_open) {
    std::string upper = seal(key_a, "text");
    for (char &c : upper)
        c = c >= 'a' && c <= 'f' ? static_cast<char>(c - 32) : c;
    ck_assert(!open_seal(key_a, upper));
    ck_assert(!open_seal(key_a, "unsealed"));
    ck_assert(!open_seal(key_a, ".text"));
    ck_assert(!open_seal(key_a, std::string(64, '0') + ".text"));
    ck_assert(!open_seal(key_a, std::string(65, '\0') + "text"));
    // Two halves of good seals are none.
    ck_assert(!open_seal(key_a, seal(key_a, "one").substr(0, 65) + "two"));
}
END_TEST

START_TEST(random_text_never_opens) {
    std::mt19937 random(4231);
    for (int round = 0; round < 5000; ++round) {
        std::string text(random() % 200, '\0');
        for (char &c : text)
            c = static_cast<char>(random());
        if (text.size() > 64)
            text[64] = '.';
        ck_assert(!open_seal(key_a, text));
    }
}
END_TEST

START_TEST(key_has_32_to_4096_bytes_without_its_line_end) {
    const Scratch dir;
    std::string why;
    ck_assert(!accepted(dir.write("k", std::string(31, 'k'))));
    ck_assert(!accepted(dir.write("k", std::string(31, 'k') + "\r\n\n")));
    ck_assert(!accepted(dir.write("k", "")));
    ck_assert(accepted(dir.write("k", std::string(32, 'k'))));
    ck_assert(accepted(dir.write("k", std::string(4096, 'k'))));
    ck_assert(!accepted(dir.write("k", std::string(4097, 'k'))));
    ck_assert(!accepted(dir.write("k", std::string(100000, 'k'))));
    ck_assert(read_key(dir.write("k", key_a + "\n"), why) == key_a);
    ck_assert(read_key(dir.write("k", key_a + "\r\n"), why) == key_a);
    ck_assert(read_key(dir.write("k", " " + key_a + " "), why) == " " + key_a + " ");
}
END_TEST

START_TEST(key_that_others_can_read_or_write_is_refused) {
    const Scratch dir;
    for (const mode_t mode : {0400, 0440, 0600, 0640, 0700, 0750})
        ck_assert_msg(accepted(dir.write("k", key_a, mode)), "%o", mode);
    for (const mode_t mode : {0604, 0602, 0601, 0620, 0660, 0644, 0666, 0777})
        ck_assert_msg(!accepted(dir.write("k", key_a, mode)), "%o", mode);
}
END_TEST

START_TEST(key_of_a_stranger_is_refused) {
    const Scratch dir;
    const std::string path = dir.write("k", key_a);
    if (geteuid() != 0)
        return;  // only root can give files away
    ck_assert(accepted(path));
    ck_assert_int_eq(chown(path.c_str(), 1001, 0), 0);
    ck_assert(!accepted(path));
}
END_TEST

START_TEST(key_must_be_a_plain_file_under_its_own_name) {
    const Scratch dir;
    const std::string path = dir.write("k", key_a), link = dir.path("link"), fifo = dir.path("fifo");
    ck_assert_int_eq(symlink(path.c_str(), link.c_str()), 0);
    ck_assert_int_eq(mkfifo(fifo.c_str(), 0600), 0);
    ck_assert(accepted(path));
    ck_assert(!accepted(link));
    ck_assert(!accepted(fifo));  // and does not wait for a writer
    ck_assert(!accepted(dir.path()));
    ck_assert(!accepted(dir.path("absent")));
    ck_assert(!accepted("/dev/zero"));
}
END_TEST

START_TEST(key_in_a_directory_that_others_can_write_to_is_refused) {
    const Scratch dir;
    const std::string path = dir.write("k", key_a);
    ck_assert_int_eq(chmod(dir.path().c_str(), 0770), 0);
    ck_assert(!accepted(path));
    ck_assert_int_eq(chmod(dir.path().c_str(), 0755), 0);
    ck_assert(accepted(path));
}
END_TEST

int main() {
    return test::run_suite(
        "seal", {seal_is_hmac_sha256_in_hex_then_dot_then_text, sealed_text_comes_back, another_key_does_not_open,
                 every_changed_byte_breaks_the_seal, forged_seals_do_not_open, random_text_never_opens,
                 key_has_32_to_4096_bytes_without_its_line_end, key_that_others_can_read_or_write_is_refused,
                 key_of_a_stranger_is_refused, key_must_be_a_plain_file_under_its_own_name,
                 key_in_a_directory_that_others_can_write_to_is_refused});
}
