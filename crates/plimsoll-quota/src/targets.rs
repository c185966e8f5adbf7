//! The target of each member, independent of present shares.

use plimsoll::Moment;

use crate::max_min::max_min;
use crate::member::State;
use crate::share::NANO;

/// The target of one member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) id: u64,
    pub(crate) rate: u64,
    pub(crate) burst: u64,
}

/// The refill of a bucket in a rotation. It is nearly 0: tokens come from the ledger.
pub(crate) const ONE_A_DAY: u64 = NANO / 86_400;

/// Divides `rate` max-min fair by demand, and then the rest equally except for an eighth, so that an idle member is
/// above zero and a new one can start. Divides `burst` in proportion, at least 1 for each.
pub(crate) fn divide(members: &[(u64, &State)], rate: u64, burst: u64) -> Vec<Target> {
    let count = members.len() as u64;
    if count == 0 {
        return Vec::new();
    }
    let fair = rate / count;
    let wants: Vec<_> = members
        .iter()
        .map(|(_, state)| (state.want(fair), state.weight))
        .collect();
    let mut parts = max_min(&wants, rate);
    let left = rate - parts.iter().sum::<u64>();
    let all_wanted = parts.iter().zip(&wants).all(|(part, want)| *part == want.0);
    if all_wanted {
        let open: Vec<_> = wants.iter().map(|want| (u64::MAX, want.1)).collect();
        let more = max_min(&open, left - left / 8);
        for (part, more) in parts.iter_mut().zip(more) {
            *part += more;
        }
    }
    // Rounded cumulatively, so that no token is lost.
    let whole = u128::from(rate.max(1));
    let spare = u128::from(burst.saturating_sub(count));
    let (mut parts_so_far, mut spare_so_far) = (0_u128, 0_u128);
    let target = |(&(id, _), rate): (&(u64, &State), u64)| {
        parts_so_far += u128::from(rate);
        let upto = spare * parts_so_far / whole;
        let more = upto - std::mem::replace(&mut spare_so_far, upto);
        Target {
            id,
            rate,
            burst: 1 + u64::try_from(more).unwrap_or(u64::MAX - 1),
        }
    };
    members.iter().zip(parts).map(target).collect()
}

/// If the burst has fewer tokens than there are members, only some have a bucket, in rotation. Returns the members that should
/// have one, at most `places`.
pub(crate) fn rotate(
    members: &[(u64, &State)],
    places: usize,
    slow: bool,
    turn: u64,
    now: Moment,
) -> Vec<u64> {
    let (mut holders, mut waiting): (Vec<_>, Vec<_>) = members
        .iter()
        .partition(|(_, state)| !state.holding.share().is_none());
    // Members without a report and members with refusals come before idle ones, then the longest-waiting first.
    waiting.retain(|(_, state)| !state.holding.is_shrinking());
    waiting.sort_by_key(|(id, state)| (!state.active, state.turn, *id));
    let wanting = waiting.iter().filter(|(_, state)| state.active).count();
    let lent = members
        .iter()
        .filter(|(_, state)| state.holding.held().1 > 0)
        .count();
    let vacant = places.saturating_sub(lent);
    let is_over = |state: &State| {
        let spent = slow && state.spent > 0;
        spent || !state.active || now.nanos_since(state.turn) >= turn
    };
    // Idle members give up their bucket first, then those that have had it longest.
    holders.sort_by_key(|(id, state)| (state.active, state.turn, *id));
    let mut give_up = wanting.saturating_sub(vacant);
    holders.retain(|(_, state)| {
        // A slow bucket whose token is spent is useless.
        let useless = slow && state.spent > 0 && state.denied;
        let ends = useless || (give_up > 0 && is_over(state));
        give_up -= usize::from(ends && give_up > 0);
        !ends
    });
    let chosen = holders.into_iter().chain(waiting.into_iter().take(vacant));
    chosen.map(|(id, _)| id).take(places).collect()
}
