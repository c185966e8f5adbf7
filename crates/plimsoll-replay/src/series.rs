//! Counts over time, in a bounded number of equal spans.

use std::collections::BTreeMap;

use crate::time::SECOND;

/// The largest number of spans. If there would be more, pairs are merged.
const MOST: usize = 480;

/// Admitted and refused requests in each span.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) start: i64,
    /// The length of a span, in seconds.
    pub(crate) width: i64,
    pub(crate) admitted: Vec<u64>,
    pub(crate) refused: Vec<u64>,
    /// Refused requests in each span, by the limit that refused them.
    pub(crate) by_limit: BTreeMap<usize, Vec<u64>>,
}

impl Series {
    pub(crate) fn new(first: i64) -> Self {
        Self {
            start: first.div_euclid(SECOND) * SECOND,
            width: 1,
            admitted: Vec::new(),
            refused: Vec::new(),
            by_limit: BTreeMap::new(),
        }
    }

    /// The span of a moment.
    fn at(&mut self, at: i64) -> usize {
        loop {
            let index = (at - self.start).max(0) / (self.width * SECOND);
            let index = usize::try_from(index).unwrap_or(0);
            if index < MOST {
                return index;
            }
            self.width *= 2;
            let all = [&mut self.admitted, &mut self.refused].into_iter();
            for counts in all.chain(self.by_limit.values_mut()) {
                *counts = counts.chunks(2).map(|pair| pair.iter().sum()).collect();
            }
        }
    }

    pub(crate) fn admitted(&mut self, at: i64) {
        let index = self.at(at);
        add(&mut self.admitted, index);
    }

    pub(crate) fn refused(&mut self, at: i64, limit: Option<usize>) {
        let index = self.at(at);
        add(&mut self.refused, index);
        if let Some(limit) = limit {
            add(self.by_limit.entry(limit).or_default(), index);
        }
    }

    /// Extends all lists to the length of the longest.
    pub(crate) fn finish(&mut self) {
        let length = self.admitted.len().max(self.refused.len());
        let all = [&mut self.admitted, &mut self.refused].into_iter();
        for counts in all.chain(self.by_limit.values_mut()) {
            counts.resize(length, 0);
        }
    }
}

fn add(counts: &mut Vec<u64>, index: usize) {
    if counts.len() <= index {
        counts.resize(index + 1, 0);
    }
    counts[index] += 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_grow_with_the_time_that_passes() {
        let mut series = Series::new(5 * SECOND + 7);
        for second in 5..5 + 4000 {
            series.admitted(second * SECOND);
            if second % 4 == 0 {
                series.refused(second * SECOND, Some(1));
            }
        }
        series.finish();
        assert_eq!((series.width, series.admitted.len()), (16, 250));
        assert_eq!(series.admitted.iter().sum::<u64>(), 4000);
        assert_eq!(series.refused, series.by_limit[&1]);
        assert_eq!(series.refused.iter().sum::<u64>(), 1000);
    }
}
