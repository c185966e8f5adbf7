//! Threads that ask while files change: nothing is granted twice in the moment of a replacement.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use plimsoll::together::block_on;
use plimsoll::{Clock, Permit};
use plimsoll_config::Limits;

use super::{file, held};
use crate::files::{config, replace};

/// Runs `ask` in threads, each in its own way, until `changes` files were read one after the other.
fn while_files_change(
    limits: &Limits,
    (texts, changes): ([String; 2], usize),
    ask: &(dyn Fn(usize) + Sync),
) {
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for way in 0..8 {
            let end = &end;
            scope.spawn(move || {
                while !end.load(Ordering::Relaxed) {
                    ask(way);
                }
            });
        }
        for turn in 0..changes {
            replace(limits, &texts[(turn + 1) % 2]);
            std::thread::yield_now();
        }
        end.store(true, Ordering::Relaxed);
    });
}

/// Whatever is granted in the moment of a replacement counts in the limiter that grants next.
///
/// Seen to fail: 5 and more of 4 were out.
#[test]
fn no_slot_is_granted_twice_in_the_moment_of_a_replacement() {
    let kinds = [
        "kind: concurrency, limit: 4, queue: { bound: 100 }",
        "kind: adaptive, algorithm: aimd, min: 4, initial: 4, max: 4, queue: { bound: 100 }",
    ];
    let texts =
        kinds.map(|kind| format!("{}  both: {{ kind: all, of: [a, other] }}\n", file(kind)));
    let limits = config(&texts[0]).build(&Clock::system()).expect("builds");
    let (a, both) = (held(&limits), limits.limiter("both").expect("there"));
    let (out, most) = (AtomicU32::new(0), AtomicU32::new(0));
    while_files_change(&limits, (texts, 150), &|way| {
        let limiter = if way % 2 == 0 { &a } else { &both };
        let permit = match way / 2 % 2 {
            0 => limiter.try_acquire(1.into()).map(Permit::into_owned),
            _ => block_on(limiter.acquire_owned(1.into())),
        };
        if let Ok(permit) = permit {
            most.fetch_max(out.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::yield_now();
            out.fetch_sub(1, Ordering::SeqCst);
            drop(permit);
        }
    });
    assert!(most.load(Ordering::SeqCst) <= 4, "{most:?} of 4 were out");
    assert_eq!(a.snapshot().in_use(), 0);
}

/// Seen to fail: it did not end, because a demand on a limit without a queue began to wait in the moment of a replacement.
#[test]
fn no_unit_of_a_rate_is_granted_twice_in_the_moment_of_a_replacement() {
    const LIMIT: u32 = 40_000;
    let kind = format!("kind: fixed_window, limit: {LIMIT}, window: 10h");
    let texts = [file(&kind), file(&format!("{kind}, keyed: true"))];
    let limits = config(&texts[0]).build(&Clock::system()).expect("builds");
    let a = held(&limits);
    let granted = AtomicU32::new(0);
    let ask = |way: usize| {
        let permit = match way % 2 {
            0 => a.try_acquire(1.into()).map(Permit::into_owned),
            _ => block_on(a.acquire_owned(1.into())),
        };
        granted.fetch_add(u32::from(permit.is_ok()), Ordering::SeqCst);
        permit.is_ok()
    };
    while_files_change(&limits, (texts, 150), &|way| {
        ask(way);
    });
    while ask(0) {}
    assert_eq!(granted.into_inner(), LIMIT);
}
