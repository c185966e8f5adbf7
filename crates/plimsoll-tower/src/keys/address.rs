//! How much of an address counts.

use std::net::IpAddr;

pub use plimsoll::Address;

/// How much of an address counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Prefixes {
    pub(super) ipv4: u8,
    pub(super) ipv6: u8,
}

impl Prefixes {
    pub(super) const DEFAULT: Self = Self { ipv4: 32, ipv6: 64 };

    pub(super) fn of(self, address: IpAddr) -> Address {
        Address::network(address, self.ipv4, self.ipv6)
    }
}
