//! Which options go together.

use plimsoll::adaptive::Settings;
use plimsoll::{Gate, ManualClock, Outcome};

use crate::scripted::Scripted;

#[test]
fn a_limit_stays_within_its_settings() {
    let time = ManualClock::new();
    let algorithm = Scripted::new(0);
    let limit = |gate: &Gate<_>| {
        drop(gate.try_acquire(1).map(|p| p.finish(Outcome::Success)));
        gate.snapshot().limit()
    };
    let bare = algorithm.gate(&time);
    assert_eq!(limit(&bare), 1, "nothing would ever be learned at 0");
    let settings = Settings {
        initial: 7,
        max: 9,
        ..Settings::default()
    };
    let gate = settings
        .builder(|_| algorithm.clone())
        .unwrap()
        .clock(time.clock())
        .build();
    assert_eq!(gate.snapshot().limit(), 5);
    algorithm.say(u64::MAX);
    assert_eq!((limit(&gate), limit(&bare)), (9, u64::MAX));
    algorithm.say(0);
    assert_eq!((limit(&gate), limit(&bare)), (5, 1));
    assert_eq!(limit(&bare), 1);
}

type Change = fn(&mut Settings);

#[test]
fn settings_that_do_not_go_together_are_named() {
    let of = |change: Change| {
        let mut settings = Settings::default();
        change(&mut settings);
        settings.check().map_err(|invalid| invalid.to_string())
    };
    let cases: [(Change, &str); 12] = [
        (|s| s.min = 0, "`min` is 0: expected at least 1"),
        (|s| s.initial = 0, "`initial` is 0: expected at least 1"),
        (|s| s.max = 0, "`max` is 0: expected at least 1"),
        (|s| s.min_queue = 0, "`min_queue` is 0: expected at least 1"),
        (
            |s| s.initial_queue = 0,
            "`initial_queue` is 0: expected at least 1",
        ),
        (
            |s| s.tolerance = 1.0,
            "`tolerance` is 1: expected a number above 1",
        ),
        (
            |s| s.tolerance = f64::NAN,
            "`tolerance` is NaN: expected a number above 1",
        ),
        (
            |s| s.tolerance = f64::INFINITY,
            "`tolerance` is inf: expected a number above 1",
        ),
        (|s| s.max = 5, "`max` is 5: expected above the minimum"),
        (
            |s| s.initial = 4,
            "`initial` is 4: expected from the minimum to the maximum",
        ),
        (
            |s| s.initial = 501,
            "`initial` is 501: expected from the minimum to the maximum",
        ),
        (
            |s| s.initial_queue = 19,
            "`initial_queue` is 19: expected at least the minimum queue",
        ),
    ];
    for (change, said) in cases {
        assert_eq!(of(change), Err(said.to_owned()));
    }
    assert_eq!(of(|_| ()), Ok(()));
    let edge = |s: &mut Settings| {
        (s.min, s.initial, s.max) = (1, 1, 2);
        (s.tolerance, s.min_queue, s.initial_queue) = (1.1, 1, 1);
    };
    assert_eq!(of(edge), Ok(()));
}
