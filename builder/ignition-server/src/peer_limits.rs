//! How many connections a peer may have at once, and how many new ones in a time.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Peers with an allowance of their own. Further ones share one.
const MAX_PEERS: usize = 4096;
/// A network of one owner.
const IPV6_PREFIX: u32 = 64;

/// The allowance of each peer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PeerLimit {
    /// Connections at once.
    pub connections: usize,
    /// New connections without a pause.
    pub burst: u32,
    /// The pause after which there may be one more.
    pub interval: Duration,
}

/// The peers of the last time.
#[derive(Debug)]
pub(crate) struct PeerLimits {
    limit: PeerLimit,
    peers: Mutex<HashMap<Peer, Allowance>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Peer {
    Known(IpAddr),
    AllOthers,
}

#[derive(Debug, Clone, Copy)]
struct Allowance {
    connections: usize,
    /// When all of the burst is there again.
    full_at: Instant,
}

/// A connection of a peer; dropped with it.
#[derive(Debug)]
pub(crate) struct PeerConnection {
    limits: Arc<PeerLimits>,
    peer: Peer,
}

impl PeerLimits {
    pub fn new(limit: PeerLimit) -> Arc<Self> {
        Arc::new(Self { limit, peers: Mutex::default() })
    }

    /// A new connection of this peer, unless it has too many.
    pub fn admit(self: &Arc<Self>, peer: IpAddr, now: Instant) -> Option<PeerConnection> {
        let PeerLimit { connections, burst, interval } = self.limit;
        let mut peers = self.peers();
        let mut peer = Peer::Known(network(peer));
        if !peers.contains_key(&peer) && peers.len() >= MAX_PEERS {
            peers.retain(|_, one| one.connections > 0 || one.full_at > now);
            if peers.len() >= MAX_PEERS {
                peer = Peer::AllOthers;
            }
        }
        let new = Allowance { connections: 0, full_at: now };
        let allowance = peers.entry(peer).or_insert(new);
        let full_at = allowance.full_at.max(now) + interval;
        if allowance.connections >= connections || full_at > now + interval * burst {
            return None;
        }
        *allowance = Allowance { connections: allowance.connections + 1, full_at };
        Some(PeerConnection { limits: Arc::clone(self), peer })
    }

    fn peers(&self) -> MutexGuard<'_, HashMap<Peer, Allowance>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PeerConnection {
    fn drop(&mut self) {
        if let Some(allowance) = self.limits.peers().get_mut(&self.peer) {
            allowance.connections = allowance.connections.saturating_sub(1);
        }
    }
}

/// The address, or the network of an IPv6 address, whose owner has all of its addresses.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let mask = u128::MAX << (Ipv6Addr::BITS - IPV6_PREFIX);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: PeerLimit =
        PeerLimit { connections: 2, burst: 3, interval: Duration::from_secs(10) };

    fn peer(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_peer_has_so_many_connections_at_once_and_others_have_theirs() {
        let limits = PeerLimits::new(LIMIT);
        let now = Instant::now();
        let one = peer("192.0.2.1");
        let first = limits.admit(one, now).unwrap();
        let _second = limits.admit(one, now).unwrap();
        assert!(limits.admit(one, now).is_none(), "a third at once");
        assert!(limits.admit(peer("::ffff:192.0.2.1"), now).is_none(), "the same peer");
        let _other = limits.admit(peer("192.0.2.2"), now).unwrap();
        drop(first);
        assert!(limits.admit(one, now).is_some());
    }

    #[test]
    fn a_peer_has_so_many_new_connections_in_a_time() {
        let limits = PeerLimits::new(LIMIT);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        for (what, seconds, address, want) in [
            ("first", 0, "2001:db8::1", true),
            ("second", 0, "2001:db8::2", true),
            ("third", 0, "2001:db8::3", true),
            ("fourth", 9, "2001:db8::1", false),
            ("after the pause", 10, "2001:db8::1", true),
            ("at once again", 10, "2001:db8::1", false),
            ("another network", 10, "2001:db8:0:1::1", true),
            ("three more after three pauses", 40, "2001:db8::1", true),
            ("three more after three pauses", 40, "2001:db8::1", true),
            ("three more after three pauses", 40, "2001:db8::1", true),
            ("and no fourth", 40, "2001:db8::1", false),
        ] {
            let admitted = limits.admit(peer(address), at(seconds));
            assert_eq!(admitted.is_some(), want, "{what} at {seconds} s");
        }
    }

    #[test]
    fn any_number_of_peers_needs_little_memory_and_shuts_out_nobody() {
        let limits = PeerLimits::new(LIMIT);
        let start = Instant::now();
        let address = |number: usize| IpAddr::from(u32::try_from(number).unwrap().to_be_bytes());
        let held: Vec<_> = (0..MAX_PEERS).map(|one| limits.admit(address(one), start)).collect();
        assert!(held.iter().all(Option::is_some));
        // Peers that come now share one allowance.
        let late = |number: usize| limits.admit(address(MAX_PEERS + number), start);
        let admitted: Vec<bool> = (0..4).map(|number| late(number).is_some()).collect();
        assert_eq!(admitted, [true, true, true, false]);
        assert_eq!(limits.peers().len(), MAX_PEERS + 1);
        // Those that are gone are forgotten.
        drop(held);
        let later = start + LIMIT.interval;
        assert!(limits.admit(address(MAX_PEERS + 9), later).is_some());
        assert!(limits.peers().len() <= 2, "{}", limits.peers().len());
    }
}
