//! The permits of a provider end together, once.

use std::time::Duration;

use plimsoll::{Concurrency, Gate, ManualClock, Outcome, Quota, SlidingLog};
use plimsoll_kinds::{Permits, Provider, Weight};

/// Ends permits, and tells whether what a rate granted is used.
type End = (&'static str, fn(Permits<'_>), bool);

/// Whatever is done with several permits at once, each limiter is given back to once.
#[test]
fn each_end_of_several_permits_gives_back_once() {
    let ends: [End; 6] = [
        ("drop", |permits| drop(permits), true),
        ("finish", |permits| permits.finish(Outcome::Success), true),
        ("undo", |permits| permits.undo(), false),
        ("own and drop", |permits| drop(permits.into_owned()), true),
        (
            "own and finish",
            |permits| permits.into_owned().finish(Outcome::Overload),
            true,
        ),
        ("own and undo", |permits| permits.into_owned().undo(), false),
    ];
    let quota = Quota::new(10, Duration::from_secs(3600));
    for (name, end, used) in ends {
        for passed in [Duration::ZERO, Duration::from_secs(60)] {
            let time = ManualClock::new();
            let slots = Gate::builder(Concurrency::new(10))
                .clock(time.clock())
                .build();
            let log = Gate::builder(SlidingLog::new(quota))
                .clock(time.clock())
                .build();
            let provider = Provider::builder()
                .limit(Weight::REQUEST_COUNT, slots.clone())
                .limit(Weight::REQUEST_ITEMS, log.clone())
                .build()
                .expect("a provider");
            let taken = provider
                .try_acquire(&[(Weight::REQUEST_COUNT, 3), (Weight::REQUEST_ITEMS, 4)])
                .expect("there is room");
            let other = provider
                .try_acquire(&[(Weight::REQUEST_ITEMS, 2)])
                .expect("there is room");
            time.advance(passed);
            end(taken);
            let expected = if used { 6 } else { 2 };
            assert_eq!(slots.snapshot().in_use(), 0, "{name}");
            assert_eq!(log.snapshot().in_use(), expected, "{name}");
            assert_eq!(slots.take_up_to(u64::MAX).cost(), 10, "{name}");
            drop(other);
            assert_eq!(log.snapshot().in_use(), expected, "{name}");
        }
    }
}
