//! The result of a request, compared with the expected one.

use std::time::Duration;

use plimsoll::Denied;

use super::super::check::show;
use crate::report::Mismatch;
use crate::spec::{Admission, Answered, Hint};

/// The result of a request or an ask.
#[derive(Clone)]
pub(super) struct Seen {
    pub(super) result: Admission,
    by: Option<String>,
    reason: Option<&'static str>,
    retry_after: Option<Duration>,
    status: Option<u16>,
}

impl Seen {
    pub(super) const fn plain(result: Admission, status: Option<u16>) -> Self {
        Self {
            result,
            by: None,
            reason: None,
            retry_after: None,
            status,
        }
    }

    pub(super) fn refused(denied: &Denied, status: Option<u16>) -> Self {
        Self {
            result: Admission::Refused,
            by: denied.limiter().map(str::to_owned),
            reason: Some(denied.reason().as_str()),
            retry_after: denied.retry_after(),
            status,
        }
    }

    fn show(&self) -> String {
        let mut shown = self.result.word().to_owned();
        if let Some(by) = &self.by {
            shown += &format!(" by {by}");
        }
        let after = self
            .retry_after
            .map(|after| format!("retry_after {}", show(after)));
        let reason = self.reason.map(str::to_owned);
        let why: Vec<String> = reason.into_iter().chain(after).collect();
        match why.is_empty() {
            true => shown,
            false => format!("{shown} ({})", why.join(", ")),
        }
    }

    /// The differences to the expected result.
    pub(super) fn differs(&self, from: &Answered) -> Vec<Mismatch> {
        let mut found = Vec::new();
        let by = from.refused_by.as_ref().map(|(by, _)| by);
        let implied = by.is_some() || from.reason.is_some() || from.retry_after.is_some();
        let result = from.result.or(implied.then_some(Admission::Refused));
        if result.is_some_and(|it| it != self.result)
            || by.is_some_and(|by| self.by.as_ref() != Some(by))
        {
            let word = result.map_or("", Admission::word);
            let wanted = by.map_or_else(|| word.to_owned(), |by| format!("{word} by {by}"));
            return vec![Mismatch::new(wanted, self.show())];
        }
        if let Some(reason) = &from.reason
            && self.reason != Some(reason)
        {
            found.push(Mismatch::of(
                "reason",
                reason,
                self.reason.unwrap_or("none"),
            ));
        }
        let fits = |hint: Hint| match (hint, self.retry_after) {
            (Hint::None, got) => got.is_none(),
            (Hint::After(wanted), Some(got)) => got.abs_diff(wanted) <= from.within,
            (Hint::After(_), None) => false,
        };
        if let Some(hint) = from.retry_after.filter(|hint| !fits(*hint)) {
            let wanted = match hint {
                Hint::None => "none".to_owned(),
                Hint::After(after) => show(after),
            };
            let got = self.retry_after.map_or("none".to_owned(), show);
            found.push(Mismatch::of("retry_after", wanted, got));
        }
        if let Some(status) = from.status.filter(|it| self.status != Some(*it)) {
            let got = self.status.map_or("none".to_owned(), |it| it.to_string());
            found.push(Mismatch::of("status", status, got));
        }
        found
    }
}
