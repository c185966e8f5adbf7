//! Random files one after the other, while limiters are used through handles that were looked up once: nothing is refilled,
//! no permit and no waiter is lost, no waiter is passed by one who came later and asks for the same, nobody who holds a limiter
//! finds it closed, and a file that is wrong changes nothing. Waiters wait for one limiter, for a key, for an `all`, for an
//! `all` of that, and for a list of a key and a limiter as a layer does.

mod described;
mod waiters;

use std::sync::Arc;
use std::time::Duration;

use plimsoll::together::{self, Ask, Key};
use plimsoll::{ManualClock, PerKey, Permit, Snapshot};
use plimsoll_config::{Config, Format, KeyedLimiter, Limits};
use plimsoll_kinds::AnyLimiter;
use proptest::prelude::*;

use self::described::{Described, File, Sort, file};
use self::waiters::{Wait, Waiting};
use crate::files::config;

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
            keys: limits.keyed("keys").expect("there"),
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
