# What boot loader, kernel and initramfs do: finds the newest deployment, makes it the root, starts systemd.
disk=$1 shared=$2 settings=$3 programs=$4 pid=$5

entry=$(ls "$disk"/boot/loader/entries/*.conf | sort -V | tail -n 1)
link=$(sed -n 's/^options .*ostree=\([^ ]*\).*/\1/p' "$entry")
deployment=$(readlink -f "$disk$link")
echo "firmware: booting $deployment"
hostname "$(cat "$settings/hostname")"
mount --bind "$deployment" "$deployment"
cd "$deployment"
mount --bind "$disk" sysroot
mount --bind "$disk/boot" boot
mount --bind "$disk/ostree/deploy/lab/var" var
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t proc proc proc
mount -t sysfs sysfs sys

# The settings of the kernel belong to the host, but for those of the network.
mkdir run/lab run/lab/kernel
touch run/ostree-booted
# What the boot loader passes on.
sed -n 's/^options //p' "$entry" > run/lab/cmdline
mount --bind run/lab/cmdline proc/cmdline
cd run/lab/kernel
proc=$deployment/proc kernel_settings
cd "$deployment"
mount --bind "$shared/boot-id" proc/sys/kernel/random/boot_id
mount --rbind proc/sys proc/sys
mount --bind proc/sys/net proc/sys/net
mount -o remount,bind,ro proc/sys

# Nothing that is printed there is the host's.
mount -t tmpfs -o mode=755 tmpfs dev
for device in null zero full random urandom tty; do
    touch "dev/$device"
    mount --bind "/dev/$device" "dev/$device"
done
touch dev/kmsg
mount --bind /dev/null dev/kmsg
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
for number in 0:stdin 1:stdout 2:stderr; do
    ln -s "/proc/self/fd/${number%:*}" "dev/${number#*:}"
done

if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mount -t cgroup2 cgroup2 sys/fs/cgroup
else
    mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
    for hierarchy in /sys/fs/cgroup/*/; do
        name=$(basename "$hierarchy")
        mkdir "sys/fs/cgroup/$name"
        case $name in
        unified) mount -t cgroup2 cgroup2 "sys/fs/cgroup/$name" ;;
        systemd) mount -t cgroup -o none,name=systemd cgroup "sys/fs/cgroup/$name" ;;
        *) mount -t cgroup -o "$name" cgroup "sys/fs/cgroup/$name" ;;
        esac
    done
fi

# What the harness brings: programs, settings, wrappers of some programs, one unit for containerd and the kubelet; maybe those of
# a control plane.
mkdir run/lab/programs run/lab/settings run/lab/shared
# Folders, as runc finds itself by that in which it is.
for folder in $programs; do
    mkdir "run/lab/programs/${folder%%=*}"
    mount --bind -o ro "${folder#*=}" "run/lab/programs/${folder%%=*}"
done
mount --bind -o ro "$settings" run/lab/settings
mount --bind "$shared" run/lab/shared
mount --bind -o ro /usr/lib/cni usr/lib/cni
for program in ostree bootc systemctl; do
    touch "run/lab/$program"
    mount --bind -o ro "usr/bin/$program" "run/lab/$program"
    mount --bind -o ro "$settings/$program" "usr/bin/$program"
done
mkdir -p run/systemd/system/multi-user.target.wants
for unit in "$settings"/*.service; do
    cp "$unit" run/systemd/system/
    ln -s "../${unit##*/}" run/systemd/system/multi-user.target.wants/
done

# A machine of the lab has no console, and each of these watches files for itself.
for unit in systemd-ask-password-console.path systemd-ask-password-wall.path; do
    ln -s /dev/null "run/systemd/system/$unit"
done

mkdir run/old
pivot_root . run/old
umount -l run/old
rmdir run/old
# The machine is up for those outside.
echo "$pid" > /run/lab/shared/pid.next
mv /run/lab/shared/pid.next /run/lab/shared/pid
exec env -i container=lab /lib/systemd/systemd
