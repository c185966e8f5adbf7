//! Runs a scenario against limits in Redis, in virtual time: every call carries the time.
//!
//! Redis supports limits without queues, and decides at once. A scenario that needs anything else is skipped. The answers must be
//! those
//! of the limiters in memory, to the nanosecond.

mod session;
mod subject;

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::time::Duration;

use plimsoll::{ManualClock, Moment};
use plimsoll_redis::{Store, StoreError};
use plimsoll_spec::InvalidSpec;
use tokio::runtime::{Builder, Runtime};

use self::session::Session;
use self::subject::Subject;
use crate::report::{Failure, ScenarioStatus};
use crate::spec::{Gate, Verb};

/// A Redis on which scenarios run, for [`run_file_on`](crate::run_file_on). It may hold other data: scenarios write under a prefix of
/// their own, and remove their keys at their end.
#[derive(Debug)]
pub struct Place {
    url: String,
    runtime: Runtime,
}

/// The deadline of a decision. A test can wait longer than a request.
const DEADLINE: Duration = Duration::from_secs(10);

impl Place {
    /// Connects to the Redis at `url`, such as `redis://127.0.0.1:6379`.
    ///
    /// # Errors
    ///
    /// Returns an error if no Redis answers there within 10 seconds, or the address is invalid.
    pub fn connect(url: &str) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let answer = runtime.block_on(async {
            let store = Store::builder(url).deadline(DEADLINE).open()?;
            store.ping().await
        });
        answer.map_err(|error| io::Error::other(with_source(&error)))?;
        Ok(Self {
            url: url.to_owned(),
            runtime,
        })
    }

    /// A store for one scenario, with a unique namespace.
    fn store(&self, clock: &ManualClock) -> Result<Store, StoreError> {
        let random = RandomState::new().hash_one(&self.url);
        Store::builder(&self.url)
            .namespace(format!("plimsoll-test-{random:016x}"))
            .deadline(DEADLINE)
            .clock(clock.clock())
            .open()
    }
}

/// An error and its source, on one line.
fn with_source(error: &StoreError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// The reason why a limiter was not built in Redis.
pub(crate) enum Unbuilt {
    /// Redis does not support the limiter. The word names it in the counts.
    NotHeld(&'static str),
    /// The limiter refuses its numbers.
    Invalid(InvalidSpec),
}

/// Runs one scenario.
pub(crate) fn run(gate: &Gate, place: &Place) -> Result<ScenarioStatus, Unbuilt> {
    let clock = ManualClock::starting_at(Moment::from_nanos(gate.start));
    let store = place
        .store(&clock)
        .map_err(|_| Unbuilt::NotHeld("such an address"))?;
    let subject = Subject::build(&gate.limiter.spec, &store)?;
    let mut verbs = gate.steps.iter().filter_map(|step| step.verb.as_ref());
    if let Some(word) = verbs.find_map(|verb| not_held(verb, subject.books())) {
        return Err(Unbuilt::NotHeld(word));
    }
    if gate.steps.iter().any(|step| step.events.is_some()) {
        return Err(Unbuilt::NotHeld("events"));
    }
    Ok(place.runtime.block_on(async {
        let mut session = Session::new(subject, &clock);
        let verdict = steps(gate, &mut session).await;
        session.end().await;
        verdict
    }))
}

async fn steps(gate: &Gate, session: &mut Session<'_>) -> ScenarioStatus {
    for (index, step) in gate.steps.iter().enumerate() {
        let mismatches = match session.step(step).await {
            Ok(mismatches) => mismatches,
            Err(mismatch) => vec![mismatch],
        };
        if !mismatches.is_empty() {
            return ScenarioStatus::Failed(Failure::new(index + 1, step.place.line, mismatches));
        }
    }
    ScenarioStatus::Passed
}

/// The word of a verb that Redis does not support: it needs a queue, a list of reservations, or a limiter that changes.
fn not_held(verb: &Verb, books: bool) -> Option<&'static str> {
    match verb {
        Verb::Reserve(_) if books => None,
        Verb::Try(_)
        | Verb::Acquire(_)
        | Verb::Estimate(_)
        | Verb::TakeUpTo(_)
        | Verb::Release(_)
        | Verb::ForgetPermit(_)
        | Verb::Add(_)
        | Verb::Reset
        | Verb::Forget(_) => None,
        Verb::Reserve(_) => Some("reserve"),
        Verb::Split { .. } => Some("split"),
        Verb::Merge { .. } => Some("merge"),
        Verb::Cancel(_) => Some("cancel"),
        Verb::SetRate(_) => Some("set_rate"),
        Verb::Resize(_) => Some("resize"),
        Verb::SetQueueBound(_) => Some("set_queue_bound"),
        Verb::Replace { .. } => Some("replace"),
        Verb::Sample(_) => Some("sample"),
        Verb::Close => Some("close"),
    }
}
