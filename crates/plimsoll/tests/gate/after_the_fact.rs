//! Charging when the cost is known, and giving back what was too much.

use std::time::Duration;

use plimsoll::{
    Bandwidths, Concurrency, Demand, FixedWindow, Gate, Keyed, Limiter, LimiterExt, ManualClock,
    PenaltyBucket, PerKey, Quota, Refresh, Rule, SlidingLog, Smooth, TokenBucket,
};

#[test]
fn a_bucket_goes_into_debt_even_beyond_its_burst() {
    let time = ManualClock::new();
    let gate = Gate::builder(TokenBucket::per_second(10))
        .clock(time.clock())
        .build();
    gate.charge(35);
    let denied = gate.try_acquire(1).expect_err("there is a debt");
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(2600)));
    time.advance(Duration::from_millis(2600));
    assert!(gate.try_acquire(1).is_ok());
}

#[test]
fn a_window_is_used_up_and_no_more() {
    let time = ManualClock::new();
    let gate = Gate::builder(FixedWindow::new(Quota::per_second(10)))
        .clock(time.clock())
        .build();
    gate.charge(25);
    assert_eq!(gate.snapshot().available(), 0);
    time.advance(Duration::from_secs(1));
    assert_eq!(gate.snapshot().available(), 10);
}

#[test]
fn what_is_given_back_to_cannot_be_charged() {
    let gate = Gate::new(Concurrency::new(2));
    gate.charge(1);
    assert_eq!(gate.snapshot().available(), 2);
}

#[test]
fn keys_are_charged_one_by_one_and_in_every_form() {
    let time = ManualClock::new();
    let keyed: Keyed<String, _> = Keyed::builder(TokenBucket::per_second(10))
        .clock(time.clock())
        .build();
    keyed.charge("anna", 15);
    assert!(keyed.try_acquire("anna", 1).is_err());
    assert!(keyed.try_acquire("bert", 10).is_ok());
    time.advance(Duration::from_millis(600));
    assert!(keyed.try_acquire("anna", 1).is_ok());

    let gate = keyed.gate("carl").expect("there is room");
    keyed.charge("carl", 10);
    assert!(gate.try_acquire(1).is_err());
}

#[test]
fn a_permit_of_a_key_is_undone_by_its_key() {
    let time = ManualClock::new();
    let keyed: Keyed<String, _> = Keyed::builder(TokenBucket::per_second(10))
        .clock(time.clock())
        .build();
    let permit = keyed.try_acquire("anna", 10).expect("there are 10");
    permit.undo(); // does not know whose it is
    let mut permit = keyed
        .try_acquire("bert", 10)
        .expect("there are 10")
        .into_owned();
    let unused = permit.split(4).expect("of 10");
    PerKey::undo(&keyed, "bert", unused);
    assert_eq!(keyed.standing("anna").remaining.unwrap(), 0);
    assert_eq!(keyed.standing("bert").remaining.unwrap(), 4);

    let slots: Keyed<String, _> = Keyed::new(Concurrency::new(1));
    let permit = slots.try_acquire("anna", 1).expect("one").into_owned();
    PerKey::undo(&slots, "anna", permit);
    assert!(slots.try_acquire("anna", 1).is_ok());
    assert!(!keyed.forget("nobody"));
    keyed.undo("nobody", keyed.try_acquire("somebody", 1).expect("new"));
    assert_eq!(keyed.standing("nobody").remaining.unwrap(), 10);
}

#[test]
fn the_largest_charge_is_one_step() {
    // At one a second more would last for longer than there are moments.
    const CHARGE: u64 = 1 << 34;
    // A charge was booked in parts of one burst each, behind the lock: four billion of them.
    let time = ManualClock::new();
    let retry_after = |gate: &dyn Limiter| {
        gate.charge(CHARGE);
        let denied = gate.try_acquire(Demand::ONE).unwrap_err();
        denied.retry_after().unwrap()
    };
    fn gate<R: Rule>(rule: R, time: &ManualClock) -> Gate<R> {
        Gate::builder(rule).clock(time.clock()).build()
    }
    // All the debt has to come in again, less the one that was there and plus the one that is asked for.
    let debt = Duration::from_secs(CHARGE);
    let bucket = TokenBucket::per_second(1);
    assert_eq!(retry_after(&gate(bucket.clone(), &time)), debt);
    let interval = TokenBucket::interval(Quota::per_second(1));
    assert_eq!(retry_after(&gate(interval, &time)), debt);
    assert_eq!(
        retry_after(&gate(Refresh::new(Quota::per_second(1)), &time)),
        debt
    );
    let several = Bandwidths::new([bucket.clone(), bucket.clone().burst(7)]);
    assert_eq!(retry_after(&gate(several, &time)), debt);
    assert_eq!(retry_after(&gate(PenaltyBucket::new(bucket), &time)), debt);
    let smooth = Smooth::try_bursty(1.0, Duration::ZERO).unwrap();
    assert_eq!(retry_after(&gate(smooth, &time)), debt);
}

#[test]
fn the_minimum_gap_of_a_log_does_not_stand_in_the_way_of_a_charge() {
    // Nothing was charged at all if it came too soon after the one before.
    let time = ManualClock::new();
    let rule = SlidingLog::new(Quota::per_minute(10)).min_gap(Duration::from_secs(1));
    let gate = Gate::builder(rule).clock(time.clock()).build();
    gate.try_acquire(1).unwrap().forget();
    gate.charge(4);
    assert_eq!(gate.snapshot().available(), 5);
}
