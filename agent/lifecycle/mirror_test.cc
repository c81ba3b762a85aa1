#include "agent/lifecycle/mirror.h"

#include <fmt/core.h>

#include <functional>

#include "test/unit/suite.h"

using namespace berth;

namespace {

// Both sides of node n1, and what the mirror has done to them.
struct Scene {
    SlurmNode slurm{.name = "n1"};
    std::optional<KubeNode> kube{KubeNode{}};
    bool deleted = false;
    MirrorPolicy policy;
    int drains = 0, resumes = 0, patches = 0;

    MirrorSteps steps() const { return mirror(&slurm, kube ? &*kube : nullptr, deleted, "n1", policy); }

    // One step, as the servers would carry it out.
    bool step() {
        const MirrorSteps todo = steps();
        if (!todo.drain.empty()) {
            drains++;
            slurm.drain = true;
            slurm.reason = todo.drain;
            deleted = false;
        }
        if (todo.resume) {
            resumes++;
            slurm.drain = false;
            slurm.reason.clear();
        }
        if (todo.changes_kubernetes()) {
            patches++;
            kube->cordoned = todo.cordon.value_or(kube->cordoned);
            kube->cordoned_for = todo.cordoned_for.value_or(kube->cordoned_for);
            kube->marked_for = todo.marked_for.value_or(kube->marked_for);
        }
        return !todo.empty();
    }

    // Until nothing is left to do; it must not take long.
    Scene &settle() {
        int steps_taken = 0;
        while (step())
            ck_assert_msg(++steps_taken <= 2, "the two sides do not come to rest: Slurm \"%s\"", slurm.reason.c_str());
        return *this;
    }

    // What people do.
    Scene &admin_drains(const char *reason = "disk") {
        slurm.drain = true;
        slurm.reason = reason;
        return *this;
    }
    Scene &admin_resumes() {
        slurm.drain = slurm.down = slurm.fail = false;
        slurm.reason.clear();
        return *this;
    }
    Scene &cordon(bool cordoned = true) {
        kube->cordoned = cordoned;
        return *this;
    }
};

const std::string is_cordoned = "berth: kubernetes node n1 is cordoned";

}  // namespace

START_TEST(slurms_causes_cordon_with_their_reason) {
    struct {
        bool drain, down, fail, maint;
        const char *reason, *says;
    } const table[] = {
        {true, false, false, false, "disk", "DRAIN: disk"},
        {false, true, false, false, "Not responding", "DOWN: Not responding"},
        {true, true, false, false, "disk", "DOWN+DRAIN: disk"},
        {false, false, true, false, "ecc", "FAIL: ecc"},
        {false, false, false, true, "", "MAINT"},
        {true, false, false, true, "disk", "DRAIN+MAINT: disk"},
        {true, false, false, false, "berth: pod default/p of job 1 cannot be killed", "DRAIN: berth: pod default/p of job 1 cannot be killed"},
        {false, true, false, false, "berth: kubernetes node n1 is NotReady", "DOWN"},
        {true, false, false, false, "berth: kubernetes node n1 is NotReady", ""},
        {false, false, false, false, "", ""},
    };
    for (const auto &row : table) {
        SlurmNode node{.name = "n1", .drain = row.drain, .down = row.down, .fail = row.fail, .maint = row.maint, .reason = row.reason};
        ck_assert_text(slurm_cause(node), row.says);
        if (is_mirror_reason(row.reason))
            continue;
        Scene scene;
        scene.slurm = node;
        scene.settle();
        ck_assert(scene.kube->cordoned == (*row.says != '\0') && scene.kube->cordoned_for.value_or("") == row.says);
        scene.admin_resumes().slurm.maint = false;
        scene.settle();
        ck_assert(!scene.kube->cordoned && !scene.kube->cordoned_for && scene.drains == 0 && scene.resumes == 0);
    }
}
END_TEST

START_TEST(kubernetes_causes_drain_with_their_reason) {
    struct {
        std::function<void(KubeNode &)> happens;
        const char *reason;
    } const table[] = {
        {[](KubeNode &n) { n.cordoned = true; }, "berth: kubernetes node n1 is cordoned"},
        {[](KubeNode &n) { n.ready = false, n.patience_over = true, n.ready_message = "no network\nyet"; },
         "berth: kubernetes node n1 is NotReady (no network yet)"},
        {[](KubeNode &n) { n.pressures = {{"DiskPressure", ""}}; }, "berth: kubernetes node n1 has DiskPressure"},
        {[](KubeNode &n) { n.pressures = {{"MemoryPressure", "little left"}}; }, "berth: kubernetes node n1 has MemoryPressure (little left)"},
        {[](KubeNode &n) { n.pressures = {{"PIDPressure", ""}}, n.cordoned = true; }, "berth: kubernetes node n1 has PIDPressure"},
    };
    for (const auto &row : table) {
        Scene scene;
        row.happens(*scene.kube);
        scene.settle();
        ck_assert_text(scene.slurm.reason, row.reason);
        ck_assert(is_mirror_reason(scene.slurm.reason) && scene.patches == 0);
        *scene.kube = KubeNode{};
        scene.settle();
        ck_assert(!scene.slurm.drain && scene.drains == 1 && scene.resumes == 1 && scene.patches == 0);
    }
}
END_TEST

START_TEST(a_node_that_is_not_ready_for_a_moment_is_not_drained) {
    Scene scene;
    scene.kube->ready = false;
    ck_assert(scene.steps().empty());
    scene.kube->patience_over = true;
    scene.settle();
    ck_assert_int_eq(scene.drains, 1);
    // Drained already for something else: what is not ready does not come back, however short that is.
    Scene other;
    other.cordon().settle();
    other.cordon(false).kube->ready = false;
    other.settle();
    ck_assert_text(other.slurm.reason, "berth: kubernetes node n1 is NotReady");
    other.kube->ready = true;
    other.settle();
    ck_assert(!other.slurm.drain);
}
END_TEST

START_TEST(a_reason_stays_while_it_is_true) {
    Scene scene;
    scene.cordon().settle();
    scene.kube->pressures = {{"DiskPressure", "1% left"}};
    scene.settle();
    ck_assert_text(scene.slurm.reason, is_cordoned);
    scene.cordon(false).settle();
    ck_assert_text(scene.slurm.reason, "berth: kubernetes node n1 has DiskPressure (1% left)");
    scene.kube->pressures = {{"DiskPressure", "2% left"}};  // a heartbeat
    ck_assert(scene.steps().empty());
}
END_TEST

START_TEST(only_our_own_is_undone) {
    Scene theirs;
    theirs.slurm.reason = "berth: pod default/p of job 1 cannot be killed";
    theirs.slurm.drain = true;
    theirs.settle();
    ck_assert(theirs.slurm.drain && theirs.resumes == 0);

    Scene renamed;  // an admin gives our drain a reason of theirs
    renamed.cordon().settle();
    renamed.admin_drains().cordon(false).settle();
    ck_assert(renamed.slurm.drain && renamed.slurm.reason == "disk");

    Scene taken;  // somebody takes our cordon over by removing the annotation
    taken.admin_drains().settle();
    taken.kube->cordoned_for.reset();
    taken.admin_resumes().settle();
    ck_assert(taken.kube->cordoned && taken.slurm.reason == is_cordoned);
}
END_TEST

START_TEST(a_person_who_uncordons_is_not_overruled_while_the_drain_lasts) {
    Scene scene;
    scene.admin_drains().settle();
    scene.cordon(false).settle();
    ck_assert(!scene.kube->cordoned && scene.kube->cordoned_for);
    scene.admin_drains("another disk").settle();
    ck_assert(!scene.kube->cordoned);
    scene.admin_resumes().settle();
    ck_assert(!scene.kube->cordoned_for);
    scene.admin_drains().settle();
    ck_assert(scene.kube->cordoned);
}
END_TEST

START_TEST(a_resume_in_slurm_is_renewed_while_kubernetes_cause_lasts) {
    Scene scene;
    scene.cordon().settle();
    scene.admin_resumes().settle();
    ck_assert(scene.slurm.drain && scene.drains == 2);
}
END_TEST

START_TEST(both_at_once_come_to_rest_whoever_ends_first) {
    for (const bool cordon_first : {false, true})
        for (const bool uncordon_first : {false, true}) {
            Scene scene;
            if (cordon_first) {
                scene.cordon().settle();
                ck_assert_text(scene.slurm.reason, is_cordoned);
                scene.admin_drains().settle();
            } else {
                // In one instant: neither has an effect yet.
                scene.cordon().admin_drains().settle();
                ck_assert(scene.drains == 0 && scene.patches == 0);
            }
            ck_assert(scene.slurm.reason == "disk" && scene.kube->cordoned && !scene.kube->cordoned_for);
            if (uncordon_first) {
                scene.cordon(false).settle();
                ck_assert(scene.slurm.reason == "disk" && scene.kube->cordoned && scene.kube->cordoned_for == "DRAIN: disk");
                scene.admin_resumes().settle();
            } else {
                scene.admin_resumes().settle();
                ck_assert(scene.slurm.reason == is_cordoned && scene.kube->cordoned);
                scene.cordon(false).settle();
            }
            ck_assert(!scene.slurm.drain && !scene.kube->cordoned && !scene.kube->cordoned_for);
            ck_assert_int_le(scene.drains + scene.resumes + scene.patches, 4);
        }
}
END_TEST

START_TEST(a_deleted_node_drains_once) {
    Scene scene;
    scene.kube.reset();
    ck_assert(scene.steps().empty());  // one that never was
    scene.deleted = true;
    scene.settle();
    ck_assert_text(scene.slurm.reason, "berth: kubernetes node n1 is deleted");
    Scene back = scene;
    back.kube.emplace();
    back.settle();
    ck_assert(!back.slurm.drain);
    scene.admin_resumes().settle();
    ck_assert_int_eq(scene.drains, 1);
}
END_TEST

START_TEST(a_node_that_slurm_powered_down_is_not_drained_for_being_away) {
    Scene scene;
    scene.slurm.asleep = true;
    scene.kube->ready = false;
    scene.kube->patience_over = true;
    ck_assert(scene.steps().empty());
    scene.kube.reset();
    scene.deleted = true;
    ck_assert(scene.steps().empty());
}
END_TEST

START_TEST(what_a_node_without_a_partner_carries_of_ours_is_removed) {
    KubeNode kube;
    kube.cordoned = true;
    kube.cordoned_for = "DRAIN: disk";
    const MirrorSteps steps = mirror(nullptr, &kube, false, "n1", {});
    ck_assert(steps.cordon == false && steps.cordoned_for && !*steps.cordoned_for && steps.drain.empty());
}
END_TEST

START_TEST(by_config_a_drain_is_marked_or_not_shown) {
    Scene scene;
    scene.policy.on_slurm_drain = OnSlurmDrain::mark;
    scene.admin_drains().settle();
    ck_assert(!scene.kube->cordoned && scene.kube->marked_for == "DRAIN: disk");
    scene.policy.on_slurm_drain = OnSlurmDrain::cordon;
    scene.settle();
    ck_assert(scene.kube->cordoned && !scene.kube->marked_for);
    scene.policy.on_slurm_drain = OnSlurmDrain::nothing;
    scene.settle();
    ck_assert(!scene.kube->cordoned && !scene.kube->cordoned_for && !scene.kube->marked_for);

    Scene other;
    other.cordon().settle();
    other.policy.drain_in_slurm = false;
    other.settle();
    ck_assert(!other.slurm.drain);
}
END_TEST

// Every combination of what both sides can say: nothing foreign is touched, and one step later all is at rest.
START_TEST(all_combinations_touch_only_ours_and_come_to_rest) {
    const std::string reasons[] = {"", "disk", is_cordoned, "berth: kubernetes node n1 is NotReady (x)", "berth: pod default/p of job 1 ..."};
    int seen = 0;
    for (const std::string &reason : reasons)
        for (unsigned bits = 0; bits < 1u << 14; ++bits) {
            const auto bit = [bits](unsigned n) { return (bits >> n & 1) != 0; };
            Scene scene;
            scene.slurm = {.name = "n1", .drain = bit(0), .down = bit(1), .fail = bit(2), .maint = bit(3), .asleep = bit(4), .reason = reason};
            KubeNode &kube = *scene.kube;
            kube.cordoned = bit(5);
            if (bit(6))
                kube.cordoned_for = bit(7) ? "DRAIN: disk" : "MAINT";
            if (bit(8))
                kube.marked_for = "DRAIN: disk";
            kube.ready = bit(9);
            kube.patience_over = bit(10);
            if (bit(11))
                kube.pressures = {{"DiskPressure", ""}};
            if (bit(12)) {
                scene.kube.reset();
                scene.deleted = bit(5);
            }
            scene.policy.drain_in_slurm = bit(13);
            for (const OnSlurmDrain policy : {OnSlurmDrain::cordon, OnSlurmDrain::mark, OnSlurmDrain::nothing}) {
                Scene run = scene;
                run.policy.on_slurm_drain = policy;
                const MirrorSteps todo = run.steps();
                const bool ours = run.slurm.drain && is_mirror_reason(run.slurm.reason);
                ck_assert_msg(!todo.resume || ours, "ends a drain for \"%s\"", reason.c_str());
                ck_assert(todo.drain.empty() || ours || !(run.slurm.drain || run.slurm.down || run.slurm.fail));
                ck_assert(todo.drain.empty() || (is_mirror_reason(todo.drain) && !todo.resume));
                if (run.kube) {
                    ck_assert_msg(todo.cordon != false || run.kube->cordoned_for, "uncordons what somebody else cordoned");
                    ck_assert(todo.cordon != true || (!run.kube->cordoned && !run.kube->cordoned_for));
                    ck_assert(!todo.cordoned_for || !*todo.cordoned_for || !run.kube->cordoned || run.kube->cordoned_for);
                }
                run.settle();
                seen++;
            }
        }
    ck_assert_int_eq(seen, 5 * (1 << 14) * 3);
}
END_TEST

int main() {
    return berth::test::run_suite(
        "mirror",
        {slurms_causes_cordon_with_their_reason, kubernetes_causes_drain_with_their_reason,
         a_node_that_is_not_ready_for_a_moment_is_not_drained, a_reason_stays_while_it_is_true, only_our_own_is_undone,
         a_person_who_uncordons_is_not_overruled_while_the_drain_lasts, a_resume_in_slurm_is_renewed_while_kubernetes_cause_lasts,
         both_at_once_come_to_rest_whoever_ends_first, a_deleted_node_drains_once,
         a_node_that_slurm_powered_down_is_not_drained_for_being_away, what_a_node_without_a_partner_carries_of_ours_is_removed,
         by_config_a_drain_is_marked_or_not_shown, all_combinations_touch_only_ours_and_come_to_rest},
        300);  // under a sanitizer, on a busy machine
}
