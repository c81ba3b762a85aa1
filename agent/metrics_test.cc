#include "agent/metrics.h"

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "test/unit/suite.h"

using namespace berth;

namespace {

metrics::Gauges full() {
    metrics::Gauges now;
    now.controller = now.leader = now.ready = true;
    now.queue = {{"Resources", 3}, {"a \"b\" \\ \n c", 1}};
    now.workloads = {{"docked", 2}};
    now.drained_nodes = {{"site", 1}};
    now.nodes = 7;
    now.slurm_age = 0.5;
    return now;
}

std::string file(const std::string &name) {
    std::ifstream in(std::string(BERTH_SRCDIR) + "/" + name);
    ck_assert_msg(in.good(), "%s cannot be read", name.c_str());
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

std::set<std::string> names_in(const std::string &text, const std::regex &pattern) {
    std::set<std::string> out;
    for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at)
        out.insert((*at)[1]);
    return out;
}

}  // namespace

START_TEST(histogram_counts_into_its_bucket_and_all_above) {
    metrics::Histogram times;
    times.observe(0.01);   // a bound belongs to its bucket
    times.observe(0.3);
    times.observe(100'000);
    times.observe(-5);     // a clock that was set back
    std::string out;
    times.write(out, "x_seconds", "start=\"queued\"");
    ck_assert_part(out, "x_seconds_bucket{start=\"queued\",le=\"0.01\"} 2\n");
    ck_assert_part(out, "x_seconds_bucket{start=\"queued\",le=\"0.25\"} 2\n");
    ck_assert_part(out, "x_seconds_bucket{start=\"queued\",le=\"0.5\"} 3\n");
    ck_assert_part(out, "x_seconds_bucket{start=\"queued\",le=\"43200\"} 3\n");
    ck_assert_part(out, "x_seconds_bucket{start=\"queued\",le=\"+Inf\"} 4\n");
    ck_assert_part(out, "x_seconds_count{start=\"queued\"} 4\n");
    ck_assert_part(out, "x_seconds_sum{start=\"queued\"} 100000.31\n");
}
END_TEST

START_TEST(calls_are_counted_by_verb_and_status) {
    metrics::api_call("PATCH", false, 200);
    metrics::api_call("PATCH", false, 409);
    metrics::api_call("GET", true, 410);
    metrics::api_call("GET", false, 418);
    metrics::api_call("GET", false, 503);
    metrics::api_call("GET", false, 0);
    metrics::api_call("BREW", false, 200);
    metrics::rpc(metrics::Rpc::submit, metrics::RpcOutcome::ok);
    metrics::rpc(metrics::Rpc::update_node, metrics::RpcOutcome::failed);
    metrics::healed(metrics::Healed::lost_job);
    metrics::drained(metrics::Drain::pod);
    const std::string out = metrics::text({});
    for (const char *line : {"berth_kubernetes_requests_total{verb=\"PATCH\",code=\"2xx\"} 1\n", "{verb=\"PATCH\",code=\"409\"} 1\n",
                             "{verb=\"WATCH\",code=\"410\"} 1\n", "{verb=\"GET\",code=\"4xx\"} 1\n", "{verb=\"GET\",code=\"5xx\"} 1\n",
                             "{verb=\"GET\",code=\"none\"} 1\n", "{verb=\"other\",code=\"2xx\"} 1\n",
                             "berth_slurm_requests_total{kind=\"submit\",outcome=\"ok\"} 1\n",
                             "berth_slurm_requests_total{kind=\"update_node\",outcome=\"failed\"} 1\n",
                             "berth_healed_total{what=\"lost_job\"} 1\n", "berth_node_drains_total{cause=\"pod\"} 1\n"})
        ck_assert_part(out, line);
}
END_TEST

START_TEST(gauges_show_queue_and_leader_of_a_controller_only) {
    const std::string controller = metrics::text(full()), node = metrics::text({});
    ck_assert_part(controller, "berth_leader 1\n");
    ck_assert_part(controller, "berth_queue_workloads{reason=\"Resources\"} 3\n");
    ck_assert_part(controller, "berth_queue_workloads{reason=\"a \\\"b\\\" \\\\ \\n c\"} 1\n");
    ck_assert_part(controller, "berth_nodes_drained{cause=\"site\"} 1\n");
    ck_assert_part(controller, "berth_build_info{version=\"");
    ck_assert_msg(node.find("berth_leader") == std::string::npos, "a node has no leader");
    ck_assert_part(node, "berth_ready 0\n");
}
END_TEST

START_TEST(every_line_is_a_comment_or_a_sample) {
    const std::regex sample(R"(berth_[a-z_]+(\{[a-z_]+="([^"\\]|\\.)*"(,[a-z_]+="([^"\\]|\\.)*")*\})? [-0-9.e+]+)");
    std::istringstream lines(metrics::text(full()));
    for (std::string line; std::getline(lines, line);)
        ck_assert_msg(line.starts_with("# HELP ") || line.starts_with("# TYPE ") || std::regex_match(line, sample), "%s", line.c_str());
}
END_TEST

// What the documents and the dashboard name is there.
START_TEST(dashboard_and_documents_name_only_metrics_that_exist) {
    const std::set<std::string> known = names_in(metrics::text(full()), std::regex("# TYPE (berth_[a-z_]+) "));
    const std::regex name("(berth_[a-z_]+?)(_bucket|_sum|_count)?\\b");
    for (const char *path : {"etc/grafana/berth.json", "docs/admin.md"}) {
        const std::set<std::string> named = names_in(file(path), name);
        ck_assert_msg(!named.empty(), "%s names no metric", path);
        for (const std::string &one : named)
            ck_assert_msg(known.count(one) != 0, "%s names %s, which there is not", path, one.c_str());
    }
    const std::set<std::string> documented = names_in(file("docs/admin.md"), name);
    for (const std::string &one : known)
        ck_assert_msg(documented.count(one) != 0, "docs/admin.md says nothing of %s", one.c_str());
}
END_TEST

int main() {
    return berth::test::run_suite("metrics", {histogram_counts_into_its_bucket_and_all_above, calls_are_counted_by_verb_and_status,
                                              gauges_show_queue_and_leader_of_a_controller_only, every_line_is_a_comment_or_a_sample,
                                              dashboard_and_documents_name_only_metrics_that_exist});
}
