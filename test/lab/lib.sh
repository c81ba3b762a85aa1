# shellcheck shell=bash
# lib.sh : what the lab's scripts share. To be sourced.
#
# A lab is a directory:
#   settings          what `up` was asked for, as shell variables lab_*; the scripts' memory
#   env               for people and tests to source: KUBECONFIG, SLURM_CONF, PATH
#   daemons/NAME/     run (how it is started), pid ("pid start-time" of the process that runs now)
#   log/              one log per daemon
#   etc/, kubernetes/, state/, node/   configuration and state of the servers
# and outside of it, all named by its port block and removed by `down`:
#   /run/berth-lab-PORT/            Unix sockets (their paths must stay below 108 bytes) and slurmd's spool
#   cgroup /berth-lab-PORT          daemons/ holds every daemon with all it ever forked; NODE/ is a kubelet's cgroup root

lab_here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

say() { echo "lab: $*"; }
die() {
    echo "lab: $*" >&2
    exit 1
}

# lab_open DIR : loads the settings of a lab that `up` has begun; their copy in the run directory serves when DIR was removed.
lab_open() {
    local dir settings
    dir=$(readlink -m "$1")
    for settings in "$dir/settings" /run/berth-lab-*/settings; do
        if grep -qsx "lab_dir=$(printf %q "$dir")" "$settings"; then
            # shellcheck disable=SC1090
            . "$settings"
            return
        fi
    done
    die "$1 is no lab"
}

# wait_for SECONDS WHAT COMMAND... : until the command succeeds. Says what it waited for when it gives up.
wait_for() {
    local seconds=$1 what=$2 deadline
    shift 2
    deadline=$((SECONDS + seconds))
    until "$@"; do
        if [ $SECONDS -ge $deadline ]; then
            echo "lab: $what: not within $seconds s" >&2
            return 1
        fi
        sleep 0.05
    done
}

# lab_substitute < TEMPLATE : replaces @DIR@, @RUN@, @NAME@, @PORT@, @DOORBELL@, @PLUGINS@, @PARTITIONS@,
# @ACCOUNTS@ and @QOS@ by this lab's. What is an agent's own, @KUBECONFIG@ and @AGENT@ (its name), is left to `agents`.
lab_substitute() {
    sed -e "s|@DIR@|$lab_dir|g" -e "s|@RUN@|$lab_run|g" -e "s|@NAME@|$lab_name|g" -e "s|@PORT@|$lab_port|g" \
        -e "s|@DOORBELL@|$((lab_port + 20))|g" -e "s|@PLUGINS@|$lab_plugins|g" -e "s|@PARTITIONS@|main${lab_real:+, real}|g" \
        -e "s|@ACCOUNTS@|${lab_dbd:+k8s}|g" -e "s|@QOS@|${lab_dbd:+normal, low, high}|g"
}

# --- cgroups ------------------------------------------------------------------------------------------------------

# The mounted hierarchies, one directory a line; the v2 one, which can kill a whole subtree at once, first.
cgroup_hierarchies() {
    awk '$3 == "cgroup2" { print $2 }' /proc/self/mounts
    awk '$3 == "cgroup" { print $2 }' /proc/self/mounts
}

# Every daemon lives in this cgroup, so `down` finds all that came of it, whatever it forked and however it was orphaned.
daemon_cgroup() { echo "$(cgroup_hierarchies | head -1)/$lab_name/daemons"; }

# Empties and removes one cgroup subtree of all hierarchies. Frozen processes cannot be killed, so they are thawed first.
cgroup_destroy() {
    local name=$1 root deadline=$((SECONDS + 20)) found
    while :; do
        found=
        for root in $(cgroup_hierarchies); do
            [ -d "$root/$name" ] || continue
            found=1
            find "$root/$name" -name freezer.state -exec sh -c 'for f; do echo THAWED > "$f"; done' sh {} + 2> /dev/null
            if [ -e "$root/$name/cgroup.kill" ]; then
                echo 1 > "$root/$name/cgroup.kill"
            fi
            find "$root/$name" -name cgroup.procs -exec cat {} + 2> /dev/null | sort -un | xargs -r kill -9 2> /dev/null
            find "$root/$name" -depth -type d -exec rmdir {} + 2> /dev/null
        done
        [ -n "$found" ] || return 0
        if [ $SECONDS -ge $deadline ]; then
            echo "lab: processes in cgroup $name do not die" >&2
            return 1
        fi
        sleep 0.05
    done
}

# --- daemons ------------------------------------------------------------------------------------------------------

# daemon_define NAME USER COMMAND... : how NAME is started, in the foreground. What it prints goes to log/NAME.log; with
# daemon_output=FILE to that file in log/, for daemons that write NAME.log themselves.
daemon_define() {
    local name=$1 user=$2 dir=$lab_dir/daemons/$1
    shift 2
    mkdir -p "$dir"
    {
        echo '#!/bin/bash'
        echo "echo \$\$ > $(printf %q "$(daemon_cgroup)/cgroup.procs") || exit"
        echo "cd $(printf %q "$dir") || exit"
        echo "export SLURM_CONF=$(printf %q "$lab_dir/etc/slurm.conf")"
        echo "exec >> $(printf %q "$lab_dir/log/${daemon_output:-$name.log}") 2>&1 < /dev/null"
        printf 'exec '
        [ "$user" = root ] || printf 'setpriv --reuid=%q --regid=%q --init-groups -- ' "$user" "$(id -gn "$user")"
        printf '%q ' "$@"
        echo
    } > "$dir/run"
    chmod 755 "$dir/run"
}

# The time at which a process started, in clock ticks since boot: with the pid it names a process for good.
start_time() {
    local stat
    { read -r stat < "/proc/$1/stat"; } 2> /dev/null || return 1
    stat=${stat##*) }
    # shellcheck disable=SC2086
    set -- $stat
    [ "$1" != Z ] && echo "${20}"
}

# daemon_pid NAME : its pid, when it runs.
daemon_pid() {
    local pid started
    { read -r pid started < "$lab_dir/daemons/$1/pid"; } 2> /dev/null || return 1
    [ "$(start_time "$pid")" = "$started" ] && echo "$pid"
}

daemon_runs() { daemon_pid "$1" > /dev/null; }
daemon_stopped() { ! daemon_pid "$1" > /dev/null; }

# daemon_state NAME : running, paused or stopped
daemon_state() {
    local pid stat
    pid=$(daemon_pid "$1") || { echo stopped && return; }
    { read -r stat < "/proc/$pid/stat"; } 2> /dev/null || { echo stopped && return; }
    case ${stat##*) } in
        T*) echo paused ;;
        *) echo running ;;
    esac
}

daemon_start() {
    local name=$1 pid
    [ -x "$lab_dir/daemons/$name/run" ] || die "no daemon $name in $lab_dir"
    daemon_runs "$name" && return 0
    setsid "$lab_dir/daemons/$name/run" > /dev/null 2>&1 < /dev/null &
    pid=$!
    echo "$pid $(start_time "$pid")" > "$lab_dir/daemons/$name/pid"
}

# daemon_signal NAME SIGNAL
daemon_signal() {
    local pid
    pid=$(daemon_pid "$1") || die "$1 does not run"
    kill "-$2" "$pid"
}

# daemon_stop NAME [SECONDS] : SIGTERM, and SIGKILL for what is still there after some seconds.
daemon_stop() {
    local pid
    pid=$(daemon_pid "$1") || return 0
    kill -CONT "$pid"
    kill "$pid"
    wait_for "${2:-20}" "$1 stops" daemon_stopped "$1" || daemon_kill "$1"
}

daemon_kill() {
    local pid
    pid=$(daemon_pid "$1") || return 0
    kill -9 "$pid"
    wait_for 10 "$1 dies" daemon_stopped "$1"
}

daemon_names() { (cd "$lab_dir/daemons" 2> /dev/null && ls -d -- *) | cat; }

# daemon_log_tail NAME : the end of its log, for messages about why it is not there; and of what it said before it had one.
daemon_log_tail() {
    local log
    for log in "$lab_dir/log/$1.log" "$lab_dir/log/$1.err"; do
        [ -e "$log" ] || continue
        echo "--- $log" >&2
        tail -n 20 "$log" >&2
    done
}
