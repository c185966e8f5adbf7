//! Limits in shadow mode: counted, told, never enforced (ENGINE 2.7).

use plimsoll_engine::Ask;

use crate::limits;

const SHADOW: &str = "limits:
  real: { kind: token_bucket, burst: 3, refill: 1, every: 1s, key: header:x-user }
  tomorrow: { kind: token_bucket, burst: 2, refill: 1, every: 1s, key: header:x-user, mode: shadow }
  slots: { kind: concurrency, limit: 1, mode: shadow }
";

#[test]
fn it_says_what_it_would_have_done_and_refuses_nobody() {
    let (limits, _time) = limits(SHADOW);
    let asks = [Ask::new("real").key("a"), Ask::new("tomorrow").key("a")];
    let mut said = Vec::new();
    for _ in 0..3 {
        let hold = limits.try_decide(&asks).expect("it works");
        said.push(
            hold.answers()
                .map(|answer| (answer.shadow, answer.is_granted()))
                .collect::<Vec<_>>(),
        );
    }
    assert_eq!(said[0], [(false, true), (true, true)]);
    assert_eq!(said[1], [(false, true), (true, true)]);
    assert_eq!(said[2], [(false, true), (true, false)]);
}

#[test]
fn it_is_charged_only_with_the_decision() {
    let (limits, _time) = limits(SHADOW);
    let asks = [
        Ask::new("real").key("a").cost(4),
        Ask::new("tomorrow").key("a"),
    ];
    let refusal = limits.try_decide(&asks).expect_err("it is refused");
    assert_eq!(refusal.limit(), "real");
    let tomorrow = refusal.answers().nth(1).expect("it works");
    assert!(tomorrow.shadow && tomorrow.is_granted());
    assert_eq!(tomorrow.standing.expect("it works").remaining, Some(2));
}

#[test]
fn slots_in_flight_beyond_its_limit_are_counted() {
    let (limits, _time) = limits(SHADOW);
    let ask = [Ask::new("slots")];
    let held: Vec<_> = (0..3)
        .map(|_| limits.try_decide(&ask).expect("it works"))
        .collect();
    let seen = |limits: &plimsoll_engine::Limits| {
        let all = limits.snapshot();
        let slots = all
            .iter()
            .find(|seen| seen.name == "slots")
            .expect("it works");
        (slots.snapshot.in_use(), slots.beyond, slots.would_refuse)
    };
    assert_eq!(seen(&limits), (1, 2, 2));
    drop(held);
    assert_eq!(seen(&limits), (0, 0, 2));
}
