use std::time::Duration;

use crate::contender::Rounds;
use crate::keyed::{self, KEYED};
use crate::redis::{self, REDIS};
use crate::tower::{self, TOWER};

pub(crate) const USAGE: &str = "\
usage: plimsoll-benches [--quick] [--rounds N] [--only CASE]… [--who TEXT] [--markdown FILE]

  --quick          few short rounds, to see that everything works
  --rounds N       how often everybody runs in each case (31; half of it with keys and under load, a quarter
                   in Redis, a tenth for waiting)
  --only CASE      only this case, and others named so: granted, granted-two, denied, denied-two,
                   permit, permit-two, call, handoff, handoff-two, waiting, sizes, keyed-u64, keyed-strings,
                   keyed-zipf, keyed-denied, keyed-mixed, keyed-memory, keyed-stalls, keyed-returns, keyed-growth;
                   keyed for all of these; tower-rate, tower-concurrency, tower-adaptive, tower-http,
                   tower-fields, tower-wrk; tower for all of these; redis-1, redis-16, redis-64, redis-256,
                   redis-fairness; redis for all of these
  --who TEXT       only contenders with this in their name, for a profile
  --markdown FILE  write the results there, too";

/// What to run, and for how long.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) rounds: Rounds,
    /// How long a contender is asked in each round.
    pub(crate) span: Duration,
    /// How often each task has the permit in a hand-off.
    pub(crate) turns: u32,
    pub(crate) waiting_rounds: Rounds,
    pub(crate) waiting_span: Duration,
    pub(crate) keyed: keyed::Plan,
    pub(crate) tower: tower::Plan,
    pub(crate) redis: redis::Plan,
    pub(crate) only: Vec<String>,
    pub(crate) markdown: Option<String>,
}

impl Options {
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            rounds: Rounds::of(31),
            span: Duration::from_millis(20),
            turns: 600,
            waiting_rounds: Rounds::of(4),
            waiting_span: Duration::from_secs(2),
            keyed: keyed::Plan {
                keys: 1_000_000,
                rounds: Rounds::of(16),
                few_rounds: Rounds::of(4),
                span: Duration::from_millis(100),
                idle: Duration::from_secs(3),
            },
            tower: tower::Plan {
                rounds: Rounds::of(31),
                span: Duration::from_millis(20),
                wrk_rounds: Rounds::of(16),
                wrk_seconds: 1,
            },
            redis: redis::Plan {
                rounds: Rounds::of(8),
                span: Duration::from_millis(300),
            },
            only: Vec::new(),
            markdown: None,
        };
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                "--quick" => options.hurry(),
                "--rounds" => options.set_rounds(&value()?)?,
                "--only" => options.only.push(value()?),
                "--who" => options.rounds.who = value()?,
                "--markdown" => options.markdown = Some(value()?),
                _ => return Err(format!("unknown option {arg}")),
            }
        }
        for others in [
            &mut options.waiting_rounds,
            &mut options.keyed.rounds,
            &mut options.keyed.few_rounds,
            &mut options.tower.rounds,
            &mut options.tower.wrk_rounds,
            &mut options.redis.rounds,
        ] {
            others.who.clone_from(&options.rounds.who);
        }
        Ok(options)
    }

    fn hurry(&mut self) {
        self.rounds.count = 3;
        self.span = Duration::from_millis(5);
        self.turns = 100;
        self.waiting_rounds.count = 1;
        self.waiting_span = Duration::from_millis(300);
        self.keyed.keys = 100_000;
        self.keyed.rounds.count = 3;
        self.keyed.few_rounds.count = 1;
        self.keyed.span = Duration::from_millis(20);
        self.keyed.idle = Duration::from_millis(300);
        self.tower.rounds.count = 3;
        self.tower.span = Duration::from_millis(5);
        self.tower.wrk_rounds.count = 1;
        self.redis.rounds.count = 2;
        self.redis.span = Duration::from_millis(100);
    }

    fn set_rounds(&mut self, value: &str) -> Result<(), String> {
        match value.parse() {
            Ok(count) if count > 0 => {
                self.rounds.count = count;
                self.waiting_rounds.count = count.div_ceil(10);
                self.keyed.rounds.count = count.div_ceil(2);
                self.keyed.few_rounds.count = count.div_ceil(10);
                self.tower.rounds.count = count;
                self.tower.wrk_rounds.count = count.div_ceil(2);
                self.redis.rounds.count = count.div_ceil(4);
                Ok(())
            }
            _ => Err(format!("--rounds is {value}, not a number of rounds")),
        }
    }

    /// Whether a case is to be run.
    pub(crate) fn wants(&self, case: &str) -> bool {
        let whole = |only: &str| [KEYED, TOWER, REDIS].contains(&only) && case.starts_with(only);
        let named = |only: &String| only == case || whole(only);
        self.only.is_empty() || self.only.iter().any(named)
    }
}
