// Hostlists, which need no slurmctld.
#include "agent/slurm/client.h"
#include "test/unit/suite.h"

using namespace berth;

namespace {

using Hosts = std::vector<std::string>;

}  // namespace

START_TEST(hostlist_is_expanded_in_its_order) {
    ck_assert(slurm::expand_hosts("n[1-3]") == (Hosts{"n1", "n2", "n3"}));
    ck_assert(slurm::expand_hosts("n3,n[1-2],login") == (Hosts{"n3", "n1", "n2", "login"}));
    ck_assert(slurm::expand_hosts("n[08-11]") == (Hosts{"n08", "n09", "n10", "n11"}));
    ck_assert(slurm::expand_hosts("r[1-2]n[1-2]") == (Hosts{"r1n1", "r1n2", "r2n1", "r2n2"}));
    ck_assert(slurm::expand_hosts("n1") == (Hosts{"n1"}));
    ck_assert(slurm::expand_hosts("").empty());
}
END_TEST

START_TEST(hosts_are_compressed_and_come_back) {
    ck_assert_text(slurm::compress_hosts({"n1", "n2", "n3"}), "n[1-3]");
    ck_assert_text(slurm::compress_hosts({"n1"}), "n1");
    ck_assert_text(slurm::compress_hosts({}), "");
    const Hosts hosts{"n3", "n1", "n2", "login", "n08"};
    ck_assert(slurm::expand_hosts(slurm::compress_hosts(hosts)) == hosts);
}
END_TEST

int main() { return test::run_suite("hosts", {hostlist_is_expanded_in_its_order, hosts_are_compressed_and_come_back}); }
