//! Nothing is allocated by asking, whether it is granted or refused.

#[path = "../../plimsoll/tests/counting/mod.rs"]
mod counting;
#[expect(dead_code, reason = "this test does not need all of it")]
mod fed;

use std::pin::pin;
use std::task::{Context, Waker};

use counting::allocations;
use fed::Fed;
use plimsoll::{Clock, Demand, Limiter};
use plimsoll_ambient::{Amount, MemoryLimiter, Sampler};

#[test]
fn asking_allocates_nothing() {
    let sampler = Sampler::new(Clock::system());
    let fed = Fed::new(0, 0);
    let memory = MemoryLimiter::builder(Amount::Bytes(1000)).source(fed.clone());
    let memory = memory
        .name("memory")
        .check_interval(std::time::Duration::MAX);
    let memory = memory.build(&sampler).unwrap();
    let ask = || {
        for _ in 0..1000 {
            let saturated = memory.check_saturation().is_err();
            assert_eq!(memory.try_acquire(Demand::ONE).is_err(), saturated);
            let mut acquire = pin!(memory.acquire(Demand::ONE));
            let answer = acquire
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()));
            assert!(answer.is_ready());
        }
    };
    ask(); // the clock's thread may have to be started
    assert_eq!(allocations(ask), 0);
    fed.set(900);
    sampler.sample().unwrap();
    assert_eq!(allocations(ask), 0);
}
