//! Counting allocates nothing: not to grant, not to refuse, not to wait, whatever the method.

#[path = "../../plimsoll/tests/counting/mod.rs"]
mod counting;
mod hand;

use std::sync::Arc;

use counting::allocations;
use hand::{gate, poll};
use plimsoll::{Demand, ManualClock, Outcome, Priority};
use plimsoll_observe::prometheus_client::registry::Registry;
use plimsoll_observe::{Method, Metrics};

#[test]
fn counting_allocates_nothing_not_even_the_first_time() {
    let time = ManualClock::new();
    let metrics = Metrics::register(&mut Registry::default());
    let metered = metrics.meter(Arc::new(gate(&time, 2, 1))).unwrap();
    // Of the queue itself, which makes room once.
    let warm_up = (
        metered.limiter().try_acquire(2),
        poll(&mut metered.limiter().acquire(1)),
    );
    drop(warm_up);

    let allocated = allocations(|| {
        for method in Method::ALL {
            for priority in Priority::ALL {
                let demand = Demand::of(1).priority(priority);
                let one = metered.try_acquire(method, demand).unwrap();
                let two = metered.try_acquire(method.as_str(), demand).unwrap();
                assert!(metered.try_acquire(method, demand).is_err());
                let mut waiting = metered.acquire(method, demand);
                assert!(poll(&mut waiting).is_pending());
                assert!(poll(&mut metered.acquire(method, demand)).is_ready());
                one.finish(Outcome::Success);
                drop(poll(&mut waiting));
                two.into_owned().finish(Outcome::Overload);
            }
        }
    });
    assert_eq!(allocated, 0);
}
