//! The connections of a port: how many a peer may have at once and in a time, and which are closed
//! for new ones. Whoever has shown no token can't use up what others need: their oldest one gives
//! way.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Peers with an allowance of their own. Further ones share one.
const MAX_PEERS: usize = 4096;
/// A network of one owner.
const IPV6_PREFIX: u32 = 64;

/// The limits of a port.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionLimits {
    /// Connections at once, of all peers.
    pub all: usize,
    /// Connections at once, of one peer.
    pub of_peer: usize,
    /// New connections of one peer without a pause.
    pub burst: u32,
    /// The pause after which there may be one more.
    pub interval: Duration,
}

/// The connections of a port, and the peers of the last time.
#[derive(Debug)]
pub(crate) struct Connections {
    limits: ConnectionLimits,
    slots: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    peers: HashMap<Peer, Allowance>,
    /// The connections that have shown no token, the oldest first.
    silent: BTreeMap<u64, Silent>,
    next: u64,
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

#[derive(Debug)]
struct Silent {
    peer: Peer,
    closing: Arc<Notify>,
}

/// A connection of a peer; dropped with it.
#[derive(Debug)]
pub(crate) struct Connection {
    connections: Arc<Connections>,
    peer: Peer,
    number: u64,
    closing: Arc<Notify>,
    /// Taken last, and given back by the drop.
    slot: Option<OwnedSemaphorePermit>,
}

impl Connections {
    pub fn new(limits: ConnectionLimits) -> Arc<Self> {
        let slots = Arc::new(Semaphore::new(limits.all));
        Arc::new(Self { limits, slots, state: Mutex::default() })
    }

    /// A new connection of this peer, unless it had too many in a time, or has as many as it may and
    /// all of them have shown a token. If there are as many as there may be, the oldest silent one is
    /// closed, and this waits for its end.
    pub async fn admit(self: &Arc<Self>, peer: IpAddr, now: Instant) -> Option<Connection> {
        let (mut connection, has_closed) = self.register(peer, now)?;
        let slots = Arc::clone(&self.slots);
        connection.slot = match Arc::clone(&slots).try_acquire_owned() {
            Ok(slot) => Some(slot),
            Err(_) => {
                if !has_closed {
                    self.close_oldest_silent();
                }
                slots.acquire_owned().await.ok()
            }
        };
        // Not before: it would be closed for itself.
        let silent = Silent { peer: connection.peer, closing: Arc::clone(&connection.closing) };
        self.state().silent.insert(connection.number, silent);
        Some(connection)
    }

    /// The connection, and whether another one of its peer is closed for it.
    fn register(self: &Arc<Self>, address: IpAddr, now: Instant) -> Option<(Connection, bool)> {
        let ConnectionLimits { of_peer, burst, interval, .. } = self.limits;
        let mut state = self.state();
        let State { peers, silent, next } = &mut *state;
        let mut peer = Peer::Known(network(address));
        if !peers.contains_key(&peer) && peers.len() >= MAX_PEERS {
            peers.retain(|_, one| one.connections > 0 || one.full_at > now);
            if peers.len() >= MAX_PEERS {
                peer = Peer::AllOthers;
            }
        }
        let new = Allowance { connections: 0, full_at: now };
        let allowance = peers.entry(peer).or_insert(new);
        let full_at = allowance.full_at.max(now) + interval;
        let has_too_many = allowance.connections >= of_peer;
        if full_at > now + interval * burst
            || has_too_many && !close_oldest(silent, |one| one.peer == peer)
        {
            return None;
        }
        *allowance = Allowance { connections: allowance.connections + 1, full_at };
        let number = *next;
        *next += 1;
        let (connections, closing) = (Arc::clone(self), Arc::default());
        Some((Connection { connections, peer, number, closing, slot: None }, has_too_many))
    }

    /// Ends the connection that has shown no token for the longest time.
    pub fn close_oldest_silent(&self) {
        close_oldest(&mut self.state().silent, |_| true);
    }

    /// Waits until no connection is left.
    pub async fn ended(&self) {
        let all = u32::try_from(self.limits.all).unwrap_or(u32::MAX);
        // It is never closed.
        drop(self.slots.acquire_many(all).await);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether there was one to close.
fn close_oldest(silent: &mut BTreeMap<u64, Silent>, is_meant: impl Fn(&Silent) -> bool) -> bool {
    let oldest = silent.iter().find(|(_, one)| is_meant(one)).map(|(number, _)| *number);
    let closed = oldest.and_then(|number| silent.remove(&number));
    closed.inspect(|one| one.closing.notify_one()).is_some()
}

impl Connection {
    /// It has shown a token, so it does not give way to others any more.
    pub fn keep(&self) {
        self.connections.state().silent.remove(&self.number);
    }

    /// Waits until another one needs its place.
    pub async fn gives_way(&self) {
        self.closing.notified().await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut state = self.connections.state();
        state.silent.remove(&self.number);
        if let Some(allowance) = state.peers.get_mut(&self.peer) {
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
    use tokio::time::timeout;

    use super::*;

    const LIMITS: ConnectionLimits = ConnectionLimits {
        all: Semaphore::MAX_PERMITS,
        of_peer: 2,
        burst: 3,
        interval: Duration::from_secs(10),
    };

    fn peer(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Which of these are to end.
    async fn closing<const N: usize>(all: [&Connection; N]) -> [bool; N] {
        let mut found = [false; N];
        for (found, one) in found.iter_mut().zip(all) {
            *found = timeout(Duration::ZERO, one.gives_way()).await.is_ok();
        }
        found
    }

    #[tokio::test]
    async fn connections_are_limited_per_peer() {
        let connections = Connections::new(LIMITS);
        let now = Instant::now();
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(peer);
        let first = connections.admit(one, now).await.unwrap();
        let second = connections.admit(one, now).await.unwrap();
        let of_other = connections.admit(other, now).await.unwrap();
        let third = connections.admit(peer("::ffff:192.0.2.1"), now).await.unwrap();
        let closing = closing([&first, &second, &third, &of_other]).await;
        assert_eq!(closing, [true, false, false, false], "the oldest of the same peer");
        drop(first);
        second.keep();
        third.keep();
        let later = now + LIMITS.interval * 3;
        assert!(connections.admit(one, later).await.is_none(), "both have shown a token");
        drop(second);
        assert!(connections.admit(one, later).await.is_some());
    }

    #[tokio::test]
    async fn the_oldest_silent_connection_gives_way() {
        let connections = Connections::new(ConnectionLimits { all: 3, ..LIMITS });
        let now = Instant::now();
        let admit = |number: u8| connections.admit(IpAddr::from([192, 0, 2, number]), now);
        let first = admit(1).await.unwrap();
        let second = admit(2).await.unwrap();
        let third = admit(3).await.unwrap();
        first.keep();
        let mut fourth = std::pin::pin!(admit(4));
        assert!(timeout(Duration::ZERO, fourth.as_mut()).await.is_err(), "there is no place yet");
        assert_eq!(closing([&first, &second, &third]).await, [false, true, false]);
        drop(second);
        let fourth = fourth.await.unwrap();
        third.keep();
        fourth.keep();
        let mut fifth = std::pin::pin!(admit(5));
        assert!(timeout(Duration::ZERO, fifth.as_mut()).await.is_err(), "all have shown a token");
        assert_eq!(closing([&first, &third, &fourth]).await, [false; 3]);
        drop(third);
        assert_eq!(closing([&fifth.await.unwrap()]).await, [false]);
    }

    #[tokio::test]
    async fn new_connections_are_limited_per_peer() {
        let connections = Connections::new(LIMITS);
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
            let admitted = connections.admit(peer(address), at(seconds)).await;
            assert_eq!(admitted.is_some(), want, "{what} at {seconds} s");
        }
    }

    #[tokio::test]
    async fn many_peers_need_little_memory_and_get_in() {
        let connections = Connections::new(LIMITS);
        let start = Instant::now();
        let address = |number: usize| IpAddr::from(u32::try_from(number).unwrap().to_be_bytes());
        let mut held = Vec::new();
        for number in 0..MAX_PEERS {
            held.push(connections.admit(address(number), start).await.unwrap());
        }
        // Peers that come now share one allowance.
        let mut admitted = Vec::new();
        for number in MAX_PEERS..MAX_PEERS + 4 {
            admitted.push(connections.admit(address(number), start).await.is_some());
        }
        assert_eq!(admitted, [true, true, true, false]);
        assert_eq!(connections.state().peers.len(), MAX_PEERS + 1);
        // Those that are gone are forgotten.
        drop(held);
        let later = start + LIMITS.interval;
        assert!(connections.admit(address(MAX_PEERS + 9), later).await.is_some());
        let state = connections.state();
        assert!(state.peers.len() <= 2 && state.silent.is_empty(), "{state:?}");
    }
}
