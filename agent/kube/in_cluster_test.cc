// The identity of the pod that we run in, which etc/kubernetes/daemonset.yaml relies on: files that the kubelet mounts and replaces.
#include <filesystem>
#include <string>

#include "agent/kube/auth.h"
#include "agent/kube/credentials.h"
#include "test/unit/scratch.h"
#include "test/unit/suite.h"

using namespace berth;
using namespace berth::kube;

namespace {

// A mount as the kubelet makes it: token and ca.crt are links through ..data, which is moved to another folder at each rotation, so that both
// change at once.
class Mount {
  public:
    Mount() {
        for (const char *name : {"token", "ca.crt"})
            std::filesystem::create_symlink(std::string("..data/") + name, scratch_.path(name));
    }
    void rotate(const std::string &token, const std::string &ca) {
        const std::string folder = "..v" + std::to_string(++version_);
        std::filesystem::create_directory(scratch_.path(folder));
        scratch_.write(folder + "/token", token, 0644);
        scratch_.write(folder + "/ca.crt", ca, 0644);
        std::filesystem::create_directory_symlink(folder, scratch_.path("..data_tmp"));
        std::filesystem::rename(scratch_.path("..data_tmp"), scratch_.path("..data"));
    }
    void lose(const std::string &name) { std::filesystem::remove(scratch_.path("..data/" + name)); }
    Result<Credentials> load() const { return load_in_cluster(scratch_.path(), "10.96.0.1", "443"); }

  private:
    test::Scratch scratch_;
    int version_ = 0;
};

IdentityPtr identity_of(Auth &auth) {
    IdentityPtr got;
    auth.get([&](Result<IdentityPtr> result) {
        ck_assert(result.ok());
        got = *result;
    });
    ck_assert_ptr_nonnull(got.get());
    return got;
}

START_TEST(a_pod_is_who_its_mount_says) {
    Mount mount;
    mount.rotate("first\n", "CA 1");
    Loop loop;
    auto credentials = mount.load();
    ck_assert_msg(credentials.ok(), "%s", credentials.ok() ? "" : credentials.error().c_str());
    Auth auth(loop, *credentials, {});
    const IdentityPtr identity = identity_of(auth);
    ck_assert_text(identity->server, "https://10.96.0.1:443");
    ck_assert_text(identity->token, "first");
    ck_assert_text(identity->ca_pem, "CA 1");
}
END_TEST

START_TEST(a_mount_that_lacks_something_is_told_at_once) {
    Mount mount;
    auto problem = [&] {
        const auto got = mount.load();
        return got ? std::string("(no error)") : got.error();
    };
    ck_assert_part(problem(), "the service account's authority cannot be read: ");
    mount.rotate("token", "CA");
    mount.lose("ca.crt");
    ck_assert_part(problem(), "/ca.crt: No such file or directory");
    mount.rotate("token", "CA");
    mount.lose("token");
    ck_assert_part(problem(), "the service account's token cannot be read: ");
    ck_assert_part(problem(), "/token: No such file or directory");
    mount.rotate(" \n", "CA");
    ck_assert_part(problem(), "holds no token");
    mount.rotate("two SECRETS", "CA");
    ck_assert_part(problem(), "holds more than one word");
    ck_assert(problem().find("SECRETS") == std::string::npos);
}
END_TEST

START_TEST(a_token_is_read_again_when_it_is_old_and_not_before) {
    Mount mount;
    mount.rotate("first", "CA");
    Loop loop;
    Auth patient(loop, *mount.load(), {});
    Auth::Options at_once;
    at_once.token_file_age = std::chrono::seconds(0);
    Auth eager(loop, *mount.load(), at_once);
    ck_assert_text(identity_of(patient)->token, "first");
    ck_assert_text(identity_of(eager)->token, "first");
    mount.rotate("second", "CA");
    ck_assert_text(identity_of(patient)->token, "first");
    ck_assert_text(identity_of(eager)->token, "second");
    // While it cannot be read the last one serves.
    mount.lose("token");
    ck_assert_text(identity_of(eager)->token, "second");
}
END_TEST

START_TEST(a_refusal_reads_token_and_authority_again) {
    Mount mount;
    mount.rotate("first", "CA 1");
    Loop loop;
    Auth auth(loop, *mount.load(), {});
    const IdentityPtr first = identity_of(auth);
    mount.rotate("second", "CA 2");
    auth.refused(first);
    const IdentityPtr second = identity_of(auth);
    ck_assert_text(second->token, "second");
    ck_assert_text(second->ca_pem, "CA 2");
    ck_assert_text(first->token, "first");  // what is under way keeps what it began with
    // A mount that has gone leaves what there was.
    mount.rotate("third", "CA 3");
    mount.lose("ca.crt");
    auth.refused(second);
    ck_assert_text(identity_of(auth)->ca_pem, "CA 2");
}
END_TEST

}  // namespace

int main() {
    return test::run_suite("in_cluster", {a_pod_is_who_its_mount_says, a_mount_that_lacks_something_is_told_at_once,
                                          a_token_is_read_again_when_it_is_old_and_not_before, a_refusal_reads_token_and_authority_again});
}
