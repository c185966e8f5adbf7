use std::borrow::Cow;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::num::NonZero;
use std::rc::Rc;
use std::sync::Arc;

/// A key with a canonical form as bytes, so that all processes of a fleet use the same state for it.
///
/// | type | bytes |
/// |---|---|
/// | strings, byte arrays | their own bytes |
/// | numbers, `bool`, `char`, addresses | as displayed: `7_u32` and `"7"` share a limit |
/// | tuples of up to six parts | each part with its length, so that two tuples are equal only if all their parts are |
/// | `Option` | `None` is empty, `Some` is a tuple of one part |
/// | references, `Box`, `Arc`, `Cow` | those of the value |
///
/// Implement it for types of your own, or convert them to one of these types:
///
/// ```
/// use plimsoll_redis::StoreKey;
/// use std::net::IpAddr;
///
/// struct Tenant(u32);
///
/// impl StoreKey for Tenant {
///     fn write_key(&self, out: &mut Vec<u8>) {
///         self.0.write_key(out);
///     }
/// }
///
/// let address: IpAddr = "192.0.2.1".parse()?;
/// assert_eq!((Tenant(7), address).to_key(), b"1:7,9:192.0.2.1,");
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
///
/// The store names keys by a digest of these bytes, unless it has [raw keys](crate::StoreBuilder::raw_keys). The digest
/// hides secrets, so tokens and addresses can be used as keys.
pub trait StoreKey {
    /// Appends the bytes of the key to `out`. Equal keys must write equal bytes, in all processes and versions of a program: a
    /// change of the bytes starts a new state.
    /// Use tuples for several fields, not a separator, so that no two keys write the same bytes.
    fn write_key(&self, out: &mut Vec<u8>);

    /// Returns the bytes of the key, for [`RedisLimiter::decide`](crate::RedisLimiter::decide) and other methods that take bytes.
    ///
    /// ```
    /// use plimsoll_redis::StoreKey;
    ///
    /// assert_eq!(42_u64.to_key(), "42".to_key());
    /// assert_ne!(("a", "bc").to_key(), ("ab", "c").to_key());
    /// ```
    fn to_key(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write_key(&mut out);
        out
    }
}

/// Implements `StoreKey` with `Display`.
macro_rules! displayed {
    ($($type:ty),* $(,)?) => {$(
        impl StoreKey for $type {
            fn write_key(&self, out: &mut Vec<u8>) {
                // Writing to a vector never fails.
                let _ = write!(out, "{self}");
            }
        }
    )*};
}

displayed!(
    bool, char, u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize
);
displayed!(
    IpAddr,
    Ipv4Addr,
    Ipv6Addr,
    SocketAddr,
    SocketAddrV4,
    SocketAddrV6
);
displayed!(
    NonZero<u8>,
    NonZero<u16>,
    NonZero<u32>,
    NonZero<u64>,
    NonZero<u128>,
    NonZero<usize>
);
displayed!(plimsoll::Address, std::fmt::Arguments<'_>);

impl StoreKey for str {
    fn write_key(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

impl StoreKey for String {
    fn write_key(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

impl StoreKey for [u8] {
    fn write_key(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

impl<const N: usize> StoreKey for [u8; N] {
    fn write_key(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

impl StoreKey for Vec<u8> {
    fn write_key(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

/// Implements `StoreKey` for pointers, with the value behind them.
macro_rules! pointed {
    ($($pointer:ty),* $(,)?) => {$(
        impl<K: StoreKey + ?Sized> StoreKey for $pointer {
            fn write_key(&self, out: &mut Vec<u8>) {
                (**self).write_key(out);
            }
        }
    )*};
}

pointed!(&K, &mut K, Box<K>, Rc<K>, Arc<K>);

impl<K: StoreKey + ToOwned + ?Sized> StoreKey for Cow<'_, K> {
    fn write_key(&self, out: &mut Vec<u8>) {
        (**self).write_key(out);
    }
}

/// `None` is empty and `Some` a tuple of one part, so that `None` differs from an empty string.
impl<K: StoreKey> StoreKey for Option<K> {
    fn write_key(&self, out: &mut Vec<u8>) {
        if let Some(key) = self {
            part(out, key);
        }
    }
}

/// Writes a part of a tuple: its length and its bytes.
fn part(out: &mut Vec<u8>, key: &(impl StoreKey + ?Sized)) {
    let key = key.to_key();
    key.len().write_key(out);
    out.push(b':');
    out.extend_from_slice(&key);
    out.push(b',');
}

macro_rules! tuples {
    ($($name:ident)+) => {
        impl<$($name: StoreKey),+> StoreKey for ($($name,)+) {
            #[expect(non_snake_case, reason = "the parts are named by their types")]
            fn write_key(&self, out: &mut Vec<u8>) {
                let ($($name,)+) = self;
                $(part(out, $name);)+
            }
        }
    };
}

tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_what_is_written_of_it() {
        assert_eq!("42".to_key(), 42_u64.to_key());
        assert_eq!(String::from("x").to_key(), b"x".to_key());
        assert_eq!(Cow::Borrowed("x").to_key(), Arc::<str>::from("x").to_key());
        let address = IpAddr::from([192, 0, 2, 1]);
        assert_eq!(address.to_key(), b"192.0.2.1");
    }

    #[test]
    fn tuples_differ_where_a_part_does() {
        assert_ne!(("a", "b,c").to_key(), ("a,b", "c").to_key());
        assert_ne!(("a", "").to_key(), ("", "a").to_key());
        assert_ne!(("1:a,", "b").to_key(), ("a", "b").to_key());
        assert_ne!(Some("").to_key(), None::<&str>.to_key());
        assert_eq!(("a".to_owned(), 1_u8).to_key(), ("a", 1_u64).to_key());
    }
}
