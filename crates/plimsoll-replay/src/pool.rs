//! Records that are reused. They stay in place, so that reading a line does not allocate.

use std::cmp::Reverse;

use crate::order::Entry;
use crate::record::Record;

/// The memory bound of free records, in bytes.
const KEPT: usize = 16 << 20;

/// Records by their places.
#[derive(Default)]
pub(crate) struct Pool {
    records: Vec<Record>,
    free: Vec<u32>,
    /// The memory of free records, in bytes.
    kept: usize,
}

impl Pool {
    /// Returns the place of a cleared record.
    #[inline]
    pub(crate) fn take(&mut self) -> u32 {
        match self.free.pop() {
            Some(place) => {
                let record = &mut self.records[place as usize];
                self.kept -= record.room();
                record.clear();
                place
            }
            None => {
                let mut record = Record::default();
                record.clear();
                self.records.push(record);
                u32::try_from(self.records.len() - 1).unwrap_or(u32::MAX)
            }
        }
    }

    /// Frees a place. The memory of a long line is released.
    #[inline]
    pub(crate) fn free(&mut self, place: u32) {
        let record = &mut self.records[place as usize];
        if self.kept + record.room() > KEPT {
            *record = Record::default();
        }
        self.kept += record.room();
        self.free.push(place);
    }

    /// Loads records that are needed soon into the cache, all at once.
    ///
    /// They were written a minute ago and have left the cache. The processor fetches them in parallel; one after the other, it
    /// would wait for each.
    pub(crate) fn fetch(&self, entries: &[Reverse<Entry>]) {
        let records = || entries.iter().map(|it| self.get(it.0.2));
        let looked_at = records().fold(0, |sum: u64, record| sum.wrapping_add(record.look()));
        let read = records().fold(0, |sum: u64, record| {
            sum.wrapping_add(record.look_at_text())
        });
        std::hint::black_box((looked_at, read));
    }

    #[inline]
    pub(crate) fn get(&self, place: u32) -> &Record {
        &self.records[place as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, place: u32) -> &mut Record {
        &mut self.records[place as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_leave_little_behind() {
        let mut pool = Pool::default();
        for _ in 0..3 {
            let places: Vec<u32> = (0..2000).map(|_| pool.take()).collect();
            for place in &places {
                pool.get_mut(*place).set_target(&"x".repeat(64 << 10));
            }
            places.into_iter().for_each(|place| pool.free(place));
            assert!(
                pool.kept <= KEPT + 2000 * size_of::<Record>(),
                "{}",
                pool.kept
            );
            assert_eq!((pool.records.len(), pool.free.len()), (2000, 2000));
        }
        // Their content was cleared.
        let place = pool.take();
        assert_eq!(pool.get(place).target(), "");
    }
}
