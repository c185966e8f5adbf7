//! Threads that take the processors away, now and then.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::chance::Chance;

/// Twice as many as there are processors, so that every other thread waits for its turn.
pub(crate) fn start(mut chance: Chance, stop: &Arc<AtomicBool>) -> Vec<JoinHandle<()>> {
    let threads = 2 * thread::available_parallelism().map_or(2, usize::from);
    (0..threads)
        .map(|_| {
            let stop = Arc::clone(stop);
            let mut chance = Chance::new(chance.below(u64::MAX));
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let mut sum = 0_u64;
                    for step in 0..chance.below(40_000_000) {
                        sum = black_box(sum.wrapping_add(step));
                    }
                    // Sometimes it lets go, so that idle limiters and a waking machine are seen too.
                    if chance.one_in(3) {
                        thread::park_timeout(std::time::Duration::from_millis(chance.below(60)));
                    }
                }
            })
        })
        .collect()
}
