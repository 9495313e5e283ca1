//! What the boot check of the images guards: a program that brings the machine back to its earlier
//! image by itself (`boot-check` in the crate `plan`). It acts only on the image that is recorded here,
//! until that is confirmed.
//!
//! Input: the target that is staged, and the files of the machine. Output: the record for the program,
//! and what the program found out. Invariant: the record is written before a reboot can boot the target.

use std::time::Duration;

use mosb_api::rollout::WentBack;
use mosb_image::Digest;

use crate::error::Error;
use crate::host_root::HostRoot;

/// The digest of the image, and what held on the machine when it was staged, one a line.
const TARGET: &str = "/var/lib/mosb/boot-check/target";
/// How many boots of it began.
const BOOTS: &str = "/var/lib/mosb/boot-check/boots";
/// The digest of an image that failed, and why.
const WENT_BACK: &str = "/var/lib/mosb/boot-check/went-back";
/// There in a boot that the program guards.
const GUARDS: &str = "/run/mosb-boot-check";
/// There once the machine stays in this boot.
const ENDED: &str = "/run/mosb-boot-check/ended";
/// The most bytes that are read of a file.
const LIMIT: u64 = 16 * 1024;
/// How often it is looked whether the checks have ended.
const INTERVAL: Duration = Duration::from_secs(1);

/// The sockets and routes of the machine's first process.
const SOCKETS: [&str; 2] = ["/proc/1/net/tcp", "/proc/1/net/tcp6"];
const ROUTES: [&str; 2] = ["/proc/1/net/route", "/proc/1/net/ipv6_route"];
/// Port 10248, on which a kubelet says whether it is healthy, and the state of a socket that listens.
const HEALTH_PORT: &str = ":2808";
const LISTENS: &str = "0A";

/// Lets the program guard the boots of an image that is staged, from the first one on.
pub(crate) fn arm(root: &HostRoot, image: Digest) -> Result<(), Error> {
    root.remove(WENT_BACK)?;
    root.remove(BOOTS)?;
    let mut text = format!("{image}\n");
    if has_health_port(root)? {
        text += "kubelet\n";
    }
    if has_default_route(root)? {
        text += "route\n";
    }
    root.write(TARGET, text.as_bytes(), 0o600)
}

/// Whether the program may still bring the machine back from this image.
pub(crate) fn is_guarded(root: &HostRoot, image: Option<Digest>) -> bool {
    let text = root.text(TARGET, LIMIT).ok().flatten().unwrap_or_default();
    image.is_some_and(|image| text.lines().next() == Some(&*image.to_string()))
}

/// From now on, the machine does not leave this image by itself. An image that is staged stays guarded.
pub(crate) fn confirm(root: &HostRoot, image: Digest) -> Result<(), Error> {
    if is_guarded(root, Some(image)) {
        root.remove(TARGET)?;
        root.remove(BOOTS)?;
    }
    Ok(())
}

/// The image that the machine left by itself last, and why.
pub(crate) fn went_back(root: &HostRoot) -> Result<Option<WentBack>, Error> {
    let Some(text) = root.text(WENT_BACK, LIMIT)? else {
        return Ok(None);
    };
    let (first, cause) = text.split_once('\n').unwrap_or((&text, ""));
    Ok(first.parse().ok().map(|image| WentBack::new(image, cause.trim())))
}

/// Waits until the machine stays in this boot, if the program guards it. If its checks fail, the
/// machine reboots, which ends this process.
///
/// # Errors
/// They did not end within the limit.
pub(crate) async fn wait(root: &HostRoot, limit: Duration) -> Result<(), Error> {
    let mut waited = Duration::ZERO;
    while root.exists(GUARDS) && !root.exists(ENDED) {
        if waited >= limit {
            return Err(Error::NotChecked { seconds: limit.as_secs() });
        }
        if waited.is_zero() {
            tracing::info!("the checks of this boot run");
        }
        tokio::time::sleep(INTERVAL).await;
        waited += INTERVAL;
    }
    Ok(())
}

fn has_health_port(root: &HostRoot) -> Result<bool, Error> {
    // Below the header: number, local address, remote address, state.
    let listens = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        words.next().is_some_and(|local| local.ends_with(HEALTH_PORT))
            && words.nth(1) == Some(LISTENS)
    };
    has_line(root, &SOCKETS, listens)
}

fn has_default_route(root: &HostRoot) -> Result<bool, Error> {
    let is_default = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            // Interface, destination, …, mask.
            [_, "00000000", _, _, _, _, _, "00000000", ..] => true,
            // Destination, its length, …, interface. That of `lo` rejects.
            [destination, "00", .., interface] => {
                destination.bytes().all(|byte| byte == b'0') && *interface != "lo"
            }
            _ => false,
        }
    };
    has_line(root, &ROUTES, is_default)
}

/// Whether a line of these files is such a one. A machine without IPv6 lacks some.
fn has_line(root: &HostRoot, files: &[&str], is_it: impl Fn(&str) -> bool) -> Result<bool, Error> {
    for file in files {
        // Sockets of a busy machine.
        let text = root.text(file, 4 * 1024 * 1024)?.unwrap_or_default();
        if text.lines().any(&is_it) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> (tempfile::TempDir, HostRoot) {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::open(dir.path()).unwrap();
        (dir, root)
    }

    #[test]
    fn what_holds_when_an_image_is_staged_is_recorded() {
        let kubelet = "  sl  local_address rem_address   st tx_queue\n   3: 0100007F:2808 00000000:0000 0A 00000000:00000000\n";
        let connection = "   3: 0100007F:2808 0100007F:D431 01 00000000:00000000\n";
        let four = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\neth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n";
        let zeros = "0".repeat(32);
        let six = |interface: &str| {
            format!("{zeros} 00 {zeros} 00 fe80 00000400 00000001 00000000 00000003 {interface}\n")
        };
        let (eth, lo) = (six("eth0"), six("lo"));
        for (what, files, want) in [
            ("nothing", [].as_slice(), ""),
            ("a kubelet", &[("tcp", kubelet)], "kubelet\n"),
            ("a kubelet on IPv6 alone", &[("tcp6", kubelet)], "kubelet\n"),
            ("only a connection to one", &[("tcp", connection)], ""),
            ("a route", &[("route", four)], "route\n"),
            ("a route for IPv6", &[("ipv6_route", &*eth)], "route\n"),
            ("a route that rejects", &[("ipv6_route", &*lo)], ""),
            ("both", &[("tcp", kubelet), ("route", four)], "kubelet\nroute\n"),
        ] {
            let (_dir, root) = machine();
            for (name, text) in files {
                root.write(&format!("/proc/1/net/{name}"), text.as_bytes(), 0o644).unwrap();
            }
            let image = Digest::of(b"new");
            arm(&root, image).unwrap();
            let text = root.text(TARGET, LIMIT).unwrap().unwrap();
            assert_eq!(text, format!("{image}\n{want}"), "{what}");
        }
    }

    #[test]
    fn only_the_booted_image_is_confirmed() {
        let (_dir, root) = machine();
        let [new, old] = [Digest::of(b"new"), Digest::of(b"old")];
        confirm(&root, new).unwrap();
        arm(&root, new).unwrap();
        confirm(&root, old).unwrap();
        assert!(is_guarded(&root, Some(new)) && !is_guarded(&root, Some(old)));
        assert!(!is_guarded(&root, None));
        confirm(&root, new).unwrap();
        assert!(!is_guarded(&root, Some(new)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_boot_is_awaited_while_it_is_guarded() {
        let (_dir, root) = machine();
        let limit = Duration::from_secs(3);
        wait(&root, limit).await.unwrap();
        root.make_private_folder("/run").unwrap();
        root.make_private_folder(GUARDS).unwrap();
        let error = wait(&root, limit).await.unwrap_err();
        assert!(matches!(error, Error::NotChecked { seconds: 3 }), "{error}");
        let end = async {
            tokio::time::sleep(INTERVAL).await;
            root.write(ENDED, b"", 0o644).unwrap();
        };
        let (waited, ()) = tokio::join!(wait(&root, limit), end);
        waited.unwrap();
    }

    #[test]
    fn the_reason_is_read_until_the_next_image() {
        let (_dir, root) = machine();
        let image = Digest::of(b"new");
        assert_eq!(went_back(&root).unwrap(), None);
        root.write(WENT_BACK, format!("{image}\nno route\n").as_bytes(), 0o644).unwrap();
        assert_eq!(went_back(&root).unwrap(), Some(WentBack::new(image, "no route")));
        root.write(BOOTS, b"2\n", 0o644).unwrap();
        arm(&root, image).unwrap();
        assert_eq!(went_back(&root).unwrap(), None);
        assert!(!root.exists(BOOTS));
        root.write(WENT_BACK, b"x\ny\n", 0o644).unwrap();
        assert_eq!(went_back(&root).unwrap(), None);
    }
}
