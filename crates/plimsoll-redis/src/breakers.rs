//! The circuit breakers of a store: one, or in a cluster one for each range of slots.

use plimsoll::Moment;

use crate::circuit::{Breaker, Circuit};

/// One circuit, or in a cluster one for each range of slots. Adjacent slots are usually on one node, so the topology of the cluster
/// need not be known.
#[derive(Debug)]
pub(crate) struct Breakers {
    parts: Vec<Breaker>,
}

/// The number of ranges: 256 of the 16,384 slots each.
#[cfg(feature = "cluster")]
const PARTS: u16 = 64;

impl Breakers {
    pub(crate) fn one(circuit: Circuit) -> Self {
        Self {
            parts: vec![Breaker::new(circuit)],
        }
    }

    #[cfg(feature = "cluster")]
    pub(crate) fn by_slot(circuit: Circuit) -> Self {
        Self {
            parts: (0..PARTS).map(|_| Breaker::new(circuit)).collect(),
        }
    }

    /// The circuit for a key.
    pub(crate) fn of(&self, key: impl FnOnce() -> Option<Vec<u8>>) -> &Breaker {
        #[cfg(feature = "cluster")]
        if self.parts.len() > 1
            && let Some(key) = key()
        {
            return &self.parts[usize::from(slot(&key) / (16_384 / PARTS))];
        }
        #[cfg(not(feature = "cluster"))]
        drop(key);
        &self.parts[0]
    }

    /// The hash slot of a key. Without a cluster all keys are in slot 0.
    pub(crate) fn slot(&self, key: &[u8]) -> u16 {
        #[cfg(feature = "cluster")]
        if self.parts.len() > 1 {
            return slot(key);
        }
        #[cfg(not(feature = "cluster"))]
        let _ = key;
        0
    }

    /// The number of times that any circuit opened.
    pub(crate) fn opened(&self) -> u64 {
        self.parts.iter().map(Breaker::opened).sum()
    }

    /// Whether all circuits are closed.
    pub(crate) fn would_ask(&self, now: impl Fn() -> Moment) -> bool {
        self.parts.iter().all(|part| part.would_ask(&now))
    }
}

/// The hash slot of a key: CRC-16/XMODEM of the text between its first `{` and the next `}`.
#[cfg(feature = "cluster")]
fn slot(key: &[u8]) -> u16 {
    let begin = key.iter().position(|&byte| byte == b'{');
    let tag = begin.and_then(|begin| {
        let rest = &key[begin + 1..];
        let end = rest.iter().position(|&byte| byte == b'}')?;
        (end > 0).then(|| &rest[..end])
    });
    let crc = tag.unwrap_or(key).iter().fold(0_u16, |crc, &byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            let carried = crc & 0x8000 != 0;
            (crc << 1) ^ if carried { 0x1021 } else { 0 }
        })
    });
    crc % 16_384
}

#[cfg(all(test, feature = "cluster"))]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_servers() {
        assert_eq!(slot(b"123456789"), 0x31c3);
        assert_eq!(slot(b"foo"), 12_182);
        assert_eq!(slot(b"any:{foo}:thing"), 12_182);
        assert_eq!(slot(b"{}foo"), slot(b"{}foo"));
        assert_ne!(slot(b"{}foo"), slot(b"foo"));
    }

    /// Regression test: with one dead node there were never enough consecutive failures, because the other nodes
    /// answered in between.
    #[test]
    fn one_part_opens_and_the_others_stay() {
        let breakers = Breakers::by_slot(
            Circuit::new()
                .failures(3)
                .min_outage(std::time::Duration::ZERO),
        );
        let now = || Moment::ORIGIN;
        for _ in 0..3 {
            let dead = breakers.of(|| Some(b"{foo}".to_vec())).begin(now);
            let _ = dead.expect("closed").failed(now());
            let other = breakers.of(|| Some(b"{bar}".to_vec())).begin(now);
            let _ = other.expect("closed").answered();
        }
        assert!(breakers.of(|| Some(b"{foo}x".to_vec())).begin(now).is_err());
        assert!(breakers.of(|| Some(b"{bar}x".to_vec())).begin(now).is_ok());
        assert!(!breakers.would_ask(now));
        assert_eq!(breakers.opened(), 1);
    }
}
