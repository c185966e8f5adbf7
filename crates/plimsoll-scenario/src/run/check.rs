//! Compares results with expectations.

use std::time::Duration;

use plimsoll::{Moment, Snapshot};

use super::held::{HeldPermit, Refusal};
use crate::report::Mismatch;
use crate::spec::{Expect, Gauge, Hint, Outcome, Settled};

/// The answer of a verb.
#[derive(Debug)]
pub(crate) enum Answer {
    Granted,
    /// A request that waits for an unknown time.
    Pending,
    Denied(Refusal),
    /// A reservation, to be used after this long.
    Reserved(Duration),
    Taken(u64),
}

impl Answer {
    fn result(&self) -> Option<Outcome> {
        match self {
            Self::Granted | Self::Reserved(_) => Some(Outcome::Granted),
            Self::Pending => Some(Outcome::Pending),
            Self::Denied(_) => Some(Outcome::Denied),
            Self::Taken(_) => None,
        }
    }

    fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Denied(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// The whole answer as text, for an answer whose result is not the expected one.
    fn show(&self) -> String {
        match self {
            Self::Granted => "granted".to_owned(),
            Self::Pending => "pending".to_owned(),
            Self::Reserved(wait) => format!("granted, wait {}", show(*wait)),
            Self::Taken(taken) => format!("taken {taken}"),
            Self::Denied(refusal) => match refusal.retry_after {
                Some(after) => format!("denied ({}, retry_after {})", refusal.reason, show(after)),
                None => format!("denied ({})", refusal.reason),
            },
        }
    }
}

/// The whole tokens left after the answer, in 16 bits. A key that is locked out also has them, although none is available.
pub(crate) fn credit(
    wanted: u64,
    answer: Option<&Answer>,
    snapshot: &Snapshot,
) -> Option<Mismatch> {
    let left = match answer {
        Some(Answer::Denied(refusal)) => refusal.remaining,
        _ => snapshot.available(),
    };
    let credit = left.min(u64::from(u16::MAX));
    (credit != wanted).then(|| Mismatch::of("credit", wanted, credit))
}

/// The differences between an answer and the expected one.
pub(crate) fn answer(expect: &Expect, answer: &Answer) -> Vec<Mismatch> {
    if let Some(result) = expect.result.or_else(|| implied(expect))
        && answer.result() != Some(result)
    {
        return vec![Mismatch::new(result.word(), answer.show())];
    }
    let mut found = Vec::new();
    let refusal = answer.refusal();
    if let Some(reason) = expect.reason {
        let got = refusal.map_or("none", |refusal| refusal.reason);
        differ(&mut found, reason == got, || {
            Mismatch::of("reason", reason, got)
        });
    }
    if let Some(hint) = expect.retry_after {
        let got = refusal.and_then(|refusal| refusal.retry_after);
        differ(&mut found, hint_fits(hint, got, expect), || {
            let got = got.map_or("none".to_owned(), show);
            Mismatch::of("retry_after", show_hint(hint, expect), got)
        });
    }
    if let Some(by) = &expect.refused_by {
        let got = refusal.and_then(|refusal| refusal.by.as_deref());
        differ(&mut found, got == Some(by), || {
            Mismatch::of("refused_by", by, got.unwrap_or("none"))
        });
    }
    if let Some(wait) = expect.wait {
        let (fits, got) = match answer {
            Answer::Reserved(got) => (got.abs_diff(wait) <= expect.within, show(*got)),
            other => (false, other.show()),
        };
        differ(&mut found, fits, || {
            Mismatch::of("wait", with_tolerance(wait, expect), got)
        });
    }
    if let Some(taken) = expect.taken
        && let Answer::Taken(got) = answer
    {
        differ(&mut found, *got == taken, || {
            Mismatch::of("taken", taken, got)
        });
    }
    found
}

/// The result that the other expectations imply.
fn implied(expect: &Expect) -> Option<Outcome> {
    let hint = matches!(expect.retry_after, Some(Hint::After(_)));
    let denied = hint || expect.reason.is_some() || expect.refused_by.is_some();
    denied.then_some(Outcome::Denied)
}

fn hint_fits(hint: Hint, got: Option<Duration>, expect: &Expect) -> bool {
    match (hint, got) {
        (Hint::None, got) => got.is_none(),
        (Hint::After(_), None) => false,
        (Hint::After(after), Some(got)) => {
            got.abs_diff(after) <= expect.within && !(expect.sufficient && got < after)
        }
    }
}

fn show_hint(hint: Hint, expect: &Expect) -> String {
    match hint {
        Hint::None => "none".to_owned(),
        Hint::After(after) if expect.sufficient => {
            format!(
                "{} to {}",
                show(after),
                show(after.saturating_add(expect.within))
            )
        }
        Hint::After(after) => with_tolerance(after, expect),
    }
}

fn with_tolerance(wanted: Duration, expect: &Expect) -> String {
    if expect.within.is_zero() {
        show(wanted)
    } else {
        format!("{} ± {}", show(wanted), show(expect.within))
    }
}

/// The difference between a named request and its expected state.
pub(crate) fn settled(
    name: &str,
    wanted: Settled,
    held: &mut HeldPermit<'_>,
    now: Moment,
) -> Option<Mismatch> {
    let got = held.outcome(now);
    let reason = match held {
        HeldPermit::Denied(refusal) => Some(refusal.reason),
        _ => None,
    };
    let fits = got == wanted.result && (wanted.reason.is_none() || wanted.reason == reason);
    let show = |outcome: Outcome, reason: Option<&str>| match reason {
        Some(reason) => format!("{} ({reason})", outcome.word()),
        None => outcome.word().to_owned(),
    };
    (!fits).then(|| Mismatch::named(name, show(wanted.result, wanted.reason), show(got, reason)))
}

/// The difference in a number of the snapshot.
pub(crate) fn gauge(gauge: Gauge, wanted: u64, snapshot: &Snapshot) -> Option<Mismatch> {
    let got = match gauge {
        Gauge::Available => snapshot.available(),
        Gauge::Queued => snapshot.queued(),
        Gauge::Waiters => snapshot.waiters(),
        Gauge::InUse => snapshot.in_use(),
        Gauge::Limit => snapshot.limit(),
        Gauge::GrantedTotal => snapshot.granted_total(),
        Gauge::DeniedTotal => snapshot.denied_total(),
        Gauge::EvictedTotal => snapshot.evicted_total(),
        Gauge::CancelledTotal => snapshot.cancelled_total(),
    };
    (got != wanted).then(|| Mismatch::of(gauge.word(), wanted, got))
}

/// The difference in the saturation. It is a quotient, so its last digits are not compared.
pub(crate) fn saturation(wanted: f64, snapshot: &Snapshot) -> Option<Mismatch> {
    let got = snapshot.saturation();
    ((got - wanted).abs() > 1e-9).then(|| Mismatch::of("saturation", wanted, got))
}

fn differ(found: &mut Vec<Mismatch>, fits: bool, mismatch: impl FnOnce() -> Mismatch) {
    if !fits {
        found.push(mismatch());
    }
}

/// Formats a duration as in a file.
pub(crate) fn show(duration: Duration) -> String {
    const UNITS: [(u128, &str); 5] = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "m"),
        (1000, "s"),
        (1, "ms"),
    ];
    let nanos = duration.as_nanos();
    if nanos == 0 {
        return "0s".to_owned();
    }
    let exact = |(unit, _): &&(u128, &str)| nanos.is_multiple_of(unit * 1_000_000);
    match UNITS.iter().find(exact) {
        Some((unit, name)) => format!("{}{name}", nanos / (unit * 1_000_000)),
        None => format!("{nanos} ns"),
    }
}
