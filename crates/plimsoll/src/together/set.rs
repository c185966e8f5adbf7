/// A set of indices. It allocates nothing for those below 64.
#[derive(Default)]
pub(crate) struct Set {
    few: u64,
    more: Vec<u64>,
}

const BITS: usize = 64;

impl Set {
    /// The indices below 64, as bits.
    #[inline]
    pub(crate) fn of_few(few: u64) -> Self {
        Self {
            few,
            ..Self::default()
        }
    }

    #[inline]
    pub(crate) fn insert(&mut self, index: usize) {
        match index.checked_sub(BITS) {
            None => self.few |= 1 << index,
            Some(index) => self.insert_more(index),
        }
    }

    #[cold]
    fn insert_more(&mut self, index: usize) {
        let word = index / BITS;
        if self.more.len() <= word {
            self.more.resize(word + 1, 0);
        }
        self.more[word] |= 1 << (index % BITS);
    }

    #[inline]
    pub(crate) fn contains(&self, index: usize) -> bool {
        let (word, bit) = match index.checked_sub(BITS) {
            None => (Some(&self.few), index),
            Some(index) => (self.more.get(index / BITS), index % BITS),
        };
        word.is_some_and(|word| word >> bit & 1 == 1)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.few == 0 && self.more.iter().all(|word| *word == 0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Set;

    #[test]
    fn what_was_put_in_is_there_and_nothing_else() {
        let mut set = Set::default();
        assert!(set.is_empty());
        let some = [0, 5, 63, 64, 130, 1000];
        for index in some {
            set.insert(index);
        }
        for index in 0..1100 {
            assert_eq!(set.contains(index), some.contains(&index), "{index}");
        }
        assert!(!set.is_empty());
    }
}
