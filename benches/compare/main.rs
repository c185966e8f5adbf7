//! The fast paths of two versions of the core, side by side. Built and run by `scripts/compare`.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

/// The names of the cases. The first is a reading of the default clock and nothing else.
const CASES: [&str; 14] = [
    "clock",
    "granted",
    "denied",
    "denied-uneven",
    "permit",
    "fixed-window",
    "sliding-window",
    "keyed",
    "keyed-denied",
    "new-key",
    "dyn",
    "all",
    "all-denied",
    "batched",
];
const VERSIONS: [&str; 2] = ["before", "now"];
const ROUNDS: usize = 151;
const CALLS: u64 = 20_000;
/// What valgrind counts; the script divides by it.
const COUNTED: u64 = 10_000;

type Case = Box<dyn FnMut(u64)>;

macro_rules! cases {
    ($version:ident) => {
        mod $version {
            use std::hint::black_box;
            use std::sync::Arc;
            use std::time::Duration;

            use ::$version::{
                All, Batched, Clock, Concurrency, FixedWindow, Gate, Keyed, Limiter, Quota, SlidingWindow, TokenBucket,
            };

            fn empty() -> TokenBucket {
                TokenBucket::greedy(Quota::new(1, Duration::from_secs(3600)))
            }

            fn keyed(rule: TokenBucket) -> Keyed<u64, TokenBucket> {
                let keyed = Keyed::new(rule);
                for key in 0..1000 {
                    let _ = keyed.try_acquire(&key, 1);
                }
                keyed
            }

            pub(crate) fn case(name: &str) -> super::Case {
                match name {
                    "clock" => {
                        let clock = Clock::system();
                        Box::new(move |calls| {
                            for _ in 0..calls {
                                black_box(black_box(&clock).now());
                            }
                        })
                    }
                    "granted" => {
                        let gate = Gate::new(TokenBucket::per_second(4_000_000_000));
                        Box::new(move |calls| {
                            for _ in 0..calls {
                                black_box(gate.try_acquire(black_box(1)).is_ok());
                            }
                        })
                    }
                    "denied" => {
                        let gate = Gate::new(empty());
                        let _ = gate.try_acquire(1);
                        Box::new(move |calls| {
                            for _ in 0..calls {
                                black_box(gate.try_acquire(black_box(1)).err());
                            }
                        })
                    }
                    "denied-uneven" => {
                        // The time between two tokens is no whole number of nanoseconds.
                        let rule = TokenBucket::greedy(Quota::new(7, Duration::from_secs(3600)));
                        let gate = Gate::new(rule);
                        let _ = gate.try_acquire(7);
                        Box::new(move |calls| {
                            for _ in 0..calls {
                                black_box(gate.try_acquire(black_box(1)).err());
                            }
                        })
                    }
                    "permit" => {
                        let gate = Gate::new(Concurrency::new(10));
                        Box::new(move |calls| {
                            for _ in 0..calls {
                                let permit = gate.try_acquire(black_box(1));
                                black_box(&permit);
                            }
                        })
                    }
                    "fixed-window" => {
                        let gate = Gate::new(FixedWindow::new(Quota::per_second(4_000_000_000)));
                        Box::new(move |calls| {
                            for _ in 0..calls {
                                black_box(gate.try_acquire(black_box(1)).is_ok());
                            }
                        })
                    }
                    "sliding-window" => {
                        let quota = Quota::new(4_000_000_000, Duration::from_secs(10));
                        let gate = Gate::new(SlidingWindow::new(quota, 10));
                        Box::new(move |calls| {
                            for _ in 0..calls {
                                black_box(gate.try_acquire(black_box(1)).is_ok());
                            }
                        })
                    }
                    "keyed" => {
                        let keyed = keyed(TokenBucket::per_second(4_000_000_000));
                        let mut key = 0;
                        Box::new(move |calls| {
                            for _ in 0..calls {
                                key = (key + 7) % 1000;
                                black_box(keyed.try_acquire(&key, black_box(1)).is_ok());
                            }
                        })
                    }
                    "keyed-denied" => {
                        let keyed = keyed(empty());
                        let mut key = 0;
                        Box::new(move |calls| {
                            for _ in 0..calls {
                                key = (key + 7) % 1000;
                                black_box(keyed.try_acquire(&key, black_box(1)).err());
                            }
                        })
                    }
                    "new-key" => {
                        // Keys are full again and forgotten long before they come back.
                        let rule = TokenBucket::greedy(Quota::new(1, Duration::from_micros(1)));
                        let keyed = Keyed::<u64, _>::new(rule);
                        let mut key = 0;
                        Box::new(move |calls| {
                            for _ in 0..calls {
                                key += 1;
                                black_box(keyed.try_acquire(&key, black_box(1)).is_ok());
                            }
                        })
                    }
                    "dyn" => {
                        let gate: Arc<dyn Limiter> = Arc::new(Gate::new(TokenBucket::per_second(4_000_000_000)));
                        Box::new(move |calls| {
                            for _ in 0..calls {
                                black_box(gate.try_acquire(black_box(1).into()).is_ok());
                            }
                        })
                    }
                    "all" => {
                        let rate: Arc<dyn Limiter> = Arc::new(Gate::new(TokenBucket::per_second(4_000_000_000)));
                        let slots: Arc<dyn Limiter> = Arc::new(Gate::new(Concurrency::new(10)));
                        let all = All::new([rate, slots]);
                        Box::new(move |calls| {
                            for _ in 0..calls {
                                black_box(all.try_acquire(black_box(1)).is_ok());
                            }
                        })
                    }
                    "all-denied" => {
                        let slots: Arc<dyn Limiter> = Arc::new(Gate::new(Concurrency::new(10)));
                        let rate: Arc<dyn Limiter> = Arc::new(Gate::new(empty()));
                        let all = All::new([slots, rate]);
                        let _ = all.try_acquire(1);
                        Box::new(move |calls| {
                            for _ in 0..calls {
                                black_box(all.try_acquire(black_box(1)).err());
                            }
                        })
                    }
                    "batched" => {
                        let batched = Batched::new(Gate::new(TokenBucket::per_second(4_000_000_000)), 64);
                        Box::new(move |calls| {
                            for _ in 0..calls {
                                black_box(batched.try_acquire(black_box(1)).is_ok());
                            }
                        })
                    }
                    other => panic!("there is no case `{other}`"),
                }
            }
        }
    };
}

cases!(before);
cases!(now);

fn case(version: &str, name: &str) -> Case {
    match version {
        "before" => before::case(name),
        _ => now::case(name),
    }
}

#[inline(never)]
fn run(case: &mut dyn FnMut(u64)) {
    case(COUNTED);
}

/// Until a clock that is kept by a thread has surely started to tick, as otherwise it is read another way.
fn warm_up(case: &mut dyn FnMut(u64)) {
    case(1000);
    for _ in 0..100 {
        case(10);
        thread::sleep(Duration::from_micros(200));
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [version, name] => {
            let mut case = case(version, name);
            warm_up(&mut case);
            run(&mut case);
        }
        [_] => println!("{}", CASES.join(" ")),
        _ => {
            let mut clock = None;
            for name in CASES {
                let [before, now] = time(name);
                let more = now - before;
                let clock = *clock.get_or_insert(more);
                println!("| {name} | {before:.2} | {now:.2} | {more:+.2} | {:+.2} |", more - clock);
            }
        }
    }
}

/// The nanoseconds of a call of each version.
fn time(name: &str) -> [f64; 2] {
    let mut cases = VERSIONS.map(|version| case(version, name));
    let mut times = VERSIONS.map(|_| Vec::with_capacity(ROUNDS));
    for _ in 0..ROUNDS {
        for (case, times) in cases.iter_mut().zip(&mut times) {
            let start = Instant::now();
            black_box(case(CALLS));
            times.push(start.elapsed().as_nanos() as f64 / CALLS as f64);
        }
    }
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[ROUNDS / 10]
    })
}
