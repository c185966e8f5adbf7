//! Keys that somebody else chooses: very long, empty, or ever new ones.

use http::Request;
use plimsoll::{Demand, Reason};
use plimsoll_engine::{Ask, Limits};
use plimsoll_tower::Head;

use crate::limits;

/// Whether a request of a user is admitted, and why not.
fn ask(limits: &Limits, user: &str) -> Result<(), Reason> {
    let request = Request::get("/").header("x-user", user).body(());
    let request = request.expect("a request");
    let decided = limits.decide_request(&Head::of(&request), Demand::ONE);
    let decided = decided.and_then(|mut decide| decide.now());
    match decided.expect("there is a route, and nobody waits") {
        Ok(hold) => {
            hold.finish(plimsoll::Outcome::Success);
            Ok(())
        }
        Err(refusal) => Err(refusal.denied().reason()),
    }
}

const FILE: &str = "
limits: { per_user: { kind: fixed_window, limit: 1, window: 1h, key: header:x-user, max_keys: 1000 } }
routes: [{ match: /**, limits: [per_user] }]
";

#[test]
fn keys_of_64_kilobytes_are_told_apart_and_shown_in_short() {
    let (limits, _time) = limits(FILE);
    let long = |last: char| format!("{}{last}", "k".repeat(64 * 1024));
    assert_eq!(ask(&limits, &long('a')), Ok(()));
    assert_eq!(ask(&limits, &long('a')), Err(Reason::Exhausted));
    assert_eq!(ask(&limits, &long('b')), Ok(()), "another key");
    let by_name = [long('c'), long('d')];
    for key in &by_name {
        assert!(limits.try_decide(&[Ask::new("per_user").key(key)]).is_ok());
        let again = limits.try_decide(&[Ask::new("per_user").key(key)]);
        assert!(again.is_err());
    }
    let top = limits.top("per_user", 10, true).expect("it has keys");
    assert!(top.refused.iter().all(|it| it.key.len() <= 256), "{top:?}");
}

#[test]
fn an_empty_key_is_no_way_around_a_limit() {
    let (limits, _time) = limits(FILE);
    let first = ask(&limits, "");
    assert!(matches!(first, Ok(()) | Err(Reason::NoKey)), "{first:?}");
    assert!(ask(&limits, "").is_err());
    let by_name = [Ask::new("per_user").key("")];
    let first = limits.try_decide(&by_name).is_ok();
    assert!(limits.try_decide(&by_name).is_err(), "{first}");
}

/// Ten million with `PLIMSOLL_KEYS=10000000`.
#[test]
fn ever_new_keys_are_bounded() {
    let (limits, _time) = limits(FILE);
    let keys = std::env::var("PLIMSOLL_KEYS").ok();
    let keys: u32 = keys.and_then(|keys| keys.parse().ok()).unwrap_or(50_000);
    let mut granted = 0_u32;
    let mut full = 0_u32;
    for key in 0..keys {
        match ask(&limits, &key.to_string()) {
            Ok(()) => granted += 1,
            Err(Reason::KeysFull) => full += 1,
            Err(other) => panic!("{other}"),
        }
    }
    // What is used of a key is not forgotten for a new one.
    assert!(granted <= 1100, "{granted} granted, {full} refused");
    assert_eq!(granted + full, keys);
    let top = limits
        .top("per_user", usize::MAX, false)
        .expect("it has keys");
    assert!(top.used.len() <= 128 && top.refused.len() <= 128);
}
