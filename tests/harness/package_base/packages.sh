#!/bin/sh
# Makes the packages of a Fedora-like system, with the real rpmbuild and createrepo_c, in the Debian root $1. In its database
# are those of a kernel. `build/` in the root then has the extensions image, and a repository of one signed
# package more.
set -eu
mkdir "$1/build"
chroot "$1" /bin/sh -eu <<'IN_ROOT'
cd /build
mkdir -p /etc/rpm
# Where CoreOS has the database. Debian's is in the home directory.
echo '%_dbpath /usr/share/rpm' > /etc/rpm/macros
rpm --initdb

# package NAME VERSION [TAG…]: one whose files are in the directory `root`. `scriptlets` has those of the package, and
# `owned` its own directories; both may be missing.
package() {
    {
        printf '%s\n' "Name: $1" "Version: $2" 'Release: 1' "Summary: $1" 'License: BSD-3-Clause' 'BuildArch: noarch' \
            'AutoReqProv: no'
        name=$1
        shift 2
        printf '%s\n' "$@" '%description' "$name" '%install' 'cp -a /build/root/. %{buildroot}/'
        if test -e scriptlets; then cat scriptlets; fi
        echo '%files'
        (cd root; find . -type f -o -type l | sed 's/^\.//')
        if test -e owned; then sed 's/^/%dir /' owned; fi
    } > spec
    rpmbuild --quiet -bb --define '_topdir /build' --define '__os_install_post %{nil}' spec
    rm -rf root scriptlets owned
}

# The shell, which every scriptlet needs, and the release, by which dnf chooses repositories.
mkdir -p root/usr/lib
echo 12 > root/usr/lib/system-release
package system-release 12 'Provides: /bin/sh' 'Provides: system-release(12)'

kernel() {
    version=$1
    shift
    for name in "$@"; do
        mkdir -p "root/usr/lib/modules/$version"
        echo "$name" > "root/usr/lib/modules/$version/$name"
        echo "/usr/lib/modules/$version" > owned
        package "$name" "$version"
    done
}
kernel 6.1.0 kernel kernel-core kernel-modules kernel-modules-core kernel-modules-extra
kernel 6.1.0_rt kernel-rt-core kernel-rt-modules kernel-rt-modules-extra kernel-rt-kvm

# A unit, a user, and a directory below /var with its own tmpfiles rule, as usbguard has them.
mkdir -p root/usr/lib/systemd/system root/usr/lib/tmpfiles.d root/var/log/usbguard
printf '%s\n' '[Service]' 'ExecStart=/bin/true' 'User=usbguard' '[Install]' 'WantedBy=basic.target' \
    > root/usr/lib/systemd/system/usbguard.service
echo 'd /var/log/usbguard 0755 usbguard usbguard' > root/usr/lib/tmpfiles.d/usbguard.conf
echo /var/log/usbguard > owned
printf '%s\n' '%pre' 'groupadd -r -g 970 usbguard' 'useradd -r -u 970 -g usbguard -d / -s /sbin/nologin usbguard' > scriptlets
package usbguard 1.1

# A directory below /var whose files make the service work.
mkdir -p root/usr/lib/systemd/system root/usr/sbin root/var/lib/ipsec/nss
printf '%s\n' '[Service]' 'ExecStart=/usr/sbin/ipsec' '[Install]' 'WantedBy=multi-user.target' \
    > root/usr/lib/systemd/system/ipsec.service
printf '#!/bin/sh\n' > root/usr/sbin/ipsec
chmod 755 root/usr/sbin/ipsec
printf '%s\n' /var/lib/ipsec /var/lib/ipsec/nss > owned
package libreswan 4.9
for name in NetworkManager-libreswan openvswitch3.5-ipsec; do
    mkdir -p root/usr/share
    echo "$name" > "root/usr/share/$name"
    package "$name" 1.0
done

mkdir -p root/usr/bin
printf '#!/bin/sh\necho tool\n' > root/usr/bin/acme-tool
chmod 755 root/usr/bin/acme-tool
package acme-tool 2.0

rpm --install RPMS/noarch/system-release-* RPMS/noarch/kernel-[0-9]* RPMS/noarch/kernel-core-* RPMS/noarch/kernel-modules-*
mkdir -p extensions/usr/share/rpm-ostree/extensions repository
rm RPMS/noarch/system-release-*
gpg --batch --quiet --passphrase '' --quick-generate-key acme rsa2048 sign never
rpmsign --define '__gpg /usr/bin/gpg' --define '_gpg_name acme' --addsign RPMS/noarch/acme-tool-*
gpg --armor --export acme > repository/RPM-GPG-KEY-acme
gpgconf --kill all
mv RPMS/noarch/acme-tool-* repository
mv RPMS/noarch/* extensions/usr/share/rpm-ostree/extensions
createrepo_c --quiet extensions/usr/share/rpm-ostree/extensions
createrepo_c --quiet repository
rm -rf /root/.gnupg BUILD BUILDROOT RPMS SOURCES SPECS SRPMS spec
IN_ROOT
