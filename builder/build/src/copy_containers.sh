# Makes the directory $3, to be shown to what pulls an image in place of the machine's own /etc/containers, which does not
# change: a copy of it, with what is in $2. $1: the machine's /etc. skopeo pulls for bootc and rpm-ostree as a user without
# rights and without a HOME, so it reads nothing but /etc.
set -eu
umask 022
own=$1 given=$2 out=$3
# More are not settings.
limit=16384

if [ ! -d "$given" ]; then
    rm -rf "$out"
    exit 0
fi
(umask 077 && mkdir -p "${out%/*}")
rm -rf "$out.new"
mkdir -p "$out.new" "$own/containers"
size=$(du -skL "$own/containers" 2>/dev/null | cut -f 1)
if [ "${size:-0}" -gt "$limit" ]; then
    echo "$own/containers has more than $limit KiB: remove what are no settings" >&2
    exit 1
fi
# Without links: what is written below must not get to the machine's own files. skopeo skips a link without a file, too.
cp -aL "$own/containers/." "$out.new/" || echo "some files of $own/containers are left out" >&2
for host in "$given"/certs.d/*; do
    name=${host##*/}
    # Of a host's directories, skopeo reads the first that exists.
    if [ -d "$host" ] && [ ! -d "$out.new/certs.d/$name" ] && [ -d "$own/docker/certs.d/$name" ]; then
        mkdir -p "$out.new/certs.d"
        cp -aL "$own/docker/certs.d/$name" "$out.new/certs.d/" || echo "some CAs of $name are left out" >&2
    fi
done
chmod -R a+rX "$given"
# With the modes of what is given, not those of the files that it replaces.
cp -R --remove-destination "$given/." "$out.new/"
rm -rf "$out"
mv "$out.new" "$out"
