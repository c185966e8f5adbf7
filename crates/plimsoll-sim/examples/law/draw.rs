//! Draws random simulations of each class.

use std::fmt::Write as _;

use crate::file::{File, REQUESTS, time};

/// The name of a class, and the function that draws a simulation of it.
pub(crate) type Class = (&'static str, fn(&mut Draw) -> String);

pub(crate) const CLASSES: [Class; 22] = [
    ("overload", overload),
    ("near_limit", near_limit),
    ("few_workers", few_workers),
    ("many_workers", many_workers),
    ("odd_service", odd_service),
    ("low_rate", low_rate),
    ("foreign_failures", foreign_failures),
    ("processes", processes),
    ("slow_dependency", slow_dependency),
    ("slower_pool", slower_pool),
    ("lost_workers", lost_workers),
    ("cold_start", cold_start),
    ("contention", contention),
    ("spikes", spikes),
    ("bursts", bursts),
    ("oscillation", oscillation),
    ("part_of_requests", part_of_requests),
    ("pauses", pauses),
    ("queue", queue),
    ("retries", retries),
    ("closed_loop", closed_loop),
    ("drift", drift),
];

/// A random number generator with the same results on every machine (`splitmix64`).
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(class: &str, number: u64) -> Self {
        let seed = class.bytes().fold(number, |seed, byte| {
            (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(seed)
    }

    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn within(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * self.unit()
    }

    /// Draws a number with a uniform logarithm: from 1 to 10 is as likely as from 10 to 100.
    fn scale(&mut self, least: f64, most: f64) -> f64 {
        self.within(least.ln(), most.ln()).exp()
    }

    fn whole(&mut self, least: f64, most: f64) -> f64 {
        self.scale(least, most).round()
    }

    fn chance(&mut self, share: f64) -> bool {
        self.unit() < share
    }

    /// Draws a distribution with this mean, in milliseconds.
    pub(crate) fn service(&mut self, mean: f64) -> String {
        match self.unit() {
            it if it < 0.5 => {
                let sigma = self.within(0.2, 0.9);
                format!(
                    "{{ lognormal: {{ mean: {}, sigma: {sigma:.2} }} }}",
                    time(mean)
                )
            }
            it if it < 0.75 => format!("{{ exponential: {{ mean: {} }} }}", time(mean)),
            _ => format!("{{ constant: {} }}", time(mean)),
        }
    }
}

/// Draws a medium server: the number of workers, and the mean of their work.
fn server(draw: &mut Draw) -> (f64, f64) {
    (draw.whole(5.0, 120.0), draw.scale(5.0, 200.0))
}

fn overload(draw: &mut Draw) -> String {
    let ((workers, mean), load) = (server(draw), draw.scale(0.5, 5.0));
    File::simple(draw, workers, mean, load).phases(&[0, 30, 100])
}

fn near_limit(draw: &mut Draw) -> String {
    let ((workers, mean), load) = (server(draw), draw.within(0.9, 1.1));
    File::simple(draw, workers, mean, load).phases(&[10, 100])
}

fn few_workers(draw: &mut Draw) -> String {
    let (workers, mean) = (draw.whole(1.0, 4.0), draw.scale(5.0, 200.0));
    let load = draw.scale(0.7, 4.0);
    File::simple(draw, workers, mean, load).phases(&[20, 100])
}

fn many_workers(draw: &mut Draw) -> String {
    let (workers, mean) = (draw.whole(300.0, 2500.0), draw.scale(50.0, 300.0));
    let load = draw.within(0.6, 1.6);
    File::simple(draw, workers, mean, load).phases(&[25, 100])
}

fn odd_service(draw: &mut Draw) -> String {
    let ((workers, mean), load) = (server(draw), draw.within(0.7, 1.6));
    let rate = load * workers * 1000.0 / mean;
    let service = match draw.unit() {
        it if it < 0.4 => {
            let (share, times) = (draw.within(0.02, 0.3), draw.scale(5.0, 20.0));
            let fast = mean / (1.0 - share + share * times);
            let slow = time(fast * times);
            format!(
                "{{ bimodal: {{ fast: {}, slow: {slow}, share: {share:.3} }} }}",
                time(fast)
            )
        }
        it if it < 0.7 => {
            let alpha = draw.within(1.5, 2.5);
            let least = time(mean * (alpha - 1.0) / alpha);
            format!("{{ pareto: {{ least: {least}, alpha: {alpha:.2} }} }}")
        }
        _ => {
            let sigma = draw.within(0.9, 1.5);
            format!(
                "{{ lognormal: {{ mean: {}, sigma: {sigma:.2} }} }}",
                time(mean)
            )
        }
    };
    File::new(draw, rate, 2.0 * mean, 30.0)
        .line(&format!(
            "rate: {rate:.2}\nworkers: {workers}\nservice: {service}"
        ))
        .phases(&[10, 100])
}

fn low_rate(draw: &mut Draw) -> String {
    let (workers, mean) = (draw.whole(1.0, 6.0), draw.scale(30.0, 200.0));
    let (few, load) = (draw.within(0.03, 0.2), draw.within(1.1, 2.5));
    let capacity = workers * 1000.0 / mean;
    let file = File::new(draw, capacity, mean, 120.0);
    let (service, half) = (draw.service(mean), file.seconds / 2);
    let rate = format!(
        "[{{ at: 0s, value: {:.3} }}, {{ at: {half}s, value: {:.3} }}]",
        few * capacity,
        load * capacity
    );
    file.line(&format!(
        "rate: {rate}\nworkers: {workers}\nservice: {service}"
    ))
    .phases(&[5, 50, 100])
}

fn foreign_failures(draw: &mut Draw) -> String {
    let ((workers, mean), load) = (server(draw), draw.within(0.4, 1.6));
    let share = draw.within(0.05, 0.25);
    let after = if draw.chance(0.6) {
        format!(", after: {}", time(mean * draw.scale(0.02, 0.5)))
    } else {
        String::new()
    };
    let file = File::simple(draw, workers, mean, load);
    let share = file.middle(0.0, share);
    file.line(&format!("failures: {{ share: {share}{after} }}"))
        .thirds()
}

fn processes(draw: &mut Draw) -> String {
    let (workers, mean) = (draw.whole(20.0, 80.0), draw.scale(20.0, 100.0));
    let (count, load) = (draw.whole(2.0, 8.0), draw.within(0.8, 2.0));
    let late = ["overload", "success"][usize::from(draw.chance(0.5))];
    File::simple(draw, workers, mean, load)
        .line(&format!("processes: {count}\nlate_outcome: {late}"))
        .phases(&[0, 30, 100])
}

fn slow_dependency(draw: &mut Draw) -> String {
    let (mean, slower) = (draw.scale(3.0, 60.0), draw.scale(3.0, 30.0));
    let inside = draw.scale(2.0, 60.0);
    let rate = inside * 1000.0 / mean;
    let file = File::new(draw, rate, (mean * slower) / 4.0, 45.0);
    let (service, slow) = (draw.service(mean), file.middle(1.0, slower));
    file.line(&format!(
        "rate: {rate:.2}\nworkers: 5000\nservice: {service}"
    ))
    .line(&format!("slow_down: {slow}"))
    .thirds()
}

fn slower_pool(draw: &mut Draw) -> String {
    let (workers, mean) = (draw.whole(4.0, 60.0), draw.scale(5.0, 60.0));
    let (load, slower) = (draw.scale(0.5, 3.0), draw.scale(1.5, 10.0));
    let file = File::simple(draw, workers, mean, load);
    let slow = file.middle(1.0, slower);
    file.line(&format!("slow_down: {slow}")).thirds()
}

fn lost_workers(draw: &mut Draw) -> String {
    let (workers, mean) = (draw.whole(10.0, 120.0), draw.scale(5.0, 100.0));
    let (load, left) = (draw.scale(0.5, 2.0), draw.within(0.15, 0.7));
    let rate = load * workers * 1000.0 / mean;
    let file = File::new(draw, rate, mean, 30.0);
    let service = draw.service(mean);
    let workers = file.middle(workers, (workers * left).ceil());
    file.line(&format!(
        "rate: {rate:.2}\nworkers: {workers}\nservice: {service}"
    ))
    .thirds()
}

fn cold_start(draw: &mut Draw) -> String {
    let ((workers, mean), load) = (server(draw), draw.within(0.8, 1.5));
    let (slower, warm) = (draw.within(2.0, 6.0), draw.within(0.2, 0.5));
    let file = File::simple(draw, workers, mean, load);
    let warm = (f64::from(file.seconds) * warm).round();
    file.line(&format!(
        "slow_down: {{ ramp: [{{ at: 0s, value: {slower:.2} }}, {{ at: {warm}s, value: 1 }}] }}"
    ))
    .phases(&[0, 40, 100])
}

fn contention(draw: &mut Draw) -> String {
    let ((workers, mean), load) = (server(draw), draw.within(0.8, 2.0));
    let factor = draw.scale(0.3, 2.0);
    File::simple(draw, workers, mean, load)
        .line(&format!("contention: {factor:.2}"))
        .phases(&[15, 100])
}

/// Draws repeated spikes: the period in milliseconds, the fraction of it with a spike, and the mean load as a multiple of the
/// capacity.
fn surges(draw: &mut Draw, every: f64, part: f64, load: f64) -> String {
    let (workers, mean) = (draw.whole(10.0, 100.0), draw.scale(5.0, 80.0));
    let capacity = workers * 1000.0 / mean;
    let quiet = load * draw.within(0.2, 0.6);
    let rate = (load - quiet * (1.0 - part)) / part * capacity;
    let file = File::new(draw, load * capacity, mean, 40.0);
    let service = draw.service(mean);
    file.line(&format!(
        "rate: {:.2}\nworkers: {workers}\nservice: {service}",
        quiet * capacity
    ))
    .line(&format!(
        "bursts: {{ every: {}, for: {}, rate: {rate:.2} }}",
        time(every),
        time(every * part)
    ))
    .phases(&[15, 100])
}

fn spikes(draw: &mut Draw) -> String {
    let (every, part) = (draw.within(500.0, 2000.0), draw.within(0.05, 0.2));
    let load = draw.within(0.4, 0.85);
    surges(draw, every, part, load)
}

fn bursts(draw: &mut Draw) -> String {
    let (every, part) = (draw.within(4000.0, 15_000.0), draw.within(0.05, 0.25));
    let load = draw.within(0.4, 1.0);
    surges(draw, every, part, load)
}

fn oscillation(draw: &mut Draw) -> String {
    let (workers, mean) = (draw.whole(10.0, 100.0), draw.scale(5.0, 80.0));
    let (every, left) = (draw.within(1.0, 5.0), draw.within(0.3, 0.7));
    let load = draw.within(0.6, 1.2);
    let rate = load * workers * 1000.0 / mean;
    let file = File::new(draw, rate, mean, 40.0);
    let service = draw.service(mean);
    let mut steps = String::new();
    let mut at = 0.0;
    for step in 0_u32.. {
        if at >= f64::from(file.seconds) {
            break;
        }
        let value = if step % 2 == 0 {
            workers
        } else {
            (workers * left).ceil()
        };
        let _ = write!(steps, "{{ at: {:.0}ms, value: {value} }}, ", at * 1000.0);
        at += every;
    }
    file.line(&format!(
        "rate: {rate:.2}\nworkers: [{steps}]\nservice: {service}"
    ))
    .phases(&[15, 100])
}

fn part_of_requests(draw: &mut Draw) -> String {
    let (pool, mean) = (draw.whole(4.0, 25.0), draw.scale(10.0, 100.0));
    let (share, load) = (draw.within(0.1, 0.6), draw.within(0.7, 2.0));
    let rate = load * pool * 1000.0 / mean / share;
    let app = draw.scale(5.0, 100.0);
    let workers = (rate * app / 1000.0 * draw.within(1.3, 4.0)).ceil();
    let file = File::new(draw, rate, mean + app, 40.0);
    let (first, second) = (draw.service(app), draw.service(mean));
    file.line(&format!("rate: {rate:.2}\nstations:"))
        .line(&format!(
            "  - {{ name: app, workers: {workers}, service: {first} }}"
        ))
        .line(&format!(
            "  - {{ name: pool, workers: {pool}, service: {second}, share: {share:.3} }}"
        ))
        .phases(&[15, 100])
}

fn pauses(draw: &mut Draw) -> String {
    let ((workers, mean), load) = (server(draw), draw.within(0.4, 1.2));
    let (every, length) = (draw.within(2000.0, 10_000.0), draw.scale(50.0, 400.0));
    File::simple(draw, workers, mean, load)
        .line(&format!(
            "pauses: {{ every: {}, for: {} }}",
            time(every),
            time(length)
        ))
        .phases(&[15, 100])
}

/// Draws the queue of `load_shedding()`, in front of a pool or a dependency that is slower for a while.
fn queue(draw: &mut Draw) -> String {
    let (slower, load) = (draw.scale(2.0, 10.0), draw.scale(0.3, 4.0));
    let (workers, mean) = (draw.whole(5.0, 60.0), draw.scale(10.0, 60.0));
    let rate = load * workers * 1000.0 / mean;
    let seconds = (REQUESTS / rate).clamp(30.0, 60.0).round();
    let many = if draw.chance(0.4) { 50.0 } else { 1.0 };
    let file = File::new(draw, REQUESTS / seconds, mean * slower / 4.0, 30.0);
    let (service, slow) = (draw.service(mean), file.middle(1.0, slower));
    let late = ["done", "dropped"][usize::from(draw.chance(0.6))];
    file.line(&format!(
        "rate: {rate:.2}\nworkers: {}\nservice: {service}",
        workers * many
    ))
    .line(&format!("slow_down: {slow}\nlate_work: {late}"))
    .line("limit: { algorithm: verdict, min: 5, initial: 5, max: 500 }")
    .line("queue: { bound: 20, timeout: 500ms }")
    .thirds()
}

fn retries(draw: &mut Draw) -> String {
    let ((workers, mean), load) = (server(draw), draw.within(0.5, 0.95));
    let capacity = workers * 1000.0 / mean;
    let file = File::new(draw, capacity, mean, 30.0);
    let rate = file.middle(load * capacity, load * capacity * draw.within(1.5, 4.0));
    let (times, delay) = (draw.whole(1.0, 4.0), draw.scale(20.0, 300.0));
    let service = draw.service(mean);
    file.line(&format!(
        "rate: {rate}\nworkers: {workers}\nservice: {service}"
    ))
    .line(&format!(
        "retries: {{ times: {times}, delay: {} }}",
        time(delay)
    ))
    .thirds()
}

fn closed_loop(draw: &mut Draw) -> String {
    let ((workers, mean), load) = (server(draw), draw.scale(0.5, 4.0));
    let think = mean * draw.scale(0.5, 10.0);
    let count = (load * workers * (1.0 + think / mean)).ceil();
    let file = File::new(draw, load * workers * 1000.0 / mean, mean, 30.0);
    let service = draw.service(mean);
    let think = time(think);
    file.line(&format!(
        "clients: {{ count: {count}, think: {{ exponential: {{ mean: {think} }} }} }}"
    ))
    .line(&format!("workers: {workers}\nservice: {service}"))
    .phases(&[0, 30, 100])
}

fn drift(draw: &mut Draw) -> String {
    let ((workers, mean), load) = (server(draw), draw.within(0.3, 1.2));
    let times = draw.within(1.3, 3.0);
    let file = File::simple(draw, workers, mean, load);
    let (from, to) = (file.seconds / 5, file.seconds * 4 / 5);
    file.line(&format!(
        "slow_down: {{ ramp: [{{ at: {from}s, value: 1 }}, {{ at: {to}s, value: {times:.2} }}] }}"
    ))
    .phases(&[5, 20, 80, 100])
}
