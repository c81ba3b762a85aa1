// What anybody with a Slurm login can put in front of job_submit_berth.so: the job ids of `scontrol update`, admin comments, and SPANK
// variables. First line: "m" (modify) or "s" (submit) and the uid that asks; then job id, admin comment and variables, a line each.
#include "jobsubmit/guard.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/ticket.h"
#include "test/fuzz/fuzz.h"

using namespace berth;

namespace {

constexpr std::uint32_t bridge = 64030, tenant = 1001, coordinator = 1002, table_jobs = 64;
constexpr std::uint32_t placeholder = 12, part = 13;

void write_file(const std::string &path, std::string_view text, mode_t mode) {
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    fuzz::require(fd >= 0 && written, "the scene can be set", path);
    close(fd);
}

// One berth.conf, key and table for the whole run.
const RulesWatch &site() {
    static const RulesWatch *watch = [] {
        char dir[] = "/tmp/berth-fuzz-XXXXXX";
        fuzz::require(mkdtemp(dir) != nullptr, "the scene can be set");
        const std::string at = dir;
        write_file(at + "/key", std::string(64, 'k'), 0600);
        std::uint32_t table[table_jobs] = {};
        table[placeholder] = table[part] = tenant;
        write_file(at + "/placeholders", {reinterpret_cast<const char *>(table), sizeof table}, 0644);
        write_file(at + "/berth.conf",
                   "BridgeUser=64030\nKeyFile=" + at + "/key\nPlaceholderTable=" + at + "/placeholders\nNotifySocket=" + at + "/none\n", 0644);
        auto *made = new RulesWatch(at + "/berth.conf");
        fuzz::require(made->current() && made->table(), "the scene can be set");
        const std::string remove = "rm -r " + at;  // the watch keeps what it has read
        (void)!system(remove.c_str());
        return made;
    }();
    return *watch;
}

// slurmctld's own copy: what the plugin replaces it frees.
char *copy_of(std::string_view text) { return slurm_xstrdup(std::string(text).c_str()); }

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    std::string_view text = fuzz::as_text(data, size);
    if (text.find('\0') != std::string_view::npos)
        return 0;  // no C string holds it
    const std::string_view head = fuzz::take_line(text);
    const bool modify = head.starts_with('m');
    const std::uint32_t uid = head.ends_with('b') ? bridge : head.ends_with('r') ? 0 : head.ends_with('c') ? coordinator : tenant;
    const std::string_view id = fuzz::take_line(text), comment = fuzz::take_line(text);
    job_desc_msg_t job;
    slurm_init_job_desc_msg(&job);
    job.job_id_str = copy_of(id);
    job.admin_comment = comment.empty() ? nullptr : copy_of(comment);
    std::vector<char *> variables;
    while (!text.empty() && variables.size() < 4)
        variables.push_back(copy_of(fuzz::take_line(text)));
    job.spank_job_env = variables.data();
    job.spank_job_env_size = static_cast<std::uint32_t>(variables.size());
    if (head.find('t') != std::string_view::npos)
        job.num_tasks = 64;

    const Verdict verdict = modify ? guard_modify(site(), job, uid, [](std::uint32_t who) { return who == 0; }, -1) : guard_submit(site(), job, uid);
    fuzz::require((verdict.code == SLURM_SUCCESS) == verdict.message.empty(), "a refusal says why, and nothing else says anything");
    std::string why;
    const auto ticket = parse_ticket(comment, why);
    if (uid != bridge && ticket)
        fuzz::require(verdict.code != SLURM_SUCCESS, "nobody but the bridge writes a ticket", comment);
    if (!modify && verdict.code == SLURM_SUCCESS && ticket) {
        fuzz::require(job.user_id == ticket->user && job.user_id != 0 && job.group_id != 0, "a placeholder is its tenant's, never root's");
        fuzz::require(variables.size() == 1 && std::string_view(variables[0]).ends_with(comment), "a placeholder is sealed");
    }
    if (modify && (uid == tenant || uid == coordinator) && job.num_tasks == 64 && (id == "12" || id == "12,14" || id == "12+1" || id == " 12"))
        fuzz::require(verdict.code != SLURM_SUCCESS, "neither tenant nor coordinator changes the size of a placeholder", id);
    for (char *&variable : variables)
        slurm_xfree(reinterpret_cast<void **>(&variable));
    slurm_xfree(reinterpret_cast<void **>(&job.job_id_str));
    slurm_xfree(reinterpret_cast<void **>(&job.admin_comment));
    return 0;
}
