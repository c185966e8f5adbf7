//! The bound under the worst possible decisions: random shares, assigned directly by the ledger.

use std::collections::VecDeque;

use plimsoll::Moment;

use crate::division::Push;
use crate::ledger::{Holding, Ledger};
use crate::member::Member;
use crate::share::NANO;
use crate::simulation::chance::Chance;
use crate::simulation::proxy::{Proxy, ProxyDecision, Without};
use crate::simulation::result::Watch;
use crate::timing::Timing;

const TIMING: Timing = Timing::ENVOY;
const SETTLE: u64 = NANO;

/// A member, the proxy at the other end, and the messages on their way to it.
struct Party {
    holding: Holding,
    proxy: Proxy,
    on_its_way: VecDeque<(u64, Push)>,
    alive: bool,
}

impl Party {
    fn new() -> Self {
        Self {
            holding: Holding::default(),
            proxy: Proxy::new(Without::Deny),
            on_its_way: VecDeque::new(),
            alive: true,
        }
    }

    fn deliver(&mut self, until: u64) {
        while let Some((at, push)) = self.on_its_way.front()
            && *at <= until
        {
            self.proxy.receive(push, Moment::from_nanos(*at));
            self.on_its_way.pop_front();
        }
    }

    fn send(&mut self, now: u64, chance: &mut Chance) {
        let last = self.on_its_way.back().map_or(0, |(at, _)| *at);
        let at = (now + chance.between(0, SETTLE)).max(last);
        let push = Push {
            member: Member(0),
            share: self.holding.share(),
            version: self.holding.version(),
            ttl: TIMING.ttl(),
        };
        self.on_its_way.push_back((at, push));
    }
}

fn run(seed: u64) -> f64 {
    let chance = &mut Chance::new(seed);
    let burst = chance.between(1, 30);
    let rate = chance.between(NANO / 10, 20 * NANO);
    let start = Moment::from_nanos(1);
    let mut ledger = Ledger::new(rate, burst, TIMING, burst, start);
    let mut watch = Watch::new(rate);
    let mut parties: Vec<_> = (0..chance.between(1, 4)).map(|_| Party::new()).collect();
    let mut now = 1;
    let greedy = !seed.is_multiple_of(4);
    for _ in 0..400 {
        now += match chance.between(0, 29) {
            0 => chance.between(0, 20 * NANO),
            1..4 => chance.between(0, 2 * NANO),
            _ => chance.between(0, NANO / 4),
        };
        let moment = Moment::from_nanos(now);
        for party in &mut parties {
            party.deliver(now);
            // If all tokens are spent, any token that was created from nothing is noticed.
            while greedy && party.proxy.request(moment) == ProxyDecision::Allowed {
                watch.admitted(moment);
            }
        }
        ledger.advance(moment);
        let index = usize::try_from(chance.next()).unwrap_or_default() % parties.len();
        let few = parties.len() < 12;
        let party = &mut parties[index];
        ledger.expire(&mut party.holding, moment);
        match chance.between(0, if greedy { 13 } else { 19 }) {
            0 if chance.between(0, 3) == 0 => {
                // Its stream breaks: messages on their way are lost, and its assignment stays in force.
                party.alive = false;
                party.on_its_way.clear();
            }
            1 if few => parties.push(Party::new()),
            2..5 if party.alive => ledger.confirm(&mut party.holding, moment),
            5..7 if party.alive => {
                if ledger.refresh(&mut party.holding, moment) {
                    party.send(now, chance);
                }
            }
            7..13 if party.alive => {
                let (rate, burst) = (chance.between(0, rate), chance.between(0, burst));
                if ledger.give(&mut party.holding, rate, burst, moment) {
                    party.send(now, chance);
                }
            }
            _ => {
                for _ in 0..chance.between(1, 40) {
                    if party.proxy.request(moment) == ProxyDecision::Allowed {
                        watch.admitted(moment);
                    }
                }
            }
        }
        let (held_rate, held_burst) = ledger.held();
        assert!(held_rate <= rate && held_burst + ledger.free_burst() <= burst);
    }
    #[expect(clippy::cast_precision_loss, reason = "it is small")]
    let burst = burst as f64;
    watch.worst() - burst
}

#[test]
fn whatever_is_given_to_whom_all_take_at_most_what_one_bucket_would() {
    let mut worst = f64::MIN;
    for seed in 0..3000 {
        let over = run(seed);
        assert!(over <= 1e-6, "{over} above the bound, with the seed {seed}");
        worst = worst.max(over);
    }
    // A bound that no run approaches would prove little.
    assert!(worst > -1.0, "{worst}");
}
