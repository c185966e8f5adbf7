//! Calling a service over and over, and what a call costs.

use std::hint::black_box;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::unconstrained;
use tower::{Service, ServiceExt};

use crate::asking::{now, process_time};
use crate::contender::{Contender, Role};
use crate::counting::counted;
use crate::report::{Series, quantile};

/// How a service is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    pub(super) span: Duration,
}

/// What one call costs.
#[derive(Clone, Copy)]
pub(super) struct Cost {
    /// Of processor time, of all threads: nobody here waits for anything, and others may have the processor meanwhile.
    pub(super) nanos: f64,
    pub(super) allocations: f64,
}

/// A service that `make` makes, for requests that `request` makes. `fine` says whether a response is the one of
/// the service behind: a trial with any other does not count.
pub(super) fn served<S, Q>(
    role: Role,
    name: &'static str,
    make: impl Fn() -> S + 'static,
    request: impl Fn() -> Q + 'static,
    fine: impl Fn(&S::Response) -> bool + 'static,
) -> Contender<Served, Cost>
where
    S: Service<Q> + 'static,
{
    Contender::new(role, name, move |trial: Served| {
        let runtime = runtime();
        let _context = runtime.enter();
        let mut service = make();
        let mut call =
            |span| runtime.block_on(unconstrained(calls(span, &mut service, &request, &fine)));
        // Starts whatever clock is read, and warms the caches.
        call(Duration::from_millis(2));
        let (count, times) = counted(|| call(Duration::ZERO));
        let allocations = times as f64 / count.called as f64;
        let count = call(trial.span);
        if count.fine != count.called {
            let fine = format!("{} of {} answered", count.fine, count.called);
            assert!(role != Role::Ours, "{name}: {fine}");
            eprintln!("{name}: {fine}, a trial that does not count");
        }
        Cost {
            nanos: if count.fine == count.called {
                count.cpu.as_nanos() as f64 / count.called as f64
            } else {
                f64::NAN
            },
            allocations,
        }
    })
}

/// How often a service was called, and the processor time that took.
struct Count {
    called: u64,
    fine: u64,
    cpu: Duration,
}

/// Without the budget of tokio's tasks: some spend of it, and would have to begin anew after every 128 calls.
async fn calls<S, Q>(
    span: Duration,
    service: &mut S,
    request: &impl Fn() -> Q,
    fine: &impl Fn(&S::Response) -> bool,
) -> Count
where
    S: Service<Q>,
{
    const BATCH: u64 = 256;
    let (start, cpu) = (now(), process_time());
    let (mut called, mut answered) = (0, 0);
    loop {
        for _ in 0..BATCH {
            let request = black_box(request());
            let response = match black_box(&mut *service).ready().await {
                Ok(service) => service.call(request).await,
                Err(error) => Err(error),
            };
            answered += u64::from(black_box(&response).as_ref().is_ok_and(fine));
        }
        called += BATCH;
        if start.elapsed() >= span {
            return Count {
                called,
                fine: answered,
                cpu: process_time() - cpu,
            };
        }
    }
}

fn runtime() -> Runtime {
    let runtime = Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime")
}

/// What a layer adds to the service, round by round.
pub(super) fn added(this: &Series<Cost>, bare: &Series<Cost>) -> Series {
    let pairs = this.samples.iter().zip(&bare.samples);
    Series {
        role: this.role,
        name: this.name,
        samples: pairs.map(|(this, bare)| this.nanos - bare.nanos).collect(),
    }
}

/// How often a layer asks for memory in a call.
pub(super) fn allocations(this: &Series<Cost>, bare: &Series<Cost>) -> f64 {
    let median = |series: &Series<Cost>| {
        let each = series.each(|cost| cost.allocations);
        quantile(&each.samples, 0.5)
    };
    median(this) - median(bare)
}
