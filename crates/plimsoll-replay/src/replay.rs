//! Replays logs under the limits of a file.

use std::time::Duration;

use plimsoll::Demand;
use plimsoll_config::Config;
use plimsoll_engine::Limits;

use crate::done::Done;
use crate::error::LogError;
use crate::error::ReplayError;
use crate::flips::Flips;
use crate::logs::Logs;
use crate::report::{Report, Shown};
use crate::request::Replayed;
use crate::series::Series;
use crate::solo::{Solos, beside};
use crate::suggest::{Candidates, Search};
use crate::summary;
use crate::tally::{LimitTally, RouteTally, Tally, Waits};
use crate::wanted::Wanted;
use crate::world::{Brief, Role, World};

/// A replay of logs against the limits of a configuration, in virtual time.
///
/// Each request is decided by all limits of its route, as the HTTP layer would decide it. Permits are held for the duration in the log,
/// and charges that depend on the answer use the answer in the log.
///
/// ```no_run
/// use plimsoll_config::Config;
/// use plimsoll_replay::{Logs, Replay};
///
/// let config = Config::from_file("limits.yaml")?;
/// let report = Replay::new(config, Logs::of(["access.log"])).run()?;
/// println!("{} of {} would have been refused", report.refused, report.requests);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Replay {
    config: Config,
    logs: Logs,
    against: Option<Config>,
    suggest: Option<f64>,
    deadline: Option<Duration>,
    shown: Shown,
}

/// The progress of a replay, for [`Replay::run_watched`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Progress {
    /// The current pass over the logs, from 1. Suggestions need several passes, everything else one.
    pub pass: u32,
    /// The number of bytes read in this pass, to compare with [`Logs::size`].
    pub bytes: u64,
}

/// Receives the progress.
type Watch<'w> = &'w mut dyn FnMut(Progress);

impl Replay {
    /// A replay of `logs` against the limits of `config`. Limits in stores are replayed in memory.
    #[must_use]
    pub fn new(config: Config, logs: Logs) -> Self {
        Self {
            config,
            logs,
            against: None,
            suggest: None,
            deadline: None,
            shown: Shown {
                top: 5,
                reveal: false,
            },
        }
    }

    /// Also replays another configuration, and reports the requests that the two decide differently
    /// ([`Report::against`](crate::Report#structfield.against)).
    ///
    /// ```no_run
    /// use plimsoll_config::Config;
    /// use plimsoll_replay::{Logs, Replay};
    ///
    /// let (new, old) = (Config::from_file("new.yaml")?, Config::from_file("old.yaml")?);
    /// let report = Replay::new(new, Logs::of(["access.log"])).against(old).run()?;
    /// let newly_refused = report.against.map_or(0, |against| against.to_refused.requests);
    /// println!("{newly_refused} requests would be refused that are admitted today");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn against(mut self, config: Config) -> Self {
        self.against = Some(config);
        self
    }

    /// Searches, for each limit, the smallest number that refuses at most `share` of its requests, a fraction such as 0.001
    /// ([`Report::suggestions`](crate::Report#structfield.suggestions)). The logs are read several times, so none may be the standard
    /// input.
    #[must_use]
    pub const fn suggest(mut self, share: f64) -> Self {
        self.suggest = Some(share);
        self
    }

    /// Sets the longest wait of a request in queues. Default: the time-outs of the queues. A shorter time-out of a queue stays in
    /// force.
    #[must_use]
    pub const fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Sets the number of keys that are reported for each limit. Default: 5.
    #[must_use]
    pub const fn top(mut self, top: usize) -> Self {
        self.shown.top = top;
        self
    }

    /// Sets whether keys are reported unmasked. Default: false, since they may be secrets or addresses of people.
    #[must_use]
    pub const fn reveal_keys(mut self, reveal: bool) -> Self {
        self.shown.reveal = reveal;
        self
    }

    /// Runs the replay.
    ///
    /// # Errors
    ///
    /// Returns an error if a log cannot be read, all logs together have no requests, a limit cannot be built, or suggestions are
    /// wanted from the standard input.
    pub fn run(&self) -> Result<Report, ReplayError> {
        self.run_watched(&mut |_| {})
    }

    /// [`run`](Self::run) with progress: calls `watch` after every 16,384 requests.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`run`](Self::run).
    pub fn run_watched(&self, watch: Watch<'_>) -> Result<Report, ReplayError> {
        let is_input = |file: &std::path::PathBuf| file.as_os_str() == "-";
        if self.suggest.is_some() && self.logs.files().iter().any(is_input) {
            return Err(ReplayError::ReadOnce);
        }
        let config = self.config.in_memory().for_records();
        let old = self
            .against
            .as_ref()
            .map(|old| old.in_memory().for_records());
        let mut done = self.first_pass(&config, old.as_ref(), watch)?;
        let searches = match self.suggest {
            Some(share) => Some((share, self.search(&config, share, &mut done, watch)?)),
            None => None,
        };
        Ok(summary::report(
            self.shown,
            (&self.config, self.against.as_ref()),
            done,
            searches,
        ))
    }

    /// The logs, restricted to the header fields that these configurations use.
    fn logs(&self, config: &Config, old: Option<&Config>) -> Logs {
        let configs = std::iter::once(config).chain(old);
        let text: String = configs
            .map(|config| config.to_string().to_ascii_lowercase())
            .collect();
        self.logs.clone().wanted(Wanted::by(text.into()))
    }

    fn demand(&self) -> Demand {
        match self.deadline {
            Some(deadline) => Demand::ONE.within(deadline),
            None => Demand::ONE,
        }
    }

    /// Replays the logs once, and counts decisions.
    fn first_pass(
        &self,
        config: &Config,
        old: Option<&Config>,
        watch: Watch<'_>,
    ) -> Result<Done, ReplayError> {
        let mut requests = self.logs(config, old).open()?;
        let Some(first) = requests.next().map(|record| record.at) else {
            return Err(LogError::Empty {
                bad: requests.bad_lines(),
            }
            .into());
        };
        let mut world = World::new(first);
        let limits = world.limits(config)?;
        let old = old
            .map(|old| world.limits(old).map(|limits| (old, limits)))
            .transpose()?;
        let beside = beside(config, &limits);
        let alone = match beside.contains(&true) {
            true => Some(Solos::new(config, world.limits(config)?, &beside)),
            false => None,
        };
        let names = limits.names();
        let mut tally = Tally {
            admitted: 0,
            refused: 0,
            refused_again: 0,
            waits: Waits::default(),
            limits: names.iter().map(|_| LimitTally::default()).collect(),
            routes: config
                .route_specs()
                .iter()
                .map(|_| RouteTally::default())
                .collect(),
            series: Series::new(first),
            flips: old.is_some().then(Flips::default),
            peaks: self
                .suggest
                .map(|_| names.iter().map(|_| Default::default()).collect()),
            old_names: old
                .as_ref()
                .map_or_else(Vec::new, |(_, limits)| limits.names()),
            names,
        };
        let configs = std::iter::once(config).chain(old.as_ref().map(|(config, _)| *config));
        let mut replayed = Replayed::new(configs);
        let demand = self.demand();
        let (mut number, mut without_route, mut refused_then, mut bad_targets, mut last) =
            (0, 0, 0, 0, first);
        requests.each(&mut |bytes| watch(Progress { pass: 1, bytes }), |record| {
            if !replayed.set(record) {
                bad_targets += 1;
                return;
            }
            number += 1;
            last = record.at;
            world.pass_until(record.at, &mut tally);
            let brief = Brief::of(record, number);
            refused_then += u64::from(brief.was_refused());
            let head = replayed.head();
            // Whether the keys and costs of the decision are unknown.
            let mut unknown = false;
            match limits.decide_request(&head, demand) {
                Some(mut decide) => match decide.now() {
                    Some(decided) => {
                        if let Some(alone) = &alone {
                            unknown = !alone.ask(&decided, demand, |limit, permit| {
                                tally.alone(limit, permit.is_none());
                                if let Some(permit) = permit {
                                    world.hold(permit, &brief);
                                }
                            });
                        }
                        world.decided(decided, Role::New, &brief, record, &mut tally);
                    }
                    None => {
                        unknown = true;
                        let peeked = self.suggest.and_then(|_| limits.peek_request(&head));
                        let brief = tally.waits(peeked, brief);
                        world.wait(decide, Role::New, &brief, record, &mut tally);
                    }
                },
                None => {
                    without_route += 1;
                    tally.no_route(&brief, true);
                }
            }
            if let Some(alone) = alone.as_ref().filter(|it| it.are_left(unknown)) {
                alone.engine().decide_each(
                    &head,
                    demand,
                    |limit| alone.is_left(limit, unknown),
                    |limit, decide| {
                        world.follow(decide, Role::Alone(limit), &brief, record, &mut tally);
                    },
                );
            }
            if let Some((_, old)) = &old {
                match old.decide_request(&head, demand) {
                    Some(decide) => world.follow(decide, Role::Old, &brief, record, &mut tally),
                    None => tally.no_route(&brief, false),
                }
            }
        });
        world.finish(&mut tally);
        tally.series.finish();
        Ok(Done {
            tally,
            limits,
            beside,
            first,
            last,
            requests: number,
            without_route,
            refused_then,
            bad_targets,
            read: requests,
        })
    }

    /// Replays the logs until the numbers are found.
    fn search(
        &self,
        config: &Config,
        most: f64,
        done: &mut Done,
        watch: Watch<'_>,
    ) -> Result<Vec<Search>, ReplayError> {
        let asked: Vec<u64> = done.tally.limits.iter().map(|limit| limit.asked).collect();
        let peaks = done.tally.peaks.iter_mut().flatten();
        let peaks: Vec<u64> = peaks
            .map(|peaks| {
                peaks
                    .percentiles(&[100.0])
                    .iter()
                    .flatten()
                    .copied()
                    .max()
                    .unwrap_or(1)
            })
            .collect();
        let mut searches = Search::all(config, &asked, &peaks);
        let demand = self.demand();
        let mut pass = 1;
        loop {
            let mut world = World::new(done.first);
            let Some(mut candidates) = Candidates::of(&searches, config, &world)? else {
                return Ok(searches);
            };
            pass += 1;
            let mut requests = self.logs(config, None).open()?;
            let mut replayed = Replayed::new(std::iter::once(config));
            // The limits of candidates are cheap to share, and are updated while they decide.
            let tried: Vec<(usize, Limits, usize)> = candidates
                .each()
                .map(|(index, limits, limit)| (index, limits.clone(), limit))
                .collect();
            requests.next();
            requests.each(&mut |bytes| watch(Progress { pass, bytes }), |record| {
                if !replayed.set(record) {
                    return;
                }
                world.pass_until(record.at, &mut candidates);
                let brief = Brief::of(record, 0);
                let head = replayed.head();
                for (index, limits, limit) in &tried {
                    limits.decide_each(
                        &head,
                        demand,
                        |it| it == *limit,
                        |_, decide| {
                            world.follow(
                                decide,
                                Role::Candidate(*index),
                                &brief,
                                record,
                                &mut candidates,
                            );
                        },
                    );
                }
            });
            world.finish(&mut candidates);
            candidates.tell(&mut searches, most);
        }
    }
}
