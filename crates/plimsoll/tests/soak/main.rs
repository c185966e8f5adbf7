//! Everything at once, in real time, for as long as there is time.
//!
//! Threads and tasks do random things to limiters of every kind on the default clock: take, wait, cancel, reserve,
//! undo, split, merge, resize, change queues, listen, close futures in the middle, wake wakers that panic, while other
//! threads starve the machine now and then. What must hold at every moment is checked against a record kept in real
//! time; what must hold in the end is that nothing is in flight, nobody waits, and the limit is there, no more and no
//! less.
//!
//! `PLIMSOLL_SOAK_SECONDS` sets the length (5 by default) and `PLIMSOLL_SEED` the random choices (24301 by default); the seed is
//! printed. Threads are scheduled as the machine likes, so that a seed makes a failure likely and not certain.

mod chance;
mod load;
mod more;
mod record;
mod subjects;
mod waker;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use chance::Chance;
use record::Stopwatch;
use subjects::{ASKERS, Subjects};

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn seed() -> u64 {
    number("PLIMSOLL_SEED").unwrap_or(0x5eed)
}

#[test]
fn nothing_is_minted_nothing_is_lost_and_no_limit_is_exceeded_in_real_time() {
    let seconds = number("PLIMSOLL_SOAK_SECONDS").unwrap_or(5);
    let seed = seed();
    println!("soak: {seconds} s, PLIMSOLL_SEED={seed}");
    waker::silence_expected_panics();

    let watch = Stopwatch::start();
    let subjects = Arc::new(Subjects::new());
    let stop = Arc::new(AtomicBool::new(false));
    let operations = Arc::new(AtomicU64::new(0));
    let load = load::start(Chance::new(seed ^ 0x10ad), &stop);
    let askers: Vec<_> = (0..ASKERS)
        .map(|number| {
            let (subjects, stop, watch) = (Arc::clone(&subjects), Arc::clone(&stop), watch.clone());
            let operations = Arc::clone(&operations);
            let mut chance = Chance::new(seed.wrapping_add(number));
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    // A waker of ours that panics may do so in whoever serves it: its grant must not be lost, and the
                    // limiter must go on.
                    let done =
                        catch_unwind(AssertUnwindSafe(|| subjects.step(&mut chance, &watch)));
                    if let Err(panic) = done
                        && !waker::is_expected(&*panic)
                    {
                        std::panic::resume_unwind(panic);
                    }
                    operations.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();

    watch.sleep(Duration::from_secs(seconds));
    stop.store(true, Ordering::Relaxed);
    for asker in askers {
        asker.join().expect("no asker may panic by itself");
    }
    load.into_iter()
        .for_each(|thread| thread.join().expect("it only counts"));
    println!("soak: {} operations", operations.load(Ordering::Relaxed));

    subjects.check_in_the_end();
}
