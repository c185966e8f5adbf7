use std::time::Duration;

use plimsoll::{Clock, ManualClock};
use plimsoll_config::{Config, Format};
use plimsoll_tower::internals::Ask as LimitAsk;

use super::*;
use crate::request_hold::RequestHold;
use crate::resolve::by_route;

const FILE: &str = "limits:
  user: { kind: token_bucket, burst: 50, refill: 20, every: 1s, key: client }
  seen: { rate: 5/s, key: client, mode: shadow }
  tiered: { rate: 5/s, key: client, tiers: { by: header:x-plan, pro: { rate: 9/s } } }
  slots: { concurrency: 3, key: client }
  described: { rate: 5/s, burst: 5, key: client, metadata: { phrase: Too many } }
  all: 100/s
";

fn limits(clock: &Clock) -> Limits {
    let config = Config::from_str("limits.yaml", FILE, Format::Yaml);
    Limits::new(&config.expect("a file"), clock).expect("limits")
}

#[test]
fn it_answers_what_a_decision_answers() {
    let time = ManualClock::new();
    let (one, two) = (limits(&time.clock()), limits(&time.clock()));
    let mut short = 0;
    for step in 0_u64..500 {
        // The first of each tick may sweep.
        if step % 10 == 0 {
            time.advance(Duration::from_millis(step * 37 % 300));
        }
        let key = format!("{}", step % 3);
        let ask = Ask::new("user").key(&key).cost(1 + step % 2);
        let decide = |limits: &Limits| {
            let decided = limits.decide(&[ask], Demand::ONE).now().expect("in memory");
            let standing = decided.map(|hold| hold.answers().next().and_then(|it| it.standing));
            standing.map_err(|refusal| refusal.retry_after())
        };
        let taken = match step % 2 {
            0 => one.take_now(ask),
            _ => one.answer_now(ask).and_then(|answer| answer.standing),
        };
        short += u32::from(taken.is_some());
        let taken = taken.map_or_else(|| decide(&one), |standing| Ok(Some(standing)));
        assert_eq!(taken, decide(&two), "{step}");
    }
    assert!(short > 100, "{short}");
    let top = one.top("user", 3, true).expect("a limit");
    assert_eq!(top.used.len(), 3, "some were noted");
}

const ROUTES: &str = "limits:
  user: { kind: token_bucket, burst: 3, refill: 2, every: 1s, key: client }
  window: { kind: fixed_window, limit: 4, window: 1s, key: client }
  locked: { kind: penalty_bucket, burst: 2, refill: 3, soft_limit: 2, soft_window: 1s, lockout: 2s, key: client }
routes:
  - { match: /user, limits: [user] }
  - { match: /window, limits: [window] }
  - { match: /locked, limits: [locked] }
";

#[test]
fn the_only_limit_of_a_route_refuses_as_in_a_decision() {
    let time = ManualClock::new();
    let config = Config::from_str("limits.yaml", ROUTES, Format::Yaml).expect("a file");
    let limits = || Limits::new(&config, &time.clock()).expect("limits");
    let (short, long) = (limits(), limits());
    let mut refused = 0;
    for step in 0_u64..400 {
        time.advance(Duration::from_millis(step * 37 % 190));
        let path = ["/user", "/window", "/locked"][(step % 3) as usize];
        let peer: std::net::SocketAddr = ([192, 0, 2, 1], 40_000).into();
        let request = http::Request::get(path).extension(plimsoll_tower::keys::PeerAddr(peer));
        let request = request.body(()).expect("a request");
        let head = Head::of(&request);
        let plan = short.plan();
        let route = plan.route(&head).expect("a route");
        assert!(plan.routes[route].fast, "{path}");
        let (mut first, mut second) = (None, None);
        let mut answers = Vec::new();
        for kept in [&mut first, &mut second] {
            let answer = take(&plan, &plan.routes[route], &head, Demand::ONE, kept);
            answers.push(match answer {
                FastPath::Granted => None,
                FastPath::Denied(denied) => Some(denied),
                FastPath::Refused | FastPath::Undecided => panic!("{path} is decided"),
            });
        }
        let (mut first, mut second) = <(RequestHold, RequestHold)>::default();
        for (hold, answer) in [&mut first, &mut second].into_iter().zip(answers) {
            let members = by_route(&long.plan(), route, &head, Demand::ONE, true);
            let decided = match hold.take(members, &head) {
                LimitAsk::Pass => None,
                LimitAsk::Refused(denied) => Some(denied),
                other => panic!("{other:?}"),
            };
            refused += u32::from(answer.is_some());
            assert_eq!(
                format!("{answer:?}"),
                format!("{decided:?}"),
                "{step}, {path}"
            );
        }
    }
    assert!(refused > 100, "{refused}");
    for (one, other) in short.plan().limits.iter().zip(&long.plan().limits) {
        let counted = |limit: &Limit| {
            let refusals: Vec<_> = limit.stats.refusals().collect();
            let snapshot = limit
                .own()
                .snapshot()
                .map(|it| (it.granted_total(), it.denied_total()));
            (refusals, snapshot, limit.stats.lock().refused.most(3, true))
        };
        assert_eq!(counted(one), counted(other), "{}", one.name);
    }
}

#[test]
fn what_needs_more_is_left_to_a_decision() {
    let time = ManualClock::new();
    let limits = limits(&time.clock());
    let asked = |limit: &str| {
        let ask = Ask::new(limit).key("anna");
        limits.charge(&[ask.cost(0)]);
        let _known = limits.try_decide(&[ask]);
        (
            limits.take_now(ask).is_some(),
            limits.answer_now(ask).is_some(),
        )
    };
    let (yes, no) = ((true, true), (false, false));
    let is = ["user", "seen", "tiered", "slots", "all", "none"].map(asked);
    assert_eq!(is, [yes, no, no, no, no, no]);
    assert_eq!(asked("described"), (true, false));
    let ask = Ask::new("user").key("anna");
    assert!(limits.answer_now(ask.tier("pro")).is_none());
    let _events = limits.subscribe(10);
    assert!(limits.take_now(ask).is_none() && limits.answer_now(ask).is_none());
}
