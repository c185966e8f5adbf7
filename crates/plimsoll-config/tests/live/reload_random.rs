//! Random files one after the other, while limiters are used through handles that were looked up once: nothing is refilled,
//! no permit and no waiter is lost, no waiter is passed by one who came later and asks for the same, nobody who holds a limiter
//! finds it closed, and a file that is wrong changes nothing. Waiters wait for one limiter, for a key, for an `all`, for an
//! `all` of that, and for a list of a key and a limiter as a layer does.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use plimsoll::together::{self, Ask, Key};
use plimsoll::{Acquire, Denied, ManualClock, PerKey, Permit, Reason, Snapshot};
use plimsoll_config::{Config, Format, KeyedLimiter, Limits};
use plimsoll_kinds::AnyLimiter;
use proptest::prelude::*;

/// A limiter as the file describes it.
#[derive(Debug, Clone)]
struct Described {
    kind: Sort,
    limit: u64,
    keyed: bool,
    queue: Option<u64>,
    max_keys: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Sort {
    /// Which of the rates.
    Rate(usize),
    /// Which of the limits that are given back to.
    Slots(usize),
}

const RATES: usize = 9;

impl Described {
    fn text(&self) -> String {
        let limit = self.limit;
        let kind = match self.kind {
            Sort::Rate(0) => format!("kind: fixed_window, limit: {limit}, window: 10s"),
            Sort::Rate(1) => {
                format!("kind: sliding_window, limit: {limit}, window: 10s, segments: 4")
            }
            Sort::Rate(2) => format!("kind: sliding_log, limit: {limit}, window: 10s"),
            Sort::Rate(3) => format!("kind: sliding_counter, limit: {limit}, window: 10s"),
            Sort::Rate(4) => format!("kind: token_bucket, burst: {limit}, refill: 1, every: 1s"),
            Sort::Rate(5) => format!(
                "kind: token_bucket, burst: {limit}, refill: {limit}, every: 10s, style: interval"
            ),
            Sort::Rate(6) => format!(
                "kind: bandwidths, limits: [{{ id: x, burst: {limit}, refill: 1, every: 1s }}]"
            ),
            Sort::Rate(7) => format!("kind: refresh, limit: {limit}, period: 10s"),
            Sort::Rate(_) => format!("kind: penalty_bucket, burst: {limit}, refill: 1, every: 1s"),
            Sort::Slots(1) if !self.keyed => {
                format!(
                    "kind: adaptive, algorithm: aimd, min: {limit}, initial: {limit}, max: {limit}"
                )
            }
            Sort::Slots(2) if !self.keyed => {
                format!(
                    "kind: adaptive, algorithm: vegas, min: {limit}, initial: {limit}, max: {limit}"
                )
            }
            Sort::Slots(_) => format!("kind: concurrency, limit: {limit}"),
        };
        let queue = self
            .queue
            .map(|bound| format!(", queue: {{ bound: {bound} }}"));
        let keyed = self
            .keyed
            .then(|| format!(", keyed: true, max_keys: {}", self.max_keys));
        format!(
            "{{ {kind}{}{} }}",
            queue.unwrap_or_default(),
            keyed.unwrap_or_default()
        )
    }

    fn is_rate(&self) -> bool {
        matches!(self.kind, Sort::Rate(_))
    }
}

/// A file: two limiters, one with keys, and perhaps several as one.
#[derive(Debug, Clone)]
struct File {
    a: Described,
    b: Described,
    keys: Described,
    /// Which members `both` has.
    both: usize,
}

impl File {
    fn text(&self) -> String {
        let both = [
            "[a, b]",
            "[b, a]",
            "[a]",
            "[b, { kind: concurrency, limit: 3 }]",
        ][self.both];
        format!(
            "limiters:\n  a: {}\n  b: {}\n  keys: {}\n  both: {{ kind: all, of: {both} }}\n  outer: {{ kind: all, of: [both] }}\n",
            self.a.text(),
            self.b.text(),
            self.keys.text(),
        )
    }
}

impl File {
    /// The bounds of the queues that one who waits for several may come to.
    fn bounds(&self, who: Who) -> Vec<(&'static str, Option<u64>)> {
        if !matches!(who, Who::Both | Who::Outer | Who::List(_)) {
            return Vec::new();
        }
        let (a, b, keys) = (self.a.queue, self.b.queue, self.keys.queue);
        vec![("a", a), ("b", b), ("keys", keys), ("both.of[1]", None)]
    }
}

fn described(keyed: bool) -> impl Strategy<Value = Described> {
    let kind = prop_oneof![
        3 => (0..RATES).prop_map(Sort::Rate),
        2 => (0..3usize).prop_map(Sort::Slots),
    ];
    let queue = prop::option::weighted(0.7, 1u64..6);
    (kind, 1u64..8, queue, 5u64..9).prop_map(move |(kind, limit, queue, max_keys)| Described {
        kind,
        limit,
        keyed,
        queue,
        max_keys,
    })
}

/// A file in which `keys` has keys, mostly; `always` says so of the first, in which it is looked up.
fn file(always: bool) -> impl Strategy<Value = File> {
    (
        described(false),
        described(false),
        prop_oneof![4 => Just(true), 1 => Just(always)].prop_flat_map(described),
        0usize..4,
    )
        .prop_map(|(a, b, keys, both)| File { a, b, keys, both })
}

/// Who is asked.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Who {
    A,
    B,
    Key(u8),
    Both,
    Outer,
    /// This key and `a`.
    List(u8),
}

#[derive(Debug, Clone)]
enum Step {
    Try(Who, u64),
    Wait(Who, u64),
    Drop(prop::sample::Index),
    Leave(prop::sample::Index),
    Advance(u64),
    Reload(Box<File>),
    Bad,
}

fn step() -> impl Strategy<Value = Step> {
    let who = || {
        prop_oneof![
            3 => Just(Who::A),
            3 => Just(Who::B),
            3 => (0u8..3).prop_map(Who::Key),
            2 => Just(Who::Both),
            1 => Just(Who::Outer),
            2 => (0u8..3).prop_map(Who::List),
        ]
    };
    prop_oneof![
        6 => (who(), 1u64..3).prop_map(|(who, cost)| Step::Try(who, cost)),
        4 => (who(), 1u64..3).prop_map(|(who, cost)| Step::Wait(who, cost)),
        3 => any::<prop::sample::Index>().prop_map(Step::Drop),
        1 => any::<prop::sample::Index>().prop_map(Step::Leave),
        2 => (0u64..3000).prop_map(Step::Advance),
        4 => file(false).prop_map(|file| Step::Reload(Box::new(file))),
        1 => Just(Step::Bad),
    ]
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn config(text: &str) -> Config {
    Config::from_str("limits.yaml", text, Format::Yaml)
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// A permit that is out, and of what it counts a slot.
struct Out {
    who: Who,
    permit: Permit<'static>,
    slots: Vec<Who>,
    cost: u64,
}

struct World {
    time: ManualClock,
    limits: Limits,
    file: File,
    a: AnyLimiter,
    b: AnyLimiter,
    both: AnyLimiter,
    outer: AnyLimiter,
    keys: KeyedLimiter,
    out: Vec<Out>,
    waiting: Vec<Waiting>,
    reloads: usize,
    began: usize,
}

struct Waiting {
    who: Who,
    cost: u64,
    wait: Wait,
    /// How often the file had been read before, and how many had begun to wait.
    since: (usize, usize),
    /// Of one who waits for several, the bounds of the queues that it may come to, as they were then.
    bounds: Vec<(&'static str, Option<u64>)>,
}

enum Wait {
    One(Acquire<'static>),
    List(Box<together::Waiting>),
}

impl Wait {
    /// What each of those that are asked has granted.
    fn poll(&mut self, (keys, a): (&KeyedLimiter, &AnyLimiter), who: Who, cost: u64) -> Answer {
        match (self, who) {
            (Self::One(wait), _) => poll(wait).map_ok(|permit| vec![(who, permit)]),
            (Self::List(wait), Who::List(number)) => {
                let name = format!("k{number}");
                let key = Key::new(keys, name.as_str());
                let asks = [Ask::key(&key, cost), Ask::limiter(&**a.shared(), cost)];
                let answer = wait.poll(&asks, &mut Context::from_waker(Waker::noop()));
                let parts = [Who::Key(number), Who::A];
                answer.map_err(|refused| refused.denied).map_ok(|permits| {
                    let permits = permits.into_iter().map(|it| it.expect("one for each"));
                    parts.into_iter().zip(permits).collect()
                })
            }
            _ => unreachable!("only lists wait so"),
        }
    }
}

type Answer = Poll<Result<Vec<(Who, Permit<'static>)>, Denied>>;

impl World {
    fn new(file: File) -> Self {
        let time = ManualClock::new();
        let limits = config(&file.text()).build(&time.clock()).expect("builds");
        let one = |name| limits.limiter(name).expect("there");
        Self {
            a: one("a"),
            b: one("b"),
            both: one("both"),
            outer: one("outer"),
            keys: limits.keys("keys"),
            time,
            limits,
            file,
            out: Vec::new(),
            waiting: Vec::new(),
            reloads: 0,
            began: 0,
        }
    }

    fn limiter(&self, who: Who) -> Option<&AnyLimiter> {
        match who {
            Who::A => Some(&self.a),
            Who::B => Some(&self.b),
            Who::Both => Some(&self.both),
            Who::Outer => Some(&self.outer),
            Who::Key(_) | Who::List(_) => None,
        }
    }

    fn snapshot(&self, who: Who) -> Snapshot {
        match (self.limiter(who), who) {
            (Some(limiter), _) => limiter.snapshot(),
            (None, Who::Key(key)) => self
                .keys
                .snapshot_of(&format!("k{key}"))
                .unwrap_or_default(),
            _ => Snapshot::default(),
        }
    }

    /// How much waits at the limiter of this name, by which `who` was refused.
    fn queued(&self, who: Who, name: Option<&str>) -> u64 {
        let of = match (name, who) {
            (Some("a"), _) => Who::A,
            (Some("b"), _) => Who::B,
            (_, Who::List(key)) => Who::Key(key),
            _ => return 0,
        };
        self.snapshot(of).queued()
    }

    fn described(&self, who: Who) -> Option<&Described> {
        match who {
            Who::A => Some(&self.file.a),
            Who::B => Some(&self.file.b),
            Who::Key(_) => Some(&self.file.keys),
            Who::Both | Who::Outer | Who::List(_) => None,
        }
    }

    /// Of which limits that are given back to a permit counts.
    fn slots_of(&self, who: Who) -> Vec<Who> {
        let members = match who {
            Who::Both | Who::Outer => [
                &[Who::A, Who::B][..],
                &[Who::B, Who::A],
                &[Who::A],
                &[Who::B],
            ][self.file.both]
                .to_vec(),
            who => vec![who],
        };
        let is_slot = |who: &Who| self.described(*who).is_some_and(|it| !it.is_rate());
        members.into_iter().filter(is_slot).collect()
    }

    fn out_of(&self, who: Who) -> u64 {
        let out = self.out.iter().filter(|out| out.slots.contains(&who));
        out.map(|out| out.cost).sum()
    }

    fn hold(&mut self, who: Who, cost: u64, permit: Permit<'static>) -> Result<(), TestCaseError> {
        let slots = self.slots_of(who);
        self.out.push(Out {
            who,
            permit,
            slots: slots.clone(),
            cost,
        });
        for slot in slots {
            let limit = self.described(slot).map_or(0, |it| it.limit);
            let out = self.out_of(slot);
            prop_assert!(out <= limit, "{slot:?}: {out} out of {limit}");
        }
        Ok(())
    }

    fn not_closed(who: Who, denied: &Denied) -> Result<(), TestCaseError> {
        prop_assert!(denied.reason() != Reason::Closed, "{who:?}: {denied}");
        Ok(())
    }

    /// Reads the answers of those who wait. `moved` says that only the file has changed since they were asked last.
    fn answers(&mut self, moved: bool) -> Result<(), TestCaseError> {
        let asked = (self.keys.clone(), self.a.clone());
        let reloads = self.reloads;
        let mut served = Vec::new();
        loop {
            let mut answered = Vec::new();
            self.waiting.retain_mut(|it| {
                match it.wait.poll((&asked.0, &asked.1), it.who, it.cost) {
                    Poll::Pending => true,
                    Poll::Ready(answer) => {
                        let bounds = std::mem::take(&mut it.bounds);
                        answered.push((it.who, it.cost, it.since, answer, bounds));
                        false
                    }
                }
            });
            if answered.is_empty() {
                break;
            }
            for (who, cost, since, answer, bounds) in answered {
                match answer {
                    Ok(permits) => {
                        served.push((who, cost, since));
                        for (of, permit) in permits {
                            // It may have been granted by the members that there were before.
                            if matches!(who, Who::Both | Who::Outer) && since.0 < reloads {
                                self.out.push(Out {
                                    who,
                                    permit,
                                    slots: Vec::new(),
                                    cost,
                                });
                            } else {
                                self.hold(of, cost, permit)?;
                            }
                        }
                    }
                    Err(denied) => {
                        Self::not_closed(who, &denied)?;
                        // What is too large for the new limit could never be served.
                        let reason = denied.reason();
                        let bound = bounds.iter().find(|it| Some(it.0) == denied.limiter());
                        let queued = || self.queued(who, denied.limiter());
                        let fair = match bound {
                            _ if reason == Reason::TooLarge => true,
                            // It lets nobody wait, and did not when the wait began.
                            Some((_, None)) => true,
                            Some((_, Some(bound))) => {
                                reason == Reason::QueueFull && queued() + cost > *bound
                            }
                            None => false,
                        };
                        prop_assert!(!moved || fair, "{who:?} was lost: {denied}");
                    }
                }
            }
        }
        for (who, cost, since) in served {
            // One who waits for several waits for those that there were when it began.
            let several = matches!(who, Who::Both | Who::Outer);
            let mut before = self.waiting.iter();
            let passed = before.any(|it| {
                let same = it.who == who && !(several && it.since.0 < since.0);
                same && it.since < since && it.cost <= cost
            });
            prop_assert!(!passed, "{who:?}: one who came later was served before");
        }
        Ok(())
    }

    fn run(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Try(who, cost) => {
                let answer = match (self.limiter(who), who) {
                    (Some(limiter), _) => limiter.try_acquire(cost.into()).map(Permit::into_owned),
                    (None, Who::Key(key)) => {
                        let key = format!("k{key}");
                        self.keys.try_acquire(&key, cost).map(Permit::into_owned)
                    }
                    _ => return Ok(()),
                };
                match answer {
                    Ok(permit) => self.hold(who, cost, permit)?,
                    Err(denied) => Self::not_closed(who, &denied)?,
                }
            }
            Step::Wait(who, cost) => {
                let wait = match (self.limiter(who), who) {
                    (Some(limiter), _) => Ok(Wait::One(limiter.acquire_owned(cost.into()))),
                    (None, Who::Key(key)) => {
                        let key = format!("k{key}");
                        let wait = PerKey::acquire_owned(&self.keys, &key, cost.into());
                        Ok(Wait::One(wait))
                    }
                    (None, Who::List(number)) => {
                        let name = format!("k{number}");
                        let key = Key::new(&self.keys, name.as_str());
                        let asks = [Ask::key(&key, cost), Ask::limiter(&**self.a.shared(), cost)];
                        let started = together::Waiting::start(&asks);
                        started.map(|wait| Wait::List(Box::new(wait)))
                    }
                    _ => return Ok(()),
                };
                match wait {
                    Ok(wait) => self.waiting.push(Waiting {
                        who,
                        cost,
                        wait,
                        since: (self.reloads, self.began),
                        bounds: self.file.bounds(who),
                    }),
                    Err(refused) => Self::not_closed(who, &refused.denied)?,
                }
                self.began += 1;
                self.answers(false)?;
            }
            Step::Drop(at) if !self.out.is_empty() => {
                drop(self.out.swap_remove(at.index(self.out.len())).permit);
                self.answers(false)?;
            }
            Step::Leave(at) if !self.waiting.is_empty() => {
                drop(self.waiting.remove(at.index(self.waiting.len())));
                self.answers(false)?;
            }
            Step::Drop(_) | Step::Leave(_) => {}
            Step::Advance(millis) => {
                self.time.advance(Duration::from_millis(millis));
                self.answers(false)?;
            }
            Step::Bad => {
                let (before, seen) = (self.limits.current(), self.snapshot(Who::A));
                let bad = self.file.text().replacen("limit", "limti", 1) + "x: [";
                prop_assert!(Config::from_str("x", &bad, Format::Yaml).is_err());
                let none =
                    config("limiters: { m: { kind: memory, hard_limit: 1MiB, spike: 2MiB } }");
                prop_assert!(self.limits.replace(&none).is_err());
                prop_assert!(Arc::ptr_eq(&before, &self.limits.current()));
                prop_assert_eq!(seen, self.snapshot(Who::A));
                self.answers(true)?;
            }
            Step::Reload(file) => self.reload(*file)?,
        }
        Ok(())
    }

    fn reload(&mut self, file: File) -> Result<(), TestCaseError> {
        // What could be had at this moment goes to whoever waits.
        self.answers(false)?;
        // Of a permit for several nobody can tell whether a rate or a slot behind a name granted it. In the end all slots are
        // free again; until then one may be taken for the other.
        let other = |old: &Described, new: &Described| old.is_rate() != new.is_rate();
        let several = |out: &Out| matches!(out.who, Who::Both | Who::Outer);
        if other(&self.file.a, &file.a) || other(&self.file.b, &file.b) {
            while self.out.iter().any(several) {
                self.out.retain(|out| !several(out));
                self.answers(false)?;
            }
        }
        // What was granted to a key is not known of all keys together, nor the other way round.
        if self.file.keys.keyed != file.keys.keyed {
            let keys = |who: &Who| matches!(who, Who::Key(_));
            for out in &mut self.out {
                out.slots.retain(|who| !keys(who));
            }
        }
        let all = [Who::A, Who::B, Who::Key(0), Who::Key(1), Who::Key(2)];
        let before = all.map(|who| (self.snapshot(who), self.described(who).cloned()));
        let new = config(&file.text());
        self.limits.replace(&new).expect("builds");
        self.file = file;
        self.reloads += 1;
        for (who, (seen, old)) in all.into_iter().zip(before) {
            let (Some(old), Some(new)) = (old, self.described(who)) else {
                continue;
            };
            let now = self.snapshot(who);
            let limit = new.limit;
            // All keys together, and one of them, are two things.
            if old.keyed != new.keyed {
                continue;
            }
            // Those who wait may have been served by the larger limit: then more is used, not less.
            if old.is_rate() && new.is_rate() {
                let used = seen.in_use().min(limit);
                prop_assert!(
                    now.in_use() >= used,
                    "{who:?}: {used} were used, now {}\n{old:?}\n{new:?}",
                    now.in_use()
                );
            }
            if !old.is_rate() && !new.is_rate() {
                let out = self.out_of(who).min(limit);
                prop_assert!(
                    now.in_use() >= out,
                    "{who:?}: {out} are out, now {}\n{old:?}\n{new:?}",
                    now.in_use()
                );
            }
        }
        self.answers(true)
    }

    /// In the end everybody is served and everything comes back.
    fn end(&mut self) -> Result<(), TestCaseError> {
        let slots = Described {
            kind: Sort::Slots(0),
            limit: 1000,
            keyed: false,
            queue: Some(5),
            max_keys: 9,
        };
        let keys = Described {
            keyed: true,
            ..slots.clone()
        };
        self.reload(File {
            a: slots.clone(),
            b: slots,
            keys,
            both: 0,
        })?;
        for _ in 0..20 {
            self.out.clear();
            self.time.advance(Duration::from_secs(60));
            self.answers(false)?;
        }
        prop_assert!(self.waiting.is_empty(), "{} still wait", self.waiting.len());
        self.out.clear();
        for who in [Who::A, Who::B, Who::Key(0), Who::Key(1), Who::Key(2)] {
            prop_assert_eq!(self.snapshot(who).in_use(), 0, "{:?}", who);
        }
        Ok(())
    }
}

trait KeysByName {
    fn keys(&self, name: &str) -> KeyedLimiter;
}

impl KeysByName for Limits {
    fn keys(&self, name: &str) -> KeyedLimiter {
        self.keyed(name).expect("there")
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_reload_neither_refills_nor_loses_nor_closes_anything(
        first in file(true),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut world = World::new(first);
        for step in steps {
            world.run(step)?;
        }
        world.end()?;
    }
}
