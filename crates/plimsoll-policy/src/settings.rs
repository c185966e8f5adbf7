use std::time::Duration;

use plimsoll::{Clock, InvalidLimit, Metadata};

use crate::decision::LONGEST_MS;

/// The settings that all policies of one `Policies` share.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) clock: Clock,
    pub(crate) max_policies: usize,
    pub(crate) policy_idle: Duration,
    pub(crate) cleanup_interval: Duration,
    pub(crate) max_subjects: usize,
    pub(crate) subject_idle: Duration,
    pub(crate) max_soft_violations: u32,
    pub(crate) soft_window: Duration,
    pub(crate) lockout: Duration,
    pub(crate) initial_tokens: Option<u64>,
    pub(crate) ipv6_prefix: u8,
    /// The name and the metadata that refusals carry.
    pub(crate) about: Option<(String, Option<Metadata>)>,
    /// Whether grants and refusals are counted.
    pub(crate) totals: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            clock: Clock::system(),
            max_policies: 64,
            policy_idle: Duration::from_secs(1800),
            cleanup_interval: Duration::from_secs(60),
            max_subjects: 10_000,
            subject_idle: Duration::from_secs(300),
            max_soft_violations: 3,
            soft_window: Duration::from_secs(5),
            lockout: Duration::ZERO,
            initial_tokens: None,
            ipv6_prefix: 128,
            about: None,
            totals: false,
        }
    }
}

impl Settings {
    pub(crate) fn check(&self) -> Result<(), InvalidLimit> {
        let within = |field, value: u64, least: u64, most: u64, rule| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            Err(InvalidLimit::new(field, value, rule))
        };
        let not_zero = |field, value: Duration| {
            if value.is_zero() {
                return Err(InvalidLimit::new(field, "0s", "more than 0"));
            }
            Ok(())
        };
        let (max, prefix) = (self.max_policies as u64, self.ipv6_prefix.into());
        within("max_policies", max, 1, 64, "from 1 to 64")?;
        within("ipv6_prefix", prefix, 1, 128, "from 1 to 128")?;
        let initial = self.initial_tokens.unwrap_or(0);
        within("initial_tokens", initial, 0, 64, "at most 64")?;
        let at_least_one = [
            ("max_subjects", self.max_subjects as u64),
            ("max_soft_violations", self.max_soft_violations.into()),
        ];
        for (field, value) in at_least_one {
            within(field, value, 1, u64::MAX, "at least 1")?;
        }
        not_zero("policy_idle", self.policy_idle)?;
        not_zero("cleanup_interval", self.cleanup_interval)?;
        not_zero("subject_idle", self.subject_idle)?;
        not_zero("soft_window", self.soft_window)?;
        if self.lockout > Duration::from_millis(LONGEST_MS.into()) {
            let lockout = format!("{:?}", self.lockout);
            let rule = "at most 2147483647 ms";
            return Err(InvalidLimit::new("lockout", lockout, rule));
        }
        Ok(())
    }

    /// Checks that no setting is changed that does not apply to limits by key.
    pub(crate) fn check_by_key(&self) -> Result<(), InvalidLimit> {
        let usual = Self::default();
        let set = [
            ("max_policies", self.max_policies != usual.max_policies),
            ("policy_idle", self.policy_idle != usual.policy_idle),
            (
                "cleanup_interval",
                self.cleanup_interval != usual.cleanup_interval,
            ),
            ("ipv6_prefix", self.ipv6_prefix != usual.ipv6_prefix),
        ];
        match set.into_iter().find(|(_, is_set)| *is_set) {
            Some((field, _)) => Err(InvalidLimit::new(
                field,
                "set",
                "no such setting of limits by key",
            )),
            None => Ok(()),
        }
    }
}
