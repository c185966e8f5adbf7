//! One ask of one rate, for callers that want to know how its key stands and hold nothing.

use plimsoll::Standing;

use crate::ask::Ask;
use crate::limits::Limits;
use crate::pool;

impl Limits {
    /// Takes from one rate with keys if that is quickly done, and says how the key stands then. `None` decides nothing:
    /// [`decide`](Self::decide) does.
    #[doc(hidden)]
    #[must_use]
    pub fn take_now(&self, ask: Ask<'_>) -> Option<Standing> {
        let plan = self.plan();
        let limit = &plan.limits[plan.limit(ask.limit)?];
        if plan.audience.is_there() {
            return None;
        }
        let key = ask.key.unwrap_or_default();
        let standing = limit.take_now(key, ask.cost)?;
        if pool::sampled() {
            limit.seen.sample(key, ask.cost);
        }
        Some(standing)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use plimsoll::{Clock, Demand, ManualClock};
    use plimsoll_config::{Config, Format};

    use super::*;

    const FILE: &str = "limits:
  user: { kind: token_bucket, burst: 50, refill: 20, every: 1s, key: client }
  seen: { rate: 5/s, key: client, mode: shadow }
  tiered: { rate: 5/s, key: client, tiers: { by: header:x-plan, pro: { rate: 9/s } } }
  slots: { concurrency: 3, key: client }
  all: 100/s
";

    fn limits(clock: &Clock) -> Limits {
        let config = Config::from_str("limits.yaml", FILE, Format::Yaml);
        Limits::new(&config.expect("a file"), clock).expect("limits")
    }

    #[test]
    fn it_answers_what_a_decision_answers() {
        let time = ManualClock::new();
        let (one, two) = (limits(&time.clock()), limits(&time.clock()));
        let mut short = 0;
        for step in 0_u64..500 {
            // The first of each tick may sweep.
            if step % 10 == 0 {
                time.advance(Duration::from_millis(step * 37 % 300));
            }
            let key = format!("{}", step % 3);
            let ask = Ask::new("user").key(&key).cost(1 + step % 2);
            let decide = |limits: &Limits| {
                let decided = limits.decide(&[ask], Demand::ONE).now().expect("in memory");
                let standing = decided.map(|hold| hold.answers().next().and_then(|it| it.standing));
                standing.map_err(|refusal| refusal.retry_after())
            };
            let taken = one.take_now(ask);
            short += u32::from(taken.is_some());
            let taken = taken.map_or_else(|| decide(&one), |standing| Ok(Some(standing)));
            assert_eq!(taken, decide(&two), "{step}");
        }
        assert!(short > 100, "{short}");
        let top = one.top("user", 3, true).expect("a limit");
        assert_eq!(top.used.len(), 3, "some were noted");
    }

    #[test]
    fn what_needs_more_is_left_to_a_decision() {
        let time = ManualClock::new();
        let limits = limits(&time.clock());
        let asked = |limit: &str| {
            let ask = Ask::new(limit).key("anna");
            limits.charge(&[ask.cost(0)]);
            let _known = limits.try_decide(&[ask]);
            limits.take_now(ask).is_some()
        };
        let is = ["user", "seen", "tiered", "slots", "all", "none"].map(asked);
        assert_eq!(is, [true, false, false, false, false, false]);
        let _events = limits.subscribe(10);
        assert!(limits.take_now(Ask::new("user").key("anna")).is_none());
    }
}
