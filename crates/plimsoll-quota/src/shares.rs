//! Moves the shares of members towards their targets, in steps large enough to be worth a message.

use std::collections::BTreeMap;

use plimsoll::Moment;

use crate::ledger::Ledger;
use crate::member::State;
use crate::share::NANO;
use crate::targets::{self, ONE_A_DAY, Target};

/// A share is changed if it would change by more than a tenth.
const CALM: u64 = 10;
/// It is raised by a thirty-second or more if the member refuses requests.
const DENIED: u64 = 32;
/// It is lowered by a hundred and twenty-eighth or more if other members refuse requests and nothing is free.
const PRESSED: u64 = 128;
/// A sixty-fourth is kept free if there are so many members that the difference is negligible for each: new members start with
/// it.
const MANY: u64 = 16;
const RESERVE: u64 = 64;
/// At most an eighth is withheld to refill tokens for new buckets, so that they are available within ten seconds if
/// possible.
const WITHHELD: u64 = 8;
const WITHIN: u64 = 10;

/// The members, and the share of each.
#[derive(Debug)]
pub(crate) struct Shares {
    pub(crate) ledger: Ledger,
    pub(crate) members: BTreeMap<u64, State>,
}

impl Shares {
    pub(crate) const fn new(ledger: Ledger) -> Self {
        Self {
            ledger,
            members: BTreeMap::new(),
        }
    }

    /// Assigns new members an equal part of the whole, but at most half of what is free, because others may join at the same moment.
    /// If nothing is free, they get [`Share::NONE`].
    pub(crate) fn start(&mut self, newcomers: &[u64], now: Moment) -> Vec<u64> {
        let here = self.members.values().filter(|state| !state.left).count() as u64;
        let mut changed = Vec::new();
        for id in newcomers {
            let Some(state) = self.members.get_mut(id).filter(|state| !state.left) else {
                continue;
            };
            let fair = (self.ledger.rate / here.max(1)).min(self.ledger.free_rate() / 2);
            let burst = part(self.ledger.burst, fair, self.ledger.rate).max(1);
            if self.ledger.give(&mut state.holding, fair, burst, now) {
                changed.push(*id);
            }
        }
        changed
    }

    /// Renews a share. Returns whether there is one.
    pub(crate) fn refresh(&mut self, id: u64, now: Moment) -> bool {
        let state = self.members.get_mut(&id).filter(|state| !state.left);
        state.is_some_and(|state| self.ledger.refresh(&mut state.holding, now))
    }

    /// The first moment at which the share of a member that has left expires.
    pub(crate) fn first_gone(&self) -> Option<Moment> {
        let gone = self.members.values().filter(|state| state.left);
        let until = gone.filter_map(|state| state.holding.until(self.ledger.timing));
        until.min().map(|until| until.plus_nanos(1))
    }

    /// Removes expired shares, and divides. Returns the members with a changed share, and whether some should get more than was free.
    pub(crate) fn divide(&mut self, now: Moment) -> (Vec<u64>, bool) {
        let ledger = &mut self.ledger;
        self.members.retain(|_, state| {
            ledger.expire(&mut state.holding, now);
            !state.left || state.holding.held() != (0, 0)
        });
        let (mut gone_rate, mut gone_burst, mut here) = (0_u64, 0_u64, 0_u64);
        for state in self.members.values() {
            if state.left {
                let (rate, burst) = state.holding.held();
                gone_rate = gone_rate.saturating_add(rate);
                gone_burst += u64::from(burst);
            } else {
                here += 1;
            }
        }
        let reserve = |whole: u64| if here < MANY { 0 } else { whole / RESERVE };
        let rate = self.ledger.rate.saturating_sub(gone_rate);
        let burst = self.ledger.burst.saturating_sub(gone_burst);
        let burst = burst - reserve(burst).min(burst.saturating_sub(here));
        let mut withheld = reserve(rate);
        let mut goal = self.targets(rate - withheld, burst, now);
        let lacking = self.lacking(&goal).saturating_sub(self.ledger.free_burst());
        if lacking > 0 {
            let soon = lacking.saturating_mul(NANO) / WITHIN;
            withheld = withheld.max(soon.min(rate / WITHHELD));
            goal = self.targets(rate - withheld, burst, now);
        }
        let room = self.ledger.free_rate().saturating_sub(withheld);
        let pressed = self.is_pressed(&goal, room);
        let mut moved = Vec::new();
        for target in &goal {
            self.shrink(target, pressed, now, &mut moved);
        }
        let short = self.raise(&goal, room, now, &mut moved);
        (moved, short || lacking > 0)
    }

    /// The targets of all members that have not left.
    fn targets(&self, rate: u64, burst: u64, now: Moment) -> Vec<Target> {
        let here = self.members.iter().filter(|(_, state)| !state.left);
        let here: Vec<_> = here.map(|(&id, state)| (id, state)).collect();
        if here.len() as u64 <= burst {
            return targets::divide(&here, rate, burst);
        }
        // Fewer tokens than members: only some have a bucket.
        // A report passes before a member gets what another one gives up, so a turn lasts longer than that.
        let turn = 2 * u64::try_from(self.ledger.timing.ttl().as_nanos()).unwrap_or(u64::MAX / 2);
        let meanwhile = u128::from(rate / burst.max(1)) * u128::from(turn / 2);
        let slow = meanwhile < u128::from(NANO) * u128::from(NANO);
        let places = usize::try_from(burst).unwrap_or(usize::MAX);
        let chosen = targets::rotate(&here, places, slow, turn, now);
        let chosen: Vec<_> = chosen.iter().map(|id| (*id, &self.members[id])).collect();
        let nothing = |&(id, _): &(u64, _)| Target {
            id,
            rate: 0,
            burst: 0,
        };
        let mut goal: Vec<_> = here.iter().map(nothing).collect();
        for mut target in targets::divide(&chosen, rate, burst) {
            if slow {
                (target.rate, target.burst) = (ONE_A_DAY, 1);
            }
            if let Ok(place) = goal.binary_search_by_key(&target.id, |it| it.id) {
                goal[place] = target;
            }
        }
        goal
    }

    /// The tokens that are missing for buckets of the target size.
    fn lacking(&self, goal: &[Target]) -> u64 {
        let lacks = |target: &Target| {
            let has = self.members[&target.id].holding.share().burst();
            target.burst.saturating_sub(u64::from(has))
        };
        goal.iter().map(lacks).fold(0, u64::saturating_add)
    }

    /// Whether members that refuse requests should get more than is free, so that others must give up some of theirs.
    fn is_pressed(&self, goal: &[Target], room: u64) -> bool {
        let mut need = 0_u64;
        for target in goal {
            let state = &self.members[&target.id];
            let has = state.holding.share();
            if has.is_none() && target.burst > 0 && self.ledger.free_burst() == 0 {
                return true;
            }
            let lacks = target.rate.saturating_sub(has.rate());
            if (has.is_none() || state.denied) && lacks > has.rate() / DENIED {
                need = need.saturating_add(lacks);
            }
        }
        need > room || self.ledger.held().0 > self.ledger.rate
    }

    fn shrink(&mut self, target: &Target, pressed: bool, now: Moment, moved: &mut Vec<u64>) {
        let Some(state) = self.members.get_mut(&target.id) else {
            return;
        };
        let has = state.holding.share();
        let burst = u64::from(has.burst());
        let step = has.rate() / if pressed { PRESSED } else { CALM };
        let less_rate = has.rate().saturating_sub(target.rate) > step;
        let less_burst = burst.saturating_sub(target.burst) > burst / 8 && pressed;
        let ends = target.burst == 0;
        let too_much = self.ledger.held().0 > self.ledger.rate;
        let ripe = ends || too_much || is_ripe(state, target.rate, &self.ledger, now);
        if has.is_none() || !ripe || !(less_rate || less_burst || ends) {
            return;
        }
        let rate = if less_rate { target.rate } else { has.rate() };
        if self
            .ledger
            .give(&mut state.holding, rate, target.burst.min(burst), now)
        {
            moved.push(target.id);
        }
        if ends {
            state.turn = now;
        }
    }

    /// Returns whether some should get more than is free.
    fn raise(&mut self, goal: &[Target], room: u64, now: Moment, moved: &mut Vec<u64>) -> bool {
        let members = &mut self.members;
        let ledger = &mut self.ledger;
        let (mut rates, mut bursts) = (0_u64, 0_u64);
        let mut order: Vec<_> = Vec::with_capacity(goal.len());
        for target in goal {
            let state = &members[&target.id];
            let has = state.holding.share();
            let more = target.rate > has.rate() || target.burst > u64::from(has.burst());
            if (more && !state.holding.is_shrinking()) || !state.holding.is_given() {
                rates = rates.saturating_add(target.rate.saturating_sub(has.rate()));
                let lacks = target.burst.saturating_sub(u64::from(has.burst()));
                bursts = bursts.saturating_add(lacks);
                order.push((!has.is_none(), state.turn, *target));
            }
        }
        // Members without a bucket first, the longest-waiting one before the others.
        order.sort_by_key(|&(has, turn, target)| (has, turn, target.id));
        let tokens = ledger.free_burst();
        let mut short = false;
        for (_, _, target) in order {
            let Some(state) = members.get_mut(&target.id) else {
                continue;
            };
            if std::mem::take(&mut state.known_before) && !state.holding.is_given() {
                ledger.adopt(&mut state.holding, target.rate, now);
                (state.turn, state.spent) = (now, 0);
                moved.push(target.id);
                continue;
            }
            let has = state.holding.share();
            let burst = u64::from(has.burst());
            let lacks = target.rate.saturating_sub(has.rate());
            let step = if rates > room {
                part(room, lacks, rates)
            } else {
                lacks
            };
            let lacks_burst = target.burst.saturating_sub(burst);
            let tokens = if bursts > tokens {
                part(tokens, lacks_burst, bursts)
            } else {
                lacks_burst
            };
            short |= step < lacks || tokens < lacks_burst;
            let new = has.is_none();
            let by = if state.denied { DENIED } else { CALM };
            let more_rate = new || step > has.rate() / by;
            let more_burst = new || (tokens > 0 && (tokens >= burst / 4 || tokens == lacks_burst));
            let rate = has.rate() + if more_rate { step } else { 0 };
            let ripe = new || is_ripe(state, rate, ledger, now);
            if !(more_rate || more_burst) {
                continue;
            }
            if !ripe {
                short = true;
                continue;
            }
            let most = burst + if more_burst { tokens } else { 0 };
            if ledger.give(
                &mut state.holding,
                rate,
                most.max(u64::from(target.burst > 0)),
                now,
            ) {
                moved.push(target.id);
                if new && !state.holding.share().is_none() {
                    (state.turn, state.spent) = (now, 0);
                }
            }
        }
        short
    }
}

/// Whether a bucket may be replaced. Fractions of a token are lost then, so it must have refilled some tokens since, or be much
/// too large or too small.
fn is_ripe(state: &State, rate: u64, ledger: &Ledger, now: Moment) -> bool {
    let has = state.holding.share().rate().max(1);
    let Some(pushed) = state.holding.pushed() else {
        return true;
    };
    let age = u128::from(now.nanos_since(pushed));
    let refilled = age * u128::from(has) / u128::from(NANO);
    let much = rate >= has.saturating_mul(2) || rate <= has / 2;
    age >= u128::from(NANO)
        && (refilled >= 2 * u128::from(NANO)
            || (much && age >= 2 * ledger.timing.report().as_nanos()))
}

/// `whole * of / all`, without overflow.
fn part(whole: u64, of: u64, all: u64) -> u64 {
    let part = u128::from(whole) * u128::from(of) / u128::from(all.max(1));
    u64::try_from(part).unwrap_or(u64::MAX)
}
