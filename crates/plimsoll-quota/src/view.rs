//! Views of a division and its members, for operators.

use plimsoll::Moment;

use crate::demand::Usage;
use crate::member::{Member, State};
use crate::share::Share;
use crate::timing::Timing;

/// The share and the demand of a member.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MemberView {
    /// The member.
    pub member: Member,
    /// The share that was last assigned to it; [`Share::NONE`] if it has expired.
    pub share: Share,
    /// The largest rate that may be in force at the member, which may not have received a smaller share yet: nanotokens per second.
    pub held_rate: u64,
    /// The largest burst that may be in force at the member.
    pub held_burst: u32,
    /// Its demand, in nanotokens per second. `None` before its first report.
    pub wants: Option<u64>,
    /// Whether its last report had refused requests.
    pub denied: bool,
    /// The moment at which its share expires, unless it is sent again.
    pub expires: Option<Moment>,
    /// Whether it has left.
    pub left: bool,
    /// The sum of its reports.
    pub total: Usage,
}

impl MemberView {
    pub(crate) fn of(member: Member, state: &State, timing: Timing) -> Self {
        let (held_rate, held_burst) = state.holding.held();
        Self {
            member,
            share: state.holding.share(),
            held_rate,
            held_burst,
            wants: state.demand.rate(),
            denied: state.denied,
            expires: state.holding.until(timing),
            left: state.left,
            total: state.total,
        }
    }
}

/// The state of a division, with all its members.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DivisionView {
    /// The rate that is divided, in nanotokens per second.
    pub rate: u64,
    /// The burst of all members together.
    pub burst: u64,
    /// The sum of the rates that may be in force at members. It exceeds `rate` only after the rate was lowered.
    pub held_rate: u64,
    /// The sum of the bursts that may be in force at members. With `tokens` it does not exceed `burst`.
    pub held_burst: u64,
    /// The whole tokens that are assigned to no member.
    pub tokens: u64,
    /// The moment until which no shares are pushed, after a restart.
    pub learning: Option<Moment>,
    /// All members, the oldest first.
    pub members: Vec<MemberView>,
}
