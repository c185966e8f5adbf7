//! What one division says to whom, and when.

use std::time::Duration;

use plimsoll::{Moment, Quota};
use plimsoll_quota::{Division, Member, Push, Share, Timing, Usage};
use proptest::prelude::*;

/// A division of 100 a second with a burst of 100, and its clock.
struct Table {
    division: Division,
    now: Moment,
}

impl Table {
    fn new() -> Self {
        let now = Moment::from_nanos(1);
        let division = Division::new(Quota::per_second(100), 100, Timing::ENVOY, now);
        Self { division, now }
    }

    fn after(&mut self, millis: u64) -> &mut Self {
        self.now = self.now.plus(Duration::from_millis(millis));
        self
    }

    fn pushes(&mut self) -> Vec<Push> {
        self.division.pushes(self.now)
    }

    fn join(&mut self) -> Member {
        self.division.join(self.now)
    }

    fn report(&mut self, member: Member, allowed: u64, denied: u64) {
        let usage = Usage::new(allowed, denied, Duration::from_secs(5));
        self.division.report(member, usage, self.now);
    }

    fn has(&self, member: Member) -> Share {
        self.division.member(member).expect("a member").share
    }

    /// Rounds of five seconds in which members let through what they have of what they want.
    fn rounds(&mut self, count: usize, wants: &[(Member, u64)]) {
        for _ in 0..count {
            self.after(1100);
            self.pushes();
            self.after(3900);
            for &(member, want) in wants {
                let share = self.has(member).rate() / 1_000_000_000;
                let allowed = want.min(share);
                self.report(member, 5 * allowed, 5 * (want - allowed));
            }
            self.pushes();
        }
    }
}

fn to(pushes: &[Push], member: Member) -> Option<Push> {
    pushes.iter().find(|push| push.member == member).copied()
}

#[test]
fn a_single_member_has_all_within_a_second() {
    let mut table = Table::new();
    let alone = table.join();
    let first = table.pushes();
    assert_eq!(first[0].share.tokens(), 50, "half, since others may come");
    assert_eq!(first[0].ttl, Duration::from_secs(15));
    table.after(1000);
    assert!(table.division.next().unwrap() <= table.now);
    let second = table.pushes();
    assert_eq!(
        (second[0].share.tokens(), second[0].share.burst()),
        (100, 100)
    );
    assert_ne!(first[0].version, second[0].version);
    assert_eq!(table.has(alone).interval(), Duration::from_secs(1));
}

#[test]
fn demand_of_nine_to_one_is_followed_within_three_reports() {
    let mut table = Table::new();
    let (busy, small) = (table.join(), table.join());
    table.pushes();
    table.rounds(3, &[(busy, 90), (small, 10)]);
    let (busy, small) = (table.has(busy).rate(), table.has(small).rate());
    assert!(busy >= 84_000_000_000, "{busy}");
    assert!(
        (10_000_000_000..=15_000_000_000).contains(&small),
        "{small}"
    );
}

#[test]
fn a_share_is_raised_only_by_what_another_has_been_heard_to_give_back() {
    let mut table = Table::new();
    let old = table.join();
    table.rounds(3, &[(old, 200)]);
    assert_eq!(table.has(old).tokens(), 100);
    let new = table.join();
    let pushes = table.pushes();
    assert!(to(&pushes, new).unwrap().share.is_none(), "nothing is free");
    table.after(250);
    let pushes = table.pushes();
    let less = to(&pushes, old).unwrap().share;
    assert!(less.rate() <= 50_000_000_000, "{less:?}");
    // A report that crossed the push proves nothing.
    table.after(500);
    table.report(old, 50, 50);
    assert_eq!(table.pushes().len(), 1);
    assert_eq!(table.division.view().held_rate, 100_000_000_000);
    assert!(table.has(new).is_none());
    // One that came a second after it does.
    table.after(5000);
    table.report(old, 250, 250);
    table.report(new, 0, 1000);
    assert!(to(&table.pushes(), old).is_some());
    // And what nobody has refills the token that a bucket starts with.
    table.after(250);
    let pushes = table.pushes();
    let share = to(&pushes, new).unwrap().share;
    assert!(share.rate() >= 35_000_000_000, "{share:?}");
    assert!(table.division.view().held_rate <= 100_000_000_000);
}

#[test]
fn what_one_had_that_is_gone_is_lent_until_it_has_run_out() {
    let mut table = Table::new();
    let (gone, stays) = (table.join(), table.join());
    table.pushes();
    table.rounds(3, &[(gone, 100), (stays, 100)]);
    let had = table.has(stays).tokens();
    table.division.leave(gone);
    for _ in 0..3 {
        table.rounds(1, &[(stays, 100)]);
        assert!(table.has(stays).tokens() <= had + 1, "too early");
    }
    table.rounds(1, &[(stays, 100)]);
    assert!(table.has(stays).tokens() > 85);
    assert!(table.division.member(gone).is_none());
    table.division.leave(stays);
    table.after(16_001).pushes();
    assert!(!table.division.is_fresh(), "the burst is not back");
    table.after(1000).pushes();
    assert!(table.division.is_fresh());
}

#[test]
fn small_changes_are_not_worth_a_message() {
    let mut table = Table::new();
    let (one, other) = (table.join(), table.join());
    table.pushes();
    table.rounds(4, &[(one, 40), (other, 40)]);
    let before = table.division.view();
    let versions = |table: &mut Table| -> Vec<u32> {
        table.pushes().iter().map(|push| push.version).collect()
    };
    table.after(5000);
    table.report(one, 41 * 5, 0);
    table.report(other, 39 * 5, 0);
    let first = versions(&mut table);
    table.after(5000);
    table.report(one, 39 * 5, 0);
    table.report(other, 41 * 5, 0);
    assert_eq!(versions(&mut table), first, "sent again, and nothing new");
    assert_eq!(before.held_rate, table.division.view().held_rate);
}

#[test]
fn a_share_that_may_have_run_out_is_not_sent_until_it_has() {
    let mut table = Table::new();
    let member = table.join();
    table.rounds(2, &[(member, 10)]);
    // Its reports stop for longer than is safe, and shorter than is sure.
    table.after(14_500);
    table.report(member, 10, 0);
    assert!(table.pushes().is_empty());
    // Now it has run out for sure: a bucket starts full, and must be paid for.
    table.after(2000);
    let tokens = table.division.view().tokens;
    table.report(member, 10, 0);
    let pushes = table.pushes();
    let burst = u64::from(pushes[0].share.burst());
    assert!(burst >= 1 && burst <= tokens + 2, "{burst} of {tokens}");
}

#[test]
fn after_a_restart_nothing_is_said_until_all_had_the_time_to_report() {
    let mut table = Table::new();
    table.division = Division::restarted(Quota::per_second(100), 100, Timing::ENVOY, table.now);
    let (known, new) = (table.join(), table.join());
    table.after(3000);
    table.report(known, 300, 0);
    let first = Usage::new(1, 0, Duration::ZERO);
    table.division.report(new, first, table.now);
    assert!(table.pushes().is_empty());
    assert_eq!(
        table.division.next(),
        Some(Moment::from_nanos(6_000_000_001))
    );
    table.after(3000);
    let pushes = table.pushes();
    let share = to(&pushes, known).unwrap().share;
    assert_eq!(share.burst(), 1, "no burst");
    assert!(share.rate() > 40_000_000_000);
    // One that had no share before waits for its first token.
    assert!(to(&pushes, new).unwrap().share.is_none());
    table.after(1000);
    let pushes = table.pushes();
    assert!(!to(&pushes, new).unwrap().share.is_none());
}

#[test]
fn a_lower_limit_is_told_to_all_at_once() {
    let mut table = Table::new();
    let (one, other) = (table.join(), table.join());
    table.rounds(4, &[(one, 100), (other, 100)]);
    table.after(100);
    table.division.change(Quota::per_second(95), 10, table.now);
    let pushes = table.pushes();
    assert_eq!(pushes.len(), 2);
    let rate: u64 = pushes.iter().map(|push| push.share.rate()).sum();
    let burst: u32 = pushes.iter().map(|push| push.share.burst()).sum();
    assert!(rate <= 95_000_000_000 && burst <= 10, "{pushes:?}");
}

#[test]
fn weights_count() {
    let mut table = Table::new();
    let (heavy, light) = (table.join(), table.join());
    table.division.set_weight(heavy, 3);
    table.pushes();
    table.rounds(8, &[(heavy, 100), (light, 100)]);
    let (heavy, light) = (table.has(heavy).rate(), table.has(light).rate());
    assert!(heavy > 2 * light, "{heavy} and {light}");
}

#[test]
fn what_is_unknown_is_not_heard() {
    let mut table = Table::new();
    let mut other = Table::new();
    other.join();
    let unknown = other.join();
    table.report(unknown, 1, 1);
    table.division.leave(unknown);
    table.division.set_weight(unknown, 2);
    assert!(table.pushes().is_empty() && table.division.is_fresh());
}

#[test]
fn times_must_go_together() {
    let seconds = Duration::from_secs;
    let half = Duration::from_millis(500);
    assert!(Timing::try_new(seconds(5), seconds(1), seconds(9)).is_ok());
    for (report, settle, ttl) in [
        (Duration::ZERO, seconds(1), seconds(9)),
        (seconds(5), Duration::ZERO, seconds(9)),
        (seconds(5), seconds(1), seconds(8)),
        (seconds(5), seconds(1), seconds(9) + half),
        (seconds(5), seconds(1), seconds(90_000)),
        (Duration::MAX, Duration::MAX, seconds(15)),
    ] {
        let error = Timing::try_new(report, settle, ttl)
            .unwrap_err()
            .to_string();
        assert!(error.contains("expected"), "{error}");
    }
}

proptest! {
    #[test]
    fn nothing_is_lent_that_is_not_there_whatever_happens(
        units in prop_oneof![1_u64..1000, Just(u64::MAX)],
        nanos in prop_oneof![Just(1_u64), Just(1_000_000_000), Just(86_400_000_000_000), Just(1 << 62)],
        burst in prop_oneof![0_u64..20, 20_u64..2000, Just(u64::MAX)],
        restarted in any::<bool>(),
        steps in prop::collection::vec((0_u8..8, 0_usize..30, any::<u64>(), 0_u64..8_000), 1..200),
    ) {
        let quota = Quota::new(units, Duration::from_nanos(nanos));
        let mut now = Moment::from_nanos(7);
        let mut division = match restarted {
            true => Division::restarted(quota, burst, Timing::ENVOY, now),
            false => Division::new(quota, burst, Timing::ENVOY, now),
        };
        let mut members = vec![division.join(now)];
        for (what, who, count, millis) in steps {
            now = now.plus(Duration::from_millis(millis));
            let member = members[who % members.len()];
            // Few, some, or more than can be counted.
            let count = count >> (who * 2);
            match what {
                0 => members.push(division.join(now)),
                1 => division.leave(member),
                2 => division.set_weight(member, u32::try_from(who).unwrap_or(1)),
                3 => now = now.plus(Duration::from_secs(20)),
                _ => division.report(member, Usage::new(count, count / 2, Duration::from_secs(count)), now),
            }
            for push in division.pushes(now) {
                prop_assert!(push.share.is_none() || push.share.interval() >= Duration::from_secs(1));
                prop_assert!(push.version < 1_000_000_000);
            }
            let view = division.view();
            prop_assert!(view.held_rate <= view.rate);
            prop_assert!(view.held_burst.saturating_add(view.tokens) <= view.burst);
            let next = division.next();
            prop_assert!(next.is_none_or(|next| next > now), "it would be asked for ever");
        }
    }
}
