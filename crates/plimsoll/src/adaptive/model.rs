//! Every interleaving of a gate and the algorithm that sets its limit, up to a number of preemptions: no sample is lost
//! without being counted, and a new limit serves the waiters it makes room for.

use loom::thread;

use super::{Adaptive, Limit, Sample};
use crate::gate::Gate;
use crate::gate::model::{assert_idle, check, check_up_to, hold, waiter};
use crate::grant::Outcome;
use crate::{ManualClock, Queue};

/// A limit that grows by one with each sample.
#[derive(Debug)]
struct Rising(u64);

impl Limit for Rising {
    fn limit(&self) -> u64 {
        self.0
    }

    fn sample(&mut self, _sample: &Sample) {
        self.0 += 1;
    }
}

fn rising(limit: u64) -> Gate<Adaptive<Rising>> {
    Gate::builder(Adaptive::new(Rising(limit)))
        .queue(Queue::fifo(8))
        .clock(ManualClock::new().clock())
        .totals(false)
        .build()
}

/// The first permit runs the algorithm, the second leaves its sample in the inbox: neither sample is lost, and the gate
/// ends with the limit of the later decision, whichever thread sets it last.
#[test]
fn two_permits_that_finish_at_once_both_leave_a_sample() {
    check(|| {
        let gate = rising(2);
        let (first, second) = (hold(&gate), hold(&gate));
        let other = thread::spawn(move || first.finish(Outcome::Success));
        second.finish(Outcome::Success);
        other.join().unwrap();
        let findings = gate.insight();
        assert_eq!((findings.limit, findings.lost), (4, 0));
        assert_idle(&gate, 4);
    });
}

/// The inbox has two places, so one of three simultaneous samples may be lost; then it is counted.
#[test]
fn three_permits_that_finish_at_once_leave_samples_or_are_counted() {
    check_up_to(2, || {
        let gate = rising(3);
        let others: Vec<_> = (0..2)
            .map(|_| {
                let permit = hold(&gate);
                thread::spawn(move || permit.finish(Outcome::Success))
            })
            .collect();
        hold(&gate).finish(Outcome::Success);
        for other in others {
            other.join().unwrap();
        }
        let findings = gate.insight();
        assert_eq!(u64::from(findings.limit) + findings.lost, 6);
        assert_idle(&gate, u64::from(findings.limit));
    });
}

#[test]
fn a_grown_limit_serves_a_waiter_that_is_just_joining() {
    check_up_to(2, || {
        let gate = rising(2);
        let (first, second) = (hold(&gate), hold(&gate));
        let waiters = [waiter(&gate), waiter(&gate)];
        // The returned permit serves one waiter, the growth of the limit the other.
        first.finish(Outcome::Success);
        for waiter in waiters {
            assert!(waiter.join().unwrap());
        }
        drop(second);
        assert_idle(&gate, 3);
    });
}
