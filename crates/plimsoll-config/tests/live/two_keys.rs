//! Whoever waits for two keys is served in its turn, also if a new configuration comes meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use plimsoll::together::{Ask, Key, Refused, Waiting};
use plimsoll::{ManualClock, Reason};

use crate::files::{build, replace};

const SECOND: Duration = Duration::from_secs(1);

/// Two limits with keys, each with a queue that never empties: whoever waits for both is served before those who come
/// later, as with limits that are not from a file. `change` is made in the middle of the wait.
fn waits_for_both(
    first: &str,
    change: Option<&str>,
) -> Result<Vec<Option<plimsoll::Permit<'static>>>, Refused> {
    let time = ManualClock::new();
    let limits = build(first, &time);
    let tables = ["a", "b"].map(|name| limits.keyed(name).expect("there"));
    let keys = [Key::new(&tables[0], "red"), Key::new(&tables[1], "blue")];
    let asks = keys.each_ref().map(|key| Ask::key(key, 1));
    let single = |at: usize| [asks[at]];
    let poll = |waiting: &mut Waiting, asks: &[Ask<'_>]| {
        waiting.poll(asks, &mut Context::from_waker(Waker::noop()))
    };
    let mut running: Vec<Vec<_>> = (0..2).map(|_| Vec::new()).collect();
    let mut queued: Vec<Vec<Waiting>> = (0..2).map(|_| Vec::new()).collect();
    for (at, running) in running.iter_mut().enumerate() {
        let Poll::Ready(Ok(permits)) =
            poll(&mut Waiting::start(&single(at)).expect("room"), &single(at))
        else {
            panic!("nobody is there");
        };
        running.push(permits);
    }
    let mut both = Waiting::start(&asks)?;
    assert!(both.is_queued());
    let mut later = 0;
    for round in 0..100 {
        if let Some(change) = change.filter(|_| round == 1) {
            replace(&limits, change);
        }
        let at = round % 2;
        // One ends, and whoever can run does.
        running[at].clear();
        queued[at].push(Waiting::start(&single(at))?);
        time.advance(SECOND / 4);
        if let Poll::Ready(answer) = poll(&mut both, &asks) {
            assert!(later <= 2, "{later} were served before");
            assert!(answer.is_err() || both.waited(&asks) == Duration::ZERO);
            return answer;
        }
        queued[at].retain_mut(|waiting| match poll(waiting, &single(at)) {
            Poll::Ready(answer) => {
                later += 1;
                running[at].push(answer.expect("served"));
                false
            }
            Poll::Pending => true,
        });
    }
    panic!("it was never served: {change:?}");
}

fn two_keyed(one: &str, two: &str) -> String {
    let limiter =
        |name, kind| format!("  {name}: {{ {kind}, keyed: true, queue: {{ bound: 500 }} }}\n");
    format!("limiters:\n{}{}", limiter("a", one), limiter("b", two))
}

const SLOT: &str = "kind: concurrency, limit: 1";
const BUCKET: &str = "kind: token_bucket, burst: 1, refill: 1, every: 1s";
const WINDOW: &str = "kind: fixed_window, limit: 1, window: 1s";

#[test]
fn one_that_waits_for_two_keys_is_served_before_those_that_come_later() {
    for (one, two) in [(SLOT, SLOT), (SLOT, BUCKET), (BUCKET, WINDOW)] {
        let first = two_keyed(one, two);
        assert!(waits_for_both(&first, None).is_ok(), "{one} {two}");
        // Where they are, or by another limiter that takes the place of the first.
        for next in [SLOT, "kind: concurrency, limit: 2", BUCKET, WINDOW] {
            let answer = waits_for_both(&first, Some(&two_keyed(next, two)));
            assert!(answer.is_ok(), "{one} {two}, then {next}: {answer:?}");
        }
    }
}

#[test]
fn one_that_waits_for_two_keys_is_woken_and_refused_when_one_of_the_limits_goes() {
    struct Woken(AtomicBool);
    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let time = ManualClock::new();
    let limits = build(&two_keyed(SLOT, SLOT), &time);
    let tables = ["a", "b"].map(|name| limits.keyed(name).expect("there"));
    let keys = tables.each_ref().map(|table| Key::new(table, "red"));
    let asks = keys
        .each_ref()
        .map(|key| Ask::key(key, plimsoll::Demand::ONE.within(SECOND * 5)));
    let held = tables[0].try_acquire("red", 1).expect("room");
    let woken = Arc::new(Woken(AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = Context::from_waker(&waker);
    let mut waiting = Waiting::start(&asks).expect("there is a queue");
    assert!(waiting.poll(&asks, &mut cx).is_pending());
    time.advance(SECOND * 3);
    // The time it has left goes on at the limiter that takes the place.
    replace(&limits, &two_keyed(BUCKET, SLOT));
    assert!(woken.0.swap(false, Ordering::SeqCst));
    let spent = tables[0].try_acquire("red", 1).is_ok();
    assert!(waiting.poll(&asks, &mut cx).is_pending(), "{spent}");
    assert_eq!(waiting.waited(&asks), SECOND * 3);
    drop(held);
    replace(
        &limits,
        "limiters: { b: { kind: concurrency, limit: 1, keyed: true, queue: { bound: 500 } } }",
    );
    assert!(woken.0.swap(false, Ordering::SeqCst));
    let Poll::Ready(Err(refused)) = waiting.poll(&asks, &mut cx) else {
        panic!("it is refused");
    };
    assert_eq!(
        (refused.index, refused.denied.reason()),
        (0, Reason::Closed)
    );
    assert_eq!(refused.denied.limiter(), Some("a"));
}
