#include "test/bench/job_list.h"

#include <curl/curl.h>
#include <simdjson.h>

#include "proto/slurm_api.h"

namespace berth::bench {

namespace {

std::size_t append(char *data, std::size_t size, std::size_t count, void *body) {
    static_cast<std::string *>(body)->append(data, size * count);
    return size * count;
}

// A connection is kept open per thread.
Result<std::string> get(const std::string &socket, const char *path) {
    thread_local const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl(curl_easy_init(), curl_easy_cleanup);
    std::string body;
    const std::string url = std::string("http://localhost") + path;
    curl_easy_setopt(curl.get(), CURLOPT_UNIX_SOCKET_PATH, socket.c_str());
    curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, append);
    curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &body);
    long status = 0;
    const CURLcode code = curl_easy_perform(curl.get());
    curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
    if (code != CURLE_OK || status != 200)
        return Error{std::string("slurmrestd: ") + (code != CURLE_OK ? curl_easy_strerror(code) : body.substr(0, 300))};
    return body;
}

Result<std::string> find_by_rest(const std::string &socket, std::uint32_t wanted) {
    auto jobs = get(socket, "/slurm/v0.0.38/jobs");
    if (!jobs)
        return jobs;
    if (auto nodes = get(socket, "/slurm/v0.0.38/nodes"); !nodes)
        return nodes;
    thread_local simdjson::ondemand::parser parser;
    const simdjson::padded_string text(*jobs);
    simdjson::ondemand::document document;
    simdjson::ondemand::array list;
    if (parser.iterate(text).get(document) != simdjson::SUCCESS || document["jobs"].get(list) != simdjson::SUCCESS)
        return Error{"slurmrestd: no list of jobs: " + jobs->substr(0, 300)};
    for (auto job : list) {
        std::uint64_t id = 0;
        std::string_view state, nodes;
        if (job["job_id"].get(id) != simdjson::SUCCESS || id != wanted)
            continue;
        if (job["job_state"].get(state) != simdjson::SUCCESS || state != "RUNNING" || job["nodes"].get(nodes) != simdjson::SUCCESS)
            return std::string();
        return std::string(nodes);
    }
    return std::string();
}

Result<std::string> find_by_libslurm(std::uint32_t wanted) {
    job_info_msg_t *jobs = nullptr;
    node_info_msg_t *nodes = nullptr;
    if (slurm_load_jobs(0, &jobs, SHOW_ALL) != SLURM_SUCCESS)
        return Error{"slurmctld does not list its jobs"};
    std::string found;
    for (std::uint32_t i = 0; i < jobs->record_count; ++i) {
        const slurm_job_info_t &job = jobs->job_array[i];
        if (slurm_api::job_id(job) == wanted && (job.job_state & JOB_STATE_BASE) == JOB_RUNNING && job.nodes != nullptr)
            found = job.nodes;
    }
    slurm_api::free_jobs(jobs);
    if (slurm_load_node(0, &nodes, SHOW_ALL) != SLURM_SUCCESS)
        return Error{"slurmctld does not list its nodes"};
    slurm_free_node_info_msg(nodes);
    return found;
}

}  // namespace

Result<std::string> list_and_find(const std::string &rest_socket, std::uint32_t job) {
    return rest_socket.empty() ? find_by_libslurm(job) : find_by_rest(rest_socket, job);
}

}  // namespace berth::bench
