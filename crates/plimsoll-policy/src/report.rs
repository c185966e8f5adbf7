use std::fmt;

use plimsoll::Moment;

/// The active policies at one moment.
///
/// It is available as data by its methods, as a table by [`Display`](fmt::Display), as [pairs](Self::pairs) of names and values,
/// and through serde with the feature `serde`. At most 32 policies are listed; their [number](Self::active_policies) is exact.
///
/// ```
/// use plimsoll::ManualClock;
/// use plimsoll_policy::{OpCode, Policies, Policy};
///
/// let time = ManualClock::new();
/// let policies = Policies::builder()
///     .handler(OpCode(7), Policy::per_second(5.0).burst(2.5))
///     .clock(time.clock())
///     .build()?;
/// let _ = policies.evaluate(OpCode(7), std::net::Ipv4Addr::LOCALHOST);
///
/// let report = policies.report();
/// assert_eq!(report.rows()[0].rps(), 8);
/// assert_eq!(
///     report.to_string(),
///     "1970-01-01T00:00:00Z: 1 of 64 policies active, 1 evaluations\n\
///      \x20 rps  burst  subjects  last used\n\
///      \x20   8      4         1  1970-01-01T00:00:00Z\n"
/// );
/// # Ok::<(), plimsoll::InvalidLimit>(())
/// ```
///
/// Times are those of the clock of the policies. The text writes them as UTC, counted from 1970 as
/// [`Clock::system`](plimsoll::Clock::system) does, whatever the origin of the clock.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Report {
    pub(crate) time: Moment,
    pub(crate) active_policies: usize,
    pub(crate) max_policies: usize,
    pub(crate) evaluations: u64,
    pub(crate) rows: Vec<Row>,
}

/// One active policy of a [`Report`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Row {
    pub(crate) rps: u64,
    pub(crate) burst: u64,
    pub(crate) subjects: usize,
    pub(crate) last_used: Moment,
}

impl Report {
    /// The largest number of policies that are listed.
    pub const MAX_ROWS: usize = 32;

    /// Returns the moment of the report.
    #[must_use]
    pub fn time(&self) -> Moment {
        self.time
    }

    /// Returns the number of active policies.
    #[must_use]
    pub fn active_policies(&self) -> usize {
        self.active_policies
    }

    /// Returns the largest number of active policies.
    #[must_use]
    pub fn max_policies(&self) -> usize {
        self.max_policies
    }

    /// Returns the number of packets that were evaluated so far.
    #[must_use]
    pub fn evaluations(&self) -> u64 {
        self.evaluations
    }

    /// Returns the first 32 active policies, in descending order of rate, then of burst.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns the report as names and values, for logs and consoles that show those.
    ///
    /// ```
    /// use plimsoll::ManualClock;
    /// use plimsoll_policy::{OpCode, Policies, Policy};
    ///
    /// let policies = Policies::builder()
    ///     .handler(OpCode(7), Policy::per_second(5.0).burst(2.5))
    ///     .clock(ManualClock::new().clock())
    ///     .build()?;
    /// let _ = policies.evaluate(OpCode(7), std::net::Ipv4Addr::LOCALHOST);
    /// let pairs: Vec<String> =
    ///     policies.report().pairs().map(|(name, value)| format!("{name}={value}")).collect();
    /// assert_eq!(pairs, [
    ///     "UtcNow=1970-01-01T00:00:00Z",
    ///     "ActivePolicies=1",
    ///     "MaxPolicies=64",
    ///     "CheckCounter=1",
    ///     "Policies[0].RPS=8",
    ///     "Policies[0].Burst=4",
    ///     "Policies[0].Subjects=1",
    ///     "Policies[0].LastUsedUtc=1970-01-01T00:00:00Z",
    /// ]);
    /// # Ok::<(), plimsoll::InvalidLimit>(())
    /// ```
    pub fn pairs(&self) -> impl Iterator<Item = (String, String)> {
        let head = [
            ("UtcNow", Utc(self.time).to_string()),
            ("ActivePolicies", self.active_policies.to_string()),
            ("MaxPolicies", self.max_policies.to_string()),
            ("CheckCounter", self.evaluations.to_string()),
        ];
        let head = head.map(|(name, value)| (name.to_owned(), value));
        let rows = self.rows.iter().enumerate().flat_map(|(at, row)| {
            let fields = [
                ("RPS", row.rps.to_string()),
                ("Burst", row.burst.to_string()),
                ("Subjects", row.subjects.to_string()),
                ("LastUsedUtc", Utc(row.last_used).to_string()),
            ];
            fields.map(|(name, value)| (format!("Policies[{at}].{name}"), value))
        });
        head.into_iter().chain(rows)
    }
}

impl Row {
    /// Returns its rate, in requests per second.
    #[must_use]
    pub fn rps(&self) -> u64 {
        self.rps
    }

    /// Returns its burst.
    #[must_use]
    pub fn burst(&self) -> u64 {
        self.burst
    }

    /// Returns the number of subjects with a state.
    #[must_use]
    pub fn subjects(&self) -> usize {
        self.subjects
    }

    /// Returns the moment of its last use.
    #[must_use]
    pub fn last_used(&self) -> Moment {
        self.last_used
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} of {} policies active, {} evaluations",
            Utc(self.time),
            self.active_policies,
            self.max_policies,
            self.evaluations
        )?;
        if !self.rows.is_empty() {
            writeln!(f, "  rps  burst  subjects  last used")?;
        }
        for row in &self.rows {
            let (rps, burst, subjects) = (row.rps, row.burst, row.subjects);
            let last_used = Utc(row.last_used);
            writeln!(f, "{rps:5}  {burst:5}  {subjects:8}  {last_used}")?;
        }
        if let more @ 1.. = self.active_policies - self.rows.len() {
            writeln!(f, "  and {more} more")?;
        }
        Ok(())
    }
}

/// A moment as a date and a time, to the second.
struct Utc(Moment);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_nanos() / 1_000_000_000;
        let (year, month, day) = date(seconds / 86_400);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"
        )
    }
}

/// The date that is `days` after 1970-01-01.
fn date(mut days: u64) -> (u64, usize, u64) {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    loop {
        let length = 365 + u64::from(is_leap(year));
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while month < 11 && days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    (year, month + 1, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_dates() {
        let cases = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_704_067_199, "2023-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ];
        for (seconds, expected) in cases {
            let moment = Moment::from_nanos(seconds * 1_000_000_000);
            assert_eq!(Utc(moment).to_string(), expected);
        }
        assert_eq!(
            Utc(Moment::from_nanos(u64::MAX)).to_string(),
            "2554-07-21T23:34:33Z"
        );
    }
}
