# Makes of `tree`, a Debian root, the OCI layout `image` and the disk `disk`.
# $1: the importer; $2: the image's tag; $3: its repository; $4: the stand-in of update-ca-trust.
cd tree
# As in Fedora: the trust store, compiled, and what it is compiled of.
install "$4" usr/bin/update-ca-trust
mkdir -p etc/pki/ca-trust/source/anchors usr/share/pki/ca-trust-source
sed -i "s|^x-init-reserved:.*|x-init-reserved: paths='/etc/pki/ca-trust/source:/usr/share/pki/ca-trust-source'|" \
    usr/share/p11-kit/modules/p11-kit-trust.module
chroot . update-ca-trust
rm -rf dev/* run/* tmp/* home root boot usr/lib/*/perl-base usr/bin/perl* etc/hostname etc/resolv.conf
install -D "$1" usr/libexec/ostree-ext-cli
# `ostree container commit`, as CoreOS has it.
mkdir -p usr/libexec/libostree/ext
printf '#!/bin/sh\nexec /usr/libexec/ostree-ext-cli "$@"\n' > usr/libexec/libostree/ext/ostree-container
chmod 755 usr/libexec/libostree/ext/ostree-container
for library in $(ldd "$1" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p' | sort -u); do
    test -e "./$library" || cp -L "$library" usr/lib/*-linux-gnu/
done
# What other images have there comes with the machine.
rm -rf opt srv usr/local var
mkdir -p boot sysroot usr/lib/cni var usr/lib/modules/6.1.0-lab
ln -s var/home home
ln -s var/roothome root
ln -s var/srv srv
ln -s var/opt opt
ln -s ../var/usrlocal usr/local
ln -s sysroot/ostree ostree
echo no kernel > usr/lib/modules/6.1.0-lab/vmlinuz
echo no initramfs > usr/lib/modules/6.1.0-lab/initramfs.img
cat > usr/lib/tmpfiles.d/lab.conf << 'END'
d /var/home 0755 root root -
d /var/roothome 0700 root root -
d /var/srv 0755 root root -
d /var/opt 0755 root root -
d /var/usrlocal 0755 root root -
d /var/tmp 1777 root root -
END
# The first boot makes it.
: > etc/machine-id
mv etc usr/etc
cd ..

ostree --repo=made init --mode=bare
# rpm-ostree prints no status of a commit whose time is 0.
ostree --repo=made commit --branch="$2" --tree=dir=tree --timestamp=@1700000000
"$1" container encapsulate --repo=made --compression-fast --label=containers.bootc=1 --label=ostree.bootable=true \
    "$2" "oci:image:$2"
rm -rf tree made

digest=$(jq --raw-output '.manifests[0].digest' image/index.json)
mkdir disk
ostree admin init-fs --modern disk
ostree admin os-init lab --sysroot=disk
ostree --repo=disk/ostree/repo config set sysroot.bootloader none
"$1" container image deploy --sysroot disk --stateroot lab --imgref "ostree-unverified-image:oci:$PWD/image:$2" \
    --target-imgref "ostree-unverified-registry:$3@$digest"
# Parts can be removed.
chattr -i disk/ostree/deploy/lab/deploy/*.0
# The journal of earlier boots is there.
mkdir -p disk/ostree/deploy/lab/var/log/journal
