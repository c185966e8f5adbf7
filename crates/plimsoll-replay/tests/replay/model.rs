//! A replay is the same as an engine that is driven by hand, and as naive models of limits.

use std::collections::{HashMap, VecDeque};

use plimsoll::{ManualClock, Moment};
use plimsoll_engine::{Hold, Limits, RecordedResponse};
use plimsoll_tower::Head;
use plimsoll_tower::keys::PeerAddr;
use proptest::prelude::*;

use crate::support::{Dir, config, line, replay};

/// When it came in milliseconds, how long it took, whose it is, how it was answered.
type Came = (u64, u64, u8, u16);

fn traffic() -> impl Strategy<Value = Vec<Came>> {
    let status = prop::sample::select(vec![200, 200, 401, 429, 503]);
    let came = (0_u64..20_000, 0_u64..3_000, 0_u8..4, status);
    // Moments of their own: what happens at the same one may happen in any order.
    prop::collection::vec(came, 1..120).prop_map(|mut all| {
        all.sort_unstable();
        all.dedup_by_key(|came| came.0);
        all
    })
}

/// A log in the order in which lines are written.
fn log(all: &[Came]) -> String {
    let mut lines: Vec<(u64, String)> = Vec::new();
    for (at, took, client, status) in all {
        let end = at + took;
        lines.push((
            end,
            line(&format!("192.0.2.{client}"), end, "/a", *status, *took),
        ));
    }
    lines.sort_by_key(|(end, _)| *end);
    lines.into_iter().map(|(_, line)| line).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn windows_and_slots_are_those_of_naive_models(all in traffic()) {
        let dir = Dir::new("naive");
        let window = replay(
            "limits: { w: { kind: sliding_log, limit: 3, window: 2s, key: client } }\nroutes: [{ match: /**, limits: [w] }]",
            dir.log(log(&all)),
        );
        let mut granted: HashMap<u8, VecDeque<u64>> = HashMap::new();
        let mut refused = 0;
        for (at, _, client, _) in &all {
            let granted = granted.entry(*client).or_default();
            granted.retain(|before| before + 2000 > *at);
            match granted.len() < 3 {
                true => granted.push_back(*at),
                false => refused += 1,
            }
        }
        prop_assert_eq!(window.refused, refused);
        prop_assert_eq!(window.limits[0].keys, all.iter().map(|it| it.2).collect::<std::collections::HashSet<_>>().len() as u64);

        let slots = replay("limits: { s: { concurrency: 2 } }\nroutes: [{ match: /**, limits: [s] }]", dir.log(log(&all)));
        let (mut running, mut refused) = (Vec::new(), 0);
        for (at, took, _, _) in &all {
            running.retain(|end| end > at);
            match running.len() < 2 {
                true if *took > 0 => running.push(at + took),
                true => {}
                false => refused += 1,
            }
        }
        prop_assert_eq!(slots.refused, refused);
    }

    #[test]
    fn a_replay_is_an_engine_driven_by_hand(all in traffic()) {
        const LIMITS: &str = "
limits:
  bucket: { rate: 2/s, burst: 3, key: client }
  failed: { kind: fixed_window, limit: 2, window: 10s, key: client, cost: { status: [401] } }
  slots: { concurrency: 3 }
  shadow: { rate: 1/s, mode: shadow }
routes: [{ match: /**, limits: [bucket, failed, slots, shadow] }]
";
        let dir = Dir::new("by-hand");
        let report = replay(LIMITS, dir.log(log(&all)));

        let clock = ManualClock::starting_at(Moment::from_nanos((12 * 3_600_000 + all[0].0) * 1_000_000));
        let limits = Limits::new(&config(LIMITS), &clock.clock()).expect("limits");
        let mut running: Vec<(u64, Hold, u16)> = Vec::new();
        let (mut refused, mut by) = (0, HashMap::<String, u64>::new());
        for (at, took, client, status) in &all {
            running.sort_by_key(|(end, ..)| *end);
            while running.first().is_some_and(|(end, ..)| end <= at) {
                let (end, mut hold, status) = running.remove(0);
                clock.advance_to(Moment::from_nanos((12 * 3_600_000 + end) * 1_000_000));
                hold.settle_recorded(&RecordedResponse::new(status));
            }
            clock.advance_to(Moment::from_nanos((12 * 3_600_000 + at) * 1_000_000));
            let peer = PeerAddr(format!("192.0.2.{client}:1").parse().expect("an address"));
            let request = http::Request::get("/a").extension(peer).body(()).expect("a request");
            let mut decide = limits.decide_request(&Head::of(&request), 1).expect("a route");
            match decide.now().expect("nobody waits") {
                Ok(mut hold) if *took == 0 => hold.settle_recorded(&RecordedResponse::new(*status)),
                Ok(hold) => running.push((at + took, hold, *status)),
                Err(refusal) => {
                    refused += 1;
                    *by.entry(refusal.limit().to_owned()).or_default() += 1;
                }
            }
        }
        prop_assert_eq!(report.refused, refused);
        for limit in report.limits.iter().filter(|limit| !limit.shadow) {
            prop_assert_eq!(limit.refused, by.get(&limit.limit).copied().unwrap_or(0), "{}", limit.limit);
        }
        let shadow = limits.snapshot().into_iter().find(|it| it.name == "shadow").expect("a limit");
        prop_assert_eq!(report.limits[3].refused, shadow.would_refuse);
        let then = all.iter().filter(|it| matches!(it.3, 429 | 503)).count() as u64;
        prop_assert_eq!(report.refused_then, then);
        prop_assert!(report.refused_again <= report.refused.min(then));
    }
}
