//! The bits of an address that form the key.

use std::net::IpAddr;

pub use plimsoll::Address;

/// The number of leading bits of an address that form the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Prefixes {
    pub(super) ipv4: u8,
    pub(super) ipv6: u8,
}

impl Prefixes {
    pub(super) const DEFAULT: Self = Self { ipv4: 32, ipv6: 64 };

    #[inline]
    pub(super) fn of(self, address: IpAddr) -> Address {
        Address::network(address, self.ipv4, self.ipv6)
    }
}
