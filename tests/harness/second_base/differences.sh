# What the second base has other than the first one; this list is all of it. The root in the working directory becomes that
# of the second base. It is a plain one, or in ostree's shape, with `/etc` below `/usr`. What only some bases have comes last.
etc=etc
test ! -d usr/etc || etc=usr/etc

# Below /usr: a file added, changed, removed.
echo second > usr/share/second-base
sed -i 's/^VERSION_ID=.*/VERSION_ID="12.1"/' usr/lib/os-release
rm usr/bin/factor
# A file becomes a directory, a directory a link, a link a file.
rm usr/share/base-files/motd
mkdir usr/share/base-files/motd
echo second > usr/share/base-files/motd/10-second
mv usr/share/pixmaps usr/lib/pixmaps
ln -s ../lib/pixmaps usr/share/pixmaps
rm usr/bin/pager
printf '#!/bin/sh\nexec cat "$@"\n' > usr/bin/pager
chmod 755 usr/bin/pager

# The same in /etc: nothing of it needs a person to look at it.
rm $etc/issue.net
mkdir $etc/issue.net
echo second > $etc/issue.net/10-second
mv $etc/update-motd.d usr/lib/update-motd.d
ln -s /usr/lib/update-motd.d $etc/update-motd.d
rm $etc/rmt
echo second > $etc/rmt
echo second > $etc/second.conf
rm $etc/bindresvport.blacklist
# Defaults that are changed: of a file that nobody else changes, one that a config writes, one that the administrator of a
# machine changes, one that a config appends to.
for file in debian_version host.conf gai.conf xattr.conf; do echo '# second' >> $etc/$file; done

# A preset of a unit that a config enables, and one of a unit that it does not name.
sed -i 's/^enable \(systemd-networkd\|systemd-pstore\).service/disable \1.service/' \
    usr/lib/systemd/system-preset/90-systemd.preset
rm $etc/systemd/system/sysinit.target.wants/systemd-pstore.service

# A system user and group, and one that is made at boot, whose number is the next one.
echo 'second:x:977:' >> $etc/group
echo 'second:!*::' >> $etc/gshadow
echo 'second:x:977:977::/:/usr/sbin/nologin' >> $etc/passwd
echo 'second:!*:19000::::::' >> $etc/shadow
echo 'u second-boot - "Made at boot"' > usr/lib/sysusers.d/second.conf

# /usr/local and /opt: where a link leads into /var is a directory, and the other way round.
if test -L usr/local; then
    rm usr/local
    mkdir -p usr/local/bin
else
    mv usr/local var/usrlocal
    ln -s ../var/usrlocal usr/local
fi
if test -L opt; then
    test ! -d var/opt || mv var/opt var/lib/opt
else
    mv opt var/lib/opt
fi
ln -sfn var/lib/opt opt
echo 'd /var/lib/opt 0755 root root -' > usr/lib/tmpfiles.d/second.conf

# Packages, where the kernel is one: one more, one less, the others newer, with what they have.
if ls usr/lib/modules/*/kernel-core > /dev/null 2>&1; then
    # Programs of the root look for /etc.
    mv usr/etc etc
    mkdir build var/tmp
    unshare --mount --propagation=private sh -euc 'mount --rbind /dev dev; exec chroot . sh -eu' << 'END'
cd /build
# package NAME VERSION: one whose files are in the directory `root`.
package() {
    printf '%s\n' "Name: $1" "Version: $2" 'Release: 1' "Summary: $1" 'License: BSD-3-Clause' 'BuildArch: noarch' \
        'AutoReqProv: no' '%description' "$1" '%install' 'cp -a /build/root/. %{buildroot}/' '%files' > spec
    (cd root; find . -type f | sed 's/^\.//') >> spec
    (cd root; find . -type d -path '*/modules/*' | sed 's/^\./%dir /') >> spec
    rpmbuild --quiet -bb --define '_topdir /build' --define '__os_install_post %{nil}' spec
    rm -r root
}
mkdir -p root/usr/share
echo agent > root/usr/share/acme-agent
package acme-agent 1.0
for name in kernel kernel-core kernel-modules kernel-modules-core; do
    mkdir -p root/usr/lib/modules/6.1.1
    echo "$name" > "root/usr/lib/modules/6.1.1/$name"
    package "$name" 6.1.1
done
rpm --erase kernel-modules-extra
rpm --upgrade RPMS/noarch/*
END
    rm -r build var/tmp
    mv etc usr/etc
fi

# Another kernel in place of the first one, and an argument of it.
for old in usr/lib/modules/6.1.0*; do
    test -d "$old" || continue
    new=usr/lib/modules/6.1.1${old#usr/lib/modules/6.1.0}
    mv "$old" "$new"
    for file in "$new"/*; do echo second >> "$file"; done
done
if test -d usr/lib/modules; then
    mkdir -p usr/lib/bootc/kargs.d
    echo 'kargs = ["base=second"]' > usr/lib/bootc/kargs.d/10-second.toml
fi
