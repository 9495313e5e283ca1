#!/bin/sh
# Brings a new machine to the image of its pool, and reboots into it. It runs at each boot until the machine runs that image,
# and then removes what it was given. After some reboots that ended in another image, it fails instead.
set -eu

given=/var/lib/mosb/first-boot
handed=/run/mosb
# A power failure may undo one or two of them.
most_reboots=3
# The unit is not started again after it, so the kubelet, which requires the unit, is not either.
gave_up=78
image=$(cat "$given/image")

# Power may fail in between: the login goes first, and the file that starts this again only when nothing is left that it needs.
forget() {
    rm -rf "$given/auth.json" "$given/containers" "$given/reboots"
    rm -f "$given/environment"
    sync
    rm -f "$given/image"
    rm -rf "$given" "$handed"
}

# The deployment that was booted, by the kernel's command line. What it was made from stands in the file beside it.
deployment=
for word in $(cat /proc/cmdline); do
    case $word in
    ostree=*) deployment=$(readlink -f "/${word#ostree=}" || true) ;;
    esac
done
if [ ! -e "$given/environment" ]; then
    forget
    exit 0
fi
if [ -n "$deployment" ] && grep -q -F "${image##*@}" "$deployment.origin"; then
    forget
    echo "this machine runs $image"
    exit 0
fi

reboots=$(cat "$given/reboots" 2>/dev/null || echo 0)
if [ "$reboots" -ge "$most_reboots" ]; then
    echo "this machine was rebooted into $image $reboots times, and does not run it; the kubelet is kept off. journalctl" \
        "-u ostree-finalize-staged -u ostree-boot-complete shows the cause; once it is removed, rm $given/reboots and" \
        "systemctl restart mosb-first-boot" >&2
    exit "$gave_up"
fi

mkdir -p "$handed" /run/ostree
cp "$given/environment" "$handed/environment"
# The one place below /run where both tools look for logins.
if [ -e "$given/auth.json" ]; then
    cp "$given/auth.json" "$handed/auth.json"
    ln -sf ../mosb/auth.json /run/ostree/auth.json
fi

# Before 1.13, skopeo pulls for bootc and rpm-ostree whatever the policy of /etc/containers says.
skopeo_verifies() {
    version=$(skopeo --version) || return 1
    version=${version#skopeo version }
    minor=${version#*.}
    [ "${version%%.*}" -gt 1 ] || { [ "${version%%.*}" -eq 1 ] && [ "${minor%%.*}" -ge 13 ]; }
}

flag=
reference=ostree-unverified-registry:$image
if [ -e "$given/verify" ]; then
    if ! skopeo_verifies; then
        echo "the signature of $image must be verified, and this machine has no skopeo 1.13 or newer; the kubelet is kept off." \
            "Install it from a newer OS" >&2
        exit "$gave_up"
    fi
    # The tools then refuse a policy that accepts everything.
    flag=--enforce-container-sigpolicy
    reference=ostree-image-signed:docker://$image
fi

by_bootc() {
    command -v bootc >/dev/null && bootc switch ${flag:+"$flag"} "$image"
}

by_rpm_ostree() {
    command -v rpm-ostree >/dev/null || return 1
    # The daemon pulls, with an environment and mounts of its own.
    mkdir -p /run/systemd/system/rpm-ostreed.service.d
    printf '[Service]\nEnvironmentFile=%s\nBindReadOnlyPaths=-%s:/etc/containers\n' "$handed/environment" "$handed/containers" \
        >/run/systemd/system/rpm-ostreed.service.d/mosb.conf
    systemctl daemon-reload
    systemctl try-restart rpm-ostreed.service
    # What was staged before this was cut off would be "equal", and an error.
    rpm-ostree cleanup --pending || true
    rpm-ostree rebase --bypass-driver "$reference"
}

if ! by_bootc && ! by_rpm_ostree; then
    echo "neither bootc nor rpm-ostree could bring this machine to $image; it is tried again" >&2
    exit 1
fi
if [ ! -e /run/ostree/staged-deployment ]; then
    echo "$image was pulled, but there is nothing to reboot into; look at the messages above" >&2
    exit 1
fi
# A path unit starts it, and may be late. A reboot before that loses what is staged.
systemctl start ostree-finalize-staged.service
# On the disk before the reboot: if it can't be counted, there is none.
echo $((reboots + 1)) >"$given/reboots.new"
sync "$given/reboots.new"
mv "$given/reboots.new" "$given/reboots"
sync "$given"
systemctl --no-block reboot
# What waits for this unit, the kubelet above all, must not start before the reboot.
exec sleep infinity
