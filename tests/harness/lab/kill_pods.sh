# Ends all containers, if the machine is shutting down.
[ "$(systemctl is-system-running)" = stopping ] || exit 0
find /sys/fs/cgroup -path '*/kubepods/*' -name cgroup.procs -exec cat {} + | sort -u | xargs -r kill -KILL
