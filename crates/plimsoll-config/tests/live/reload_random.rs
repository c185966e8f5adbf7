//! Random files one after the other, while limiters are used through handles that were looked up once: nothing is refilled,
//! no permit and no waiter is lost, nobody who holds a limiter finds it closed, and a file that is wrong changes nothing.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use plimsoll::{Acquire, Denied, ManualClock, PerKey, Permit, Reason, Snapshot};
use plimsoll_config::{Config, Format, KeyedLimiter, Limits};
use plimsoll_kinds::AnyLimiter;
use proptest::prelude::*;

/// A limiter as the file describes it.
#[derive(Debug, Clone)]
struct Described {
    kind: Sort,
    limit: u32,
    keyed: bool,
    queue: Option<u32>,
    max_keys: u32,
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
            "limiters:\n  a: {}\n  b: {}\n  keys: {}\n  both: {{ kind: all, of: {both} }}\n",
            self.a.text(),
            self.b.text(),
            self.keys.text(),
        )
    }
}

fn described(keyed: bool) -> impl Strategy<Value = Described> {
    let kind = prop_oneof![
        3 => (0..RATES).prop_map(Sort::Rate),
        2 => (0..3usize).prop_map(Sort::Slots),
    ];
    let queue = prop::option::weighted(0.7, 1u32..6);
    (kind, 1u32..8, queue, 5u32..9).prop_map(move |(kind, limit, queue, max_keys)| Described {
        kind,
        limit,
        keyed,
        queue,
        max_keys,
    })
}

fn file() -> impl Strategy<Value = File> {
    (
        described(false),
        described(false),
        described(true),
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
}

#[derive(Debug, Clone)]
enum Step {
    Try(Who, u32),
    Wait(Who, u32),
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
        ]
    };
    prop_oneof![
        6 => (who(), 1u32..3).prop_map(|(who, cost)| Step::Try(who, cost)),
        4 => (who(), 1u32..3).prop_map(|(who, cost)| Step::Wait(who, cost)),
        3 => any::<prop::sample::Index>().prop_map(Step::Drop),
        1 => any::<prop::sample::Index>().prop_map(Step::Leave),
        2 => (0u64..3000).prop_map(Step::Advance),
        4 => file().prop_map(|file| Step::Reload(Box::new(file))),
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
    cost: u32,
}

struct World {
    time: ManualClock,
    limits: Limits,
    file: File,
    a: AnyLimiter,
    b: AnyLimiter,
    both: AnyLimiter,
    keys: KeyedLimiter,
    out: Vec<Out>,
    waiting: Vec<Waiting>,
    reloads: usize,
}

struct Waiting {
    who: Who,
    cost: u32,
    wait: Acquire<'static>,
    /// How often the file had been read before.
    since: usize,
}

impl World {
    fn new(file: File) -> Self {
        let time = ManualClock::new();
        let limits = config(&file.text()).build(&time.clock()).expect("builds");
        let one = |name| limits.limiter(name).expect("there");
        Self {
            a: one("a"),
            b: one("b"),
            both: one("both"),
            keys: limits.keys("keys"),
            time,
            limits,
            file,
            out: Vec::new(),
            waiting: Vec::new(),
            reloads: 0,
        }
    }

    fn limiter(&self, who: Who) -> Option<&AnyLimiter> {
        match who {
            Who::A => Some(&self.a),
            Who::B => Some(&self.b),
            Who::Both => Some(&self.both),
            Who::Key(_) => None,
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

    fn described(&self, who: Who) -> Option<&Described> {
        match who {
            Who::A => Some(&self.file.a),
            Who::B => Some(&self.file.b),
            Who::Key(_) => Some(&self.file.keys),
            Who::Both => None,
        }
    }

    /// Of which limits that are given back to a permit counts.
    fn slots_of(&self, who: Who) -> Vec<Who> {
        let members = match who {
            Who::Both => [
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
        out.map(|out| u64::from(out.cost)).sum()
    }

    fn hold(&mut self, who: Who, cost: u32, permit: Permit<'static>) -> Result<(), TestCaseError> {
        let slots = self.slots_of(who);
        self.out.push(Out {
            who,
            permit,
            slots: slots.clone(),
            cost,
        });
        for slot in slots {
            let limit = self.described(slot).map_or(0, |it| u64::from(it.limit));
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
        let mut answered = Vec::new();
        let reloads = self.reloads;
        self.waiting.retain_mut(|it| match poll(&mut it.wait) {
            Poll::Pending => true,
            Poll::Ready(answer) => {
                let of_old_list = it.who == Who::Both && it.since < reloads;
                answered.push((it.who, it.cost, of_old_list, answer));
                false
            }
        });
        for (who, cost, of_old_list, answer) in answered {
            match answer {
                // It may have been granted by the members that there were before.
                Ok(permit) if of_old_list => self.out.push(Out {
                    who,
                    permit,
                    slots: Vec::new(),
                    cost,
                }),
                Ok(permit) => self.hold(who, cost, permit)?,
                Err(denied) => {
                    Self::not_closed(who, &denied)?;
                    // What is too large for the new limit could never be served. Whoever waits for several may find that
                    // the one it comes to next lets nobody wait any more.
                    let moved = moved && who != Who::Both;
                    let reason = denied.reason();
                    prop_assert!(
                        !moved || reason == Reason::TooLarge,
                        "{who:?} was lost: {denied}"
                    );
                }
            }
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
                    (Some(limiter), _) => limiter.acquire_owned(cost.into()),
                    (None, Who::Key(key)) => {
                        PerKey::acquire_owned(&self.keys, &format!("k{key}"), cost.into())
                    }
                    _ => return Ok(()),
                };
                self.waiting.push(Waiting {
                    who,
                    cost,
                    wait,
                    since: self.reloads,
                });
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
        if other(&self.file.a, &file.a) || other(&self.file.b, &file.b) {
            while self.out.iter().any(|out| out.who == Who::Both) {
                self.out.retain(|out| out.who != Who::Both);
                self.answers(false)?;
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
            let limit = u64::from(new.limit);
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
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_reload_neither_refills_nor_loses_nor_closes_anything(
        first in file(),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut world = World::new(first);
        for step in steps {
            world.run(step)?;
        }
        world.end()?;
    }
}
