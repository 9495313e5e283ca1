# The first process of a machine, still with the files of the host: joins the machine's control groups.
# `/proc` is still that of the outside, where this process has another number.
read -r pid rest < /proc/self/stat
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    echo 0 > "/sys/fs/cgroup/$5/cgroup.procs"
else
    for hierarchy in /sys/fs/cgroup/*/; do echo 0 > "$hierarchy/$5/cgroup.procs"; done
fi
exec unshare --cgroup sh -euc "$6" sh "$1" "$2" "$3" "$4" "$pid"
