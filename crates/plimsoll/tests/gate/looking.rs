//! Whoever only looks is in nobody's way.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use plimsoll::{Gate, ManualClock, Moment, Packed, Refusal, Rule};

/// Ten, that come back by themselves never; whoever peeks at it calls somebody else first.
#[derive(Default)]
struct Interrupted(Arc<OnceLock<Call>>);

type Call = Box<dyn Fn() + Send + Sync>;

impl std::fmt::Debug for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Interrupted")
    }
}

impl Rule for Interrupted {
    type State = u64;
    type Fast = Self;

    fn limit(&self) -> u64 {
        10
    }
    fn fresh(&self, _now: Moment) -> u64 {
        10
    }
    fn take(&self, left: &mut u64, _now: Moment, cost: u64) -> Result<(), Refusal> {
        *left = left.checked_sub(cost).ok_or(Refusal::until_returned())?;
        Ok(())
    }
    fn peek(&self, left: &u64, now: Moment, cost: u64) -> Result<(), Refusal> {
        if let Some(call) = self.0.get() {
            call();
        }
        self.take(&mut left.clone(), now, cost)
    }
    fn available(&self, left: &u64, _now: Moment) -> u64 {
        *left
    }
    fn refund(&self, left: &mut u64, _now: Moment, _taken: Moment, cost: u64) {
        *left += cost;
    }
    fn full_at(&self, _left: &u64, _now: Moment) -> Option<Moment> {
        None
    }
}

impl Packed<Self> for Interrupted {
    fn pack(_rule: &Self, left: &u64, _now: Moment) -> Option<u64> {
        Some(*left)
    }
    fn unpack(_rule: &Self, word: u64, _now: Moment) -> u64 {
        word
    }
}

#[test]
fn an_estimate_does_not_close_the_fast_path() {
    // It went behind the lock and took the state with it, so everybody else had to wait for it there.
    let rule = Interrupted::default();
    let peeked = Arc::clone(&rule.0);
    let gate = Gate::builder(rule)
        .clock(ManualClock::new().clock())
        .build();
    let (ask, asked) = channel::<()>();
    let (tell, told) = channel();
    let other = gate.clone();
    let taker = thread::spawn(move || {
        while asked.recv().is_ok() {
            other.try_acquire(1).unwrap().forget();
            tell.send(()).unwrap();
        }
    });
    let answers = Mutex::new((ask, told));
    let call: Call = Box::new(move || {
        let (ask, told) = &*answers.lock().unwrap();
        ask.send(()).unwrap();
        let taken = told.recv_timeout(Duration::from_secs(10));
        taken.expect("another takes while somebody estimates");
    });
    assert!(peeked.set(call).is_ok());
    assert!(gate.estimate(10).is_ok());
    assert!(gate.estimate(10).is_err(), "one was taken meanwhile");
    assert_eq!(gate.snapshot().available(), 8);
    drop((gate, peeked));
    // The taker holds the gate, and with it the other end of its channel; it ends with the process.
    drop(taker);
}
