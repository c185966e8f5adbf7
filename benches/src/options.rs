use std::time::Duration;

pub(crate) const USAGE: &str = "\
usage: plimsoll-benches [--quick] [--rounds N] [--only CASE] [--markdown FILE]

  --quick          few short rounds, to see that everything works
  --rounds N       how often everybody runs in each case (15)
  --only CASE      only the cases whose name begins with CASE: granted, granted-two, denied,
                   denied-two, permit, permit-two, handoff, handoff-two, waiting, sizes
  --markdown FILE  write the results there, too";

/// What to run, and for how long.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) rounds: usize,
    /// How long a contender is asked in each round.
    pub(crate) span: Duration,
    /// How often each task has the permit in a hand-off.
    pub(crate) turns: u32,
    pub(crate) waiting_rounds: usize,
    pub(crate) waiting_span: Duration,
    pub(crate) only: Option<String>,
    pub(crate) markdown: Option<String>,
}

impl Options {
    pub(crate) fn parse(args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            rounds: 15,
            span: Duration::from_millis(30),
            turns: 600,
            waiting_rounds: 3,
            waiting_span: Duration::from_secs(2),
            only: None,
            markdown: None,
        };
        let mut args = args;
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                "--quick" => {
                    options.rounds = 3;
                    options.span = Duration::from_millis(5);
                    options.turns = 100;
                    options.waiting_rounds = 1;
                    options.waiting_span = Duration::from_millis(300);
                }
                "--rounds" => {
                    let rounds = value()?;
                    options.rounds = rounds
                        .parse()
                        .ok()
                        .filter(|rounds| *rounds > 0)
                        .ok_or(format!("--rounds is {rounds}, not a number of rounds"))?;
                    options.waiting_rounds = options.rounds.div_ceil(5);
                }
                "--only" => options.only = Some(value()?),
                "--markdown" => options.markdown = Some(value()?),
                _ => return Err(format!("unknown option {arg}")),
            }
        }
        Ok(options)
    }

    /// Whether a case is to be run.
    pub(crate) fn wants(&self, case: &str) -> bool {
        self.only
            .as_ref()
            .is_none_or(|only| case.starts_with(only.as_str()))
    }
}
