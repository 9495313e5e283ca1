# The firmware of a machine: boots it, and boots it again when it has ended. Runs in the machine's network namespace.
# $1: folder of the machine's disk; $2: folder that the test and the machine share; $3: folder of the machine's settings;
# $4: folders of programs, as NAME=FOLDER; $5: its control groups, from each hierarchy's root; $6, $7: what comes next.
disk=$1 shared=$2 settings=$3 programs=$4 group=$5

hierarchies() {
    if [ -e /sys/fs/cgroup/cgroup.controllers ]; then echo /sys/fs/cgroup; else ls -d /sys/fs/cgroup/*/; fi
}

# A group without the groups of the boot before it. A v1 cpuset without processors takes no process.
make_group() {
    for hierarchy in $(hierarchies); do
        path=$hierarchy/$group
        [ ! -d "$path" ] || find "$path" -depth -type d -exec rmdir {} \;
        mkdir "$path"
        for limit in cpuset.cpus cpuset.mems; do
            [ ! -e "$hierarchy/$limit" ] || [ -e "$hierarchy/cgroup.controllers" ] || {
                cat "$hierarchy/$limit" > "${path%/*}/$limit"
                cat "$hierarchy/$limit" > "$path/$limit"
            }
        done
        [ ! -e "$hierarchy/cgroup.controllers" ] || for controller in $(cat "$hierarchy/cgroup.controllers"); do
            echo "+$controller" > "${path%/*}/cgroup.subtree_control" || true
        done
    done
}

while :; do
    while [ -e "$shared/hold" ]; do
        touch "$shared/off"
        sleep 0.1
    done
    rm -f "$shared/off"
    make_group
    # Left by the boot before, as the network namespace stays; a network card would be as new.
    ip link delete cni0 2> /dev/null || true
    ip link set eth0 up
    ip route replace default via "$(cat "$settings/gateway")"
    # A soft reboot is of the same boot.
    [ -e "$shared/soft-reboot-begun" ] || id=$(cat /proc/sys/kernel/random/uuid)
    rm -f "$shared/soft-reboot-begun" "$shared/soft-reboot-prepared"
    echo "$id" > "$shared/boot-id.next"
    mv "$shared/boot-id.next" "$shared/boot-id"
    code=0
    unshare --mount --propagation private --pid --uts --ipc --fork -- \
        sh -euc "$6" sh "$disk" "$shared" "$settings" "$programs" "$group" "$7" || code=$?
    rm -f "$shared/pid" "$shared/boot-id"
    echo "firmware: PID 1 has ended: $code"
    # The signal for a machine that was switched off.
    [ "$code" != 130 ] || touch "$shared/hold"
    # Else a machine that can't boot keeps a processor busy.
    sleep 0.3
done
