use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use plimsoll::Address;

/// The operation code of a packet: the number of its handler.
///
/// ```
/// use plimsoll_policy::OpCode;
///
/// const LOGIN: OpCode = OpCode(1);
/// assert_eq!(OpCode::from(1_u16), LOGIN); // as most protocols write it
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OpCode(pub u32);

impl From<u32> for OpCode {
    fn from(code: u32) -> Self {
        Self(code)
    }
}

impl From<u16> for OpCode {
    fn from(code: u16) -> Self {
        Self(code.into())
    }
}

impl fmt::Display for OpCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The address a packet came from, or [`UNKNOWN`](Self::UNKNOWN).
///
/// It converts from an [`IpAddr`], a [`SocketAddr`], or an `Option` of either. The port does not count: a client
/// chooses it, and would evade its limit by connecting again. It is stored for [reports](Self::port) and logs. An IPv4
/// address in its IPv6-mapped form (`::ffff:192.0.2.1`), as an IPv6 socket reports it, equals the IPv4 address.
///
/// ```
/// use plimsoll_policy::Remote;
/// use std::net::SocketAddr;
///
/// let one: SocketAddr = "192.0.2.1:40000".parse()?;
/// let same: SocketAddr = "[::ffff:192.0.2.1]:40001".parse()?;
/// assert_eq!(Remote::from(one), Remote::from(same));
/// assert_eq!(Remote::from(same).port(), Some(40001));
/// assert_eq!(Remote::from(same).to_string(), "192.0.2.1:40001");
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Remote {
    ip: Option<IpAddr>,
    port: Option<u16>,
}

impl Remote {
    /// An unknown address. Such packets are refused wherever there is a limit.
    pub const UNKNOWN: Self = Self {
        ip: None,
        port: None,
    };

    /// Returns the address, if it is known.
    #[must_use]
    pub const fn ip(self) -> Option<IpAddr> {
        self.ip
    }

    /// Returns the port, if it is known. It takes no part in any decision or comparison.
    #[must_use]
    pub const fn port(self) -> Option<u16> {
        self.port
    }

    /// The network that is limited as one.
    pub(crate) fn address(self, ipv6_prefix: u8) -> Option<Address> {
        Some(Address::network(self.ip?, 32, ipv6_prefix))
    }
}

impl PartialEq for Remote {
    fn eq(&self, other: &Self) -> bool {
        self.ip == other.ip
    }
}

impl Eq for Remote {}

impl Hash for Remote {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.ip.hash(state);
    }
}

/// The address, with its port if that is known; `unknown` without an address.
impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.ip, self.port) {
            (Some(ip), Some(port)) => SocketAddr::new(ip, port).fmt(f),
            (Some(ip), None) => ip.fmt(f),
            (None, _) => f.write_str("unknown"),
        }
    }
}

impl From<IpAddr> for Remote {
    fn from(address: IpAddr) -> Self {
        Self {
            ip: Some(address.to_canonical()),
            port: None,
        }
    }
}

impl From<Ipv4Addr> for Remote {
    fn from(address: Ipv4Addr) -> Self {
        IpAddr::from(address).into()
    }
}

impl From<Ipv6Addr> for Remote {
    fn from(address: Ipv6Addr) -> Self {
        IpAddr::from(address).into()
    }
}

impl From<SocketAddr> for Remote {
    fn from(address: SocketAddr) -> Self {
        Self {
            port: Some(address.port()),
            ..address.ip().into()
        }
    }
}

impl<T: Into<Self>> From<Option<T>> for Remote {
    fn from(address: Option<T>) -> Self {
        address.map_or(Self::UNKNOWN, Into::into)
    }
}

/// The operation and the sender of a packet, as the key of events. The port is that of the packet, and takes no part in
/// comparisons.
///
/// ```
/// use plimsoll_policy::{OpCode, Policies, Policy};
/// use std::net::Ipv4Addr;
///
/// let policies = Policies::builder().handler(7_u32, Policy::per_second(1.0)).build()?;
/// let mut events = policies.subscribe(100);
/// let _ = policies.evaluate(7_u32, Ipv4Addr::LOCALHOST);
/// let packet = events.next().unwrap().key;
/// assert_eq!((packet.op, packet.remote.ip()), (OpCode(7), Some(Ipv4Addr::LOCALHOST.into())));
/// # Ok::<(), plimsoll::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Packet {
    /// The operation.
    pub op: OpCode,
    /// The address of the sender.
    pub remote: Remote,
}

/// The key of the states of a policy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Subject {
    pub(crate) op: OpCode,
    pub(crate) address: Address,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str, ipv6_prefix: u8) -> Option<Address> {
        let address: IpAddr = text.parse().unwrap();
        Remote::from(address).address(ipv6_prefix)
    }

    #[test]
    fn a_prefix_is_for_ipv6_alone() {
        let same = |one, other, prefix| address(one, prefix) == address(other, prefix);
        assert!(same("2001:db8::1", "2001:db8::2", 64));
        assert!(!same("2001:db8::1", "2001:db8:0:1::1", 64));
        assert!(!same("2001:db8::1", "2001:db8::2", 128));
        assert!(same("2001:db8::1", "fe80::1", 0));
        assert!(!same("192.0.2.1", "192.0.2.2", 1));
        assert!(same("192.0.2.1", "::ffff:192.0.2.1", 1));
    }
}
