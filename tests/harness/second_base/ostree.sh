# Makes the image of the second base, in ostree's shape, from that of the first one, in the layout `image`.
# $1: the importer; $2: the first image; $3: the tag of the second one; $4: the list of what differs.
ostree --repo=first init --mode=bare
"$1" container image pull --quiet first "ostree-unverified-image:$2"
# Copies, because the files of the repository must stay as they are.
ostree --repo=first checkout --force-copy "$(ostree --repo=first refs | grep '^ostree/container/image/')" tree
(cd tree && sh -eu "$4")
ostree --repo=made init --mode=bare
# Later than that of the first one.
ostree --repo=made commit --branch="$3" --tree=dir=tree --timestamp=@1700000001
"$1" container encapsulate --repo=made --compression-fast --label=containers.bootc=1 --label=ostree.bootable=true \
    --label=org.opencontainers.image.version=2 --label=version=2 \
    --label=ostree.linux="$(ls tree/usr/lib/modules)" "$3" "oci:image:$3"
rm -rf tree first made
