//! The index of limits by name.

use std::collections::HashMap;
use std::sync::Arc;

use plimsoll::KeyHash;

/// Up to this many limits are compared one by one; more are hashed.
const FEW: usize = 8;

/// The positions of limits, by name.
#[derive(Debug, Default)]
pub(crate) struct Names {
    all: HashMap<Arc<str>, usize, KeyHash>,
    /// The short names, if there are few limits: comparing them is faster than hashing.
    few: Vec<(Short, usize)>,
}

impl Names {
    pub(crate) fn insert(&mut self, name: &Arc<str>, limit: usize) {
        self.all.insert(Arc::clone(name), limit);
        if let Some(short) = Short::of(name)
            && self.all.len() <= FEW
        {
            self.few.push((short, limit));
        }
    }

    #[inline]
    pub(crate) fn get(&self, name: &str) -> Option<usize> {
        match Short::of(name) {
            Some(short) if self.all.len() <= FEW => {
                let mut few = self.few.iter();
                few.find(|(it, _)| *it == short).map(|(_, limit)| *limit)
            }
            _ => self.all.get(name).copied(),
        }
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.all.contains_key(name)
    }
}

/// A name of up to 16 bytes. Its length, its first and its last bytes identify it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Short {
    length: usize,
    first: u64,
    last: u64,
}

impl Short {
    #[inline]
    fn of(name: &str) -> Option<Self> {
        let name = name.as_bytes();
        let (first, last) = match name {
            [] => (0, 0),
            [only] => (u64::from(*only), 0),
            [first, last] | [first, _, last] => {
                let middle = u64::from(name[1]) << 8;
                (u64::from(*first) | middle, u64::from(*last))
            }
            _ if name.len() > 16 => return None,
            _ => match (name.first_chunk(), name.last_chunk()) {
                (Some(first), Some(last)) => {
                    (u64::from_le_bytes(*first), u64::from_le_bytes(*last))
                }
                _ => {
                    let four =
                        |four: Option<&[u8; 4]>| four.map_or(0, |it| u32::from_le_bytes(*it));
                    (
                        four(name.first_chunk()).into(),
                        four(name.last_chunk()).into(),
                    )
                }
            },
        };
        Some(Self {
            length: name.len(),
            first,
            last,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn names_are_found_as_a_list_finds_them(
            names in prop::collection::vec("[ab]{0,20}", 0..12),
            asked in "[ab]{0,20}",
        ) {
            let mut all = Names::default();
            let mut listed: Vec<&String> = Vec::new();
            for name in &names {
                if !listed.contains(&name) {
                    all.insert(&Arc::from(name.as_str()), listed.len());
                    listed.push(name);
                }
            }
            for name in listed.iter().copied().chain([&asked]) {
                prop_assert_eq!(all.get(name), listed.iter().position(|it| *it == name));
                prop_assert_eq!(all.contains(name), listed.contains(&name));
            }
        }
    }
}
