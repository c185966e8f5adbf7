//! Interleaved rounds, by the time of the processor.

use rustix::time::{ClockId, clock_gettime};

/// Something that is called so many times.
pub(crate) type Case = Box<dyn FnMut(u64)>;

const ROUNDS: usize = 301;
const CALLS: u64 = 2000;

/// The processor time of this process, in nanoseconds: what others do on the machine meanwhile does not count.
pub(crate) fn processor() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// The nanoseconds of a call of each case, in each round. In every round the cases take turns, beginning with another one.
pub(crate) fn rounds(mut cases: Vec<Case>) -> Vec<Vec<f64>> {
    let mut times = vec![Vec::with_capacity(ROUNDS); cases.len()];
    for case in &mut cases {
        case(CALLS);
    }
    for round in 0..ROUNDS {
        for turn in 0..cases.len() {
            let index = (round + turn) % cases.len();
            let start = processor();
            cases[index](CALLS);
            times[index].push((processor() - start) / CALLS as f64);
        }
    }
    times
}

pub(crate) fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}
