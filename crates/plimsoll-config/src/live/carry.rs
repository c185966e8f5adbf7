//! Carries usage over from one version of a limiter to the next.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex};

use plimsoll_kinds::LimiterKind as Class;

use plimsoll::LimiterExt;

use super::binding::Past;
use super::version::{Version, lock};

/// Charges `next` with the usage of the last retired version that was a rate.
pub(super) fn carry(retired: &[Past], next: &Version) {
    let is_rate =
        |it: &Version| it.class == Class::Rate && !it.one.is_remote() && !it.follows_names;
    let mut before = retired.iter().rev().map(|past| &past.version);
    let Some(from) = before.find(|it| is_rate(it)).filter(|_| is_rate(next)) else {
        return;
    };
    if next.keyed {
        from.keys.each_used(&mut |key, used| {
            let now = next.keys.snapshot_of(key).map_or(0, |seen| seen.in_use());
            next.keys.charge(key, used.saturating_sub(now));
        });
    } else {
        let seen = next.one.snapshot();
        let more = from
            .in_use()
            .min(seen.limit())
            .saturating_sub(seen.in_use());
        next.one.charge(more);
    }
}

/// The only copy of a name. It is never freed, because refusals hold `&'static str`.
pub(super) fn interned(name: &str) -> &'static str {
    static NAMES: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);
    let mut names = lock(&NAMES);
    if let Some(known) = names.get(name) {
        return known;
    }
    let name: &'static str = Box::leak(name.into());
    names.insert(name);
    name
}
