use crate::num::seconds;

/// Pauses of a server, such as those of a garbage collector: `length` at the beginning of every period but the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pauses {
    pub(crate) every: u64,
    /// The length of a pause, which is shorter than the period.
    pub(crate) length: u64,
}

impl Pauses {
    /// The end of `work` nanoseconds of work that begin `now` and progress only between pauses.
    pub(crate) fn end(self, now: u64, work: u64) -> u64 {
        let running = self.every - self.length;
        let done = self.ran(now).saturating_add(work);
        let Some(after_first) = done.checked_sub(self.every).filter(|after| *after > 0) else {
            return done.max(now);
        };
        // Work that ends with a period ends before the next pause.
        let periods = (after_first - 1) / running;
        let rest = after_first - periods * running;
        (periods + 1)
            .saturating_mul(self.every)
            .saturating_add(self.length + rest)
    }

    /// The running time until `now`, without pauses.
    fn ran(self, now: u64) -> u64 {
        let (periods, rest) = (now / self.every, now % self.every);
        match periods {
            0 => now,
            _ => {
                self.every
                    + (periods - 1) * (self.every - self.length)
                    + rest.saturating_sub(self.length)
            }
        }
    }

    /// The fraction of time without pauses.
    pub(crate) fn share_running(self) -> f64 {
        1.0 - seconds(self.length) / seconds(self.every)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same as [`Pauses::end`], nanosecond by nanosecond.
    fn naive(pauses: Pauses, now: u64, work: u64) -> u64 {
        let (mut now, mut left) = (now, work);
        while left > 0 {
            let paused = now >= pauses.every && now % pauses.every < pauses.length;
            left -= u64::from(!paused);
            now += 1;
        }
        now
    }

    #[test]
    fn work_stands_still_in_a_pause_and_goes_on_after_it() {
        for (every, length) in [(10, 3), (7, 1), (5, 4)] {
            let pauses = Pauses { every, length };
            for now in 0..40 {
                for work in 1..40 {
                    let wanted = naive(pauses, now, work);
                    assert_eq!(pauses.end(now, work), wanted, "{pauses:?} {now} {work}");
                }
            }
        }
    }
}
