//! Bursts: demands that arrive together, and are served soon if they are admitted.

use super::{CERTAIN, Decision, ENOUGH, Law, Read, go};
use crate::adaptive::verdict::failures::Ask;
use crate::adaptive::verdict::window::Seen;

/// The maximum duration of a burst, in nanoseconds.
const LONGEST: f64 = 4e9;
/// A burst left the server idle if the throughput after it is below this share of the throughput during it. Fluctuations of a server
/// that is nearly full are not bursts: they raised the limit to nine times the number of six workers, and when these became slower all
/// work was late (class `queue`).
const IDLE: f64 = 0.65;
/// The factor by which the limit grows for the next burst, and that of its bound if work of a burst was late before.
const GROWTH: f64 = 1.5;
const CAREFUL: f64 = 1.01;
/// At least the throughput of the first of these times is admitted, and at most that of the second, in nanoseconds.
const WAIT: f64 = 3e8;
const LONGEST_WAIT: f64 = 1e9;
/// A share of late work above which less of the next burst is admitted: the throughput of this fraction of the shortest late latency.
const LATE: f64 = 0.02;
const IN_TIME: f64 = 0.9;
/// The next spell may last this many times as long before the limit is cut.
const AS_LONG: f64 = 2.0;

/// A time in which work queues or the limit binds.
#[derive(Clone, Copy, Debug)]
struct Spell {
    began: f64,
    /// The limit at its start.
    limit: f64,
    /// Whether the limit was binding.
    full: bool,
    /// The maximum throughput, less its error.
    throughput: f64,
    count: f64,
    /// The number of late samples, and the shortest late latency.
    late: f64,
    too_late: f64,
}

/// The throughput after a spell, until it shows whether the server was idle.
#[derive(Clone, Copy, Debug)]
struct After {
    spell: Spell,
    lasted: f64,
    done: f64,
    time: f64,
    count: f64,
}

/// The state of the law about bursts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bursts {
    spell: Option<Spell>,
    after: Option<After>,
    /// The maximum duration of a spell before the limit is cut.
    patience: f64,
    /// The limit above which work was late.
    most: f64,
}

impl Bursts {
    pub(super) const fn new() -> Self {
        Self {
            spell: None,
            after: None,
            patience: 0.0,
            most: f64::INFINITY,
        }
    }

    /// Adds a window in which work queued or the limit was binding.
    fn add(&mut self, seen: &Seen, limit: f64, fresh: bool) {
        let spell = self.spell.get_or_insert(Spell {
            began: seen.opened,
            limit,
            full: false,
            throughput: 0.0,
            count: 0.0,
            late: 0.0,
            too_late: f64::INFINITY,
        });
        // Refusals while the limit still grows for the first time are not a burst.
        spell.full |= seen.saturated && !fresh;
        let least = seen.throughput * (1.0 - 1.0 / seen.count.sqrt());
        spell.throughput = spell.throughput.max(least);
        spell.count += seen.count;
        if let Some(after) = seen.late {
            spell.late += seen.overloads;
            spell.too_late = spell.too_late.min(after);
        }
    }

    /// Returns whether the spell so far resembles the last ones.
    fn is_patient(&self, now: f64) -> bool {
        // Not if the clock stepped back.
        let patient = |spell: Spell| (0.0..self.patience).contains(&(now - spell.began));
        self.spell
            .is_some_and(|spell| patient(spell) && !spell.is_late())
    }

    /// Ends a spell.
    fn end(&mut self, spell: Spell, now: f64) {
        let lasted = now - spell.began;
        // Or the clock stepped back.
        let too_long = !(0.0..=LONGEST).contains(&lasted);
        if spell.full || too_long {
            self.patience = 0.0;
        }
        if too_long {
            return;
        }
        if spell.is_late() {
            self.most = spell.throughput * spell.too_late * IN_TIME;
        }
        if !spell.full {
            return;
        }
        self.after = Some(After {
            spell,
            lasted,
            done: 0.0,
            time: 0.0,
            count: 0.0,
        });
    }
}

impl Spell {
    fn is_late(&self) -> bool {
        self.late > LATE * self.count
    }
}

impl Law {
    /// Follows queues that disappear by themselves and leave the server idle. More of such a burst could have been served as well
    /// (`spikes`, `bursts`), so more of the next one is admitted, until it is late or takes a second. Nothing is cut for twice the
    /// duration of the last one.
    pub(super) fn watch_burst(&mut self, read: &Read, failures: Ask) -> Option<Decision> {
        let seen = &read.seen;
        if seen.saturated || read.queue > read.allowance * ENOUGH {
            self.bursts.after = None;
            self.bursts.add(seen, self.limit, self.fresh);
            if read.queue <= read.allowance * ENOUGH && self.limit >= self.bursts.most {
                // This much is needed at once while nothing queues.
                self.bursts.most = f64::INFINITY;
            }
            if !self.bursts.is_patient(seen.closed) || failures != Ask::Nothing {
                return None;
            }
            self.met_a_queue();
            return Some(self.keep("keep: a burst"));
        }
        let mut back = None;
        if let Some(spell) = self.bursts.spell.take() {
            self.bursts.end(spell, seen.opened);
            let soon = (0.0..LONGEST).contains(&(seen.opened - spell.began));
            // If the throughput is higher after it, it was not only a burst.
            let more = seen.throughput > spell.throughput;
            back = (spell.full && soon && !more).then_some(spell.limit);
        }
        if self.limit > self.bursts.most {
            return Some(go(self.bursts.most.max(self.min), "cut: a burst was late"));
        }
        let limit = self.let_in(seen).or(back)?;
        let limit = limit.min(self.bursts.most);
        if limit <= self.limit {
            return None;
        }
        self.end_squeeze();
        Some(go(limit, "grow: a burst"))
    }

    /// Returns the limit for the next burst, once it is clear that the server was idle after the last one.
    fn let_in(&mut self, seen: &Seen) -> Option<f64> {
        let bursts = &mut self.bursts;
        let after = bursts.after.as_mut()?;
        let time = seen.closed - seen.opened;
        after.done += seen.throughput * time;
        after.time += time;
        after.count += seen.count;
        let After {
            spell,
            lasted,
            done,
            time,
            count,
        } = *after;
        let idle = (-CERTAIN / count.sqrt()).exp().min(IDLE);
        if done / time >= idle * spell.throughput {
            return None;
        }
        bursts.after = None;
        bursts.patience = (lasted * AS_LONG).min(LONGEST);
        let least = spell.throughput * WAIT;
        let most = (spell.throughput * LONGEST_WAIT).max(spell.limit);
        let limit = (spell.limit * GROWTH).max(least).min(most);
        if !spell.is_late() {
            bursts.most *= CAREFUL;
        }
        Some(limit)
    }
}
