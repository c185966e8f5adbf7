use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::Members;
use crate::reservation::Pending;
use crate::{Demand, Denied, Permit, together};

/// The reservations of all members as one.
pub(super) struct Reserved<'a> {
    pub(super) members: &'a Members,
    pub(super) demand: Demand,
    pub(super) reserved: together::Reserved<'a>,
}

impl<'a> Future for Reserved<'a> {
    type Output = Result<Permit<'a>, Denied>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (members, demand) = (self.members, self.demand);
        Pin::new(&mut self.reserved).poll(cx).map_ok(|permits| {
            // Each was granted at a moment of its own, so the permits themselves are held.
            let now = Some(members.clock().now());
            members.group.several().for_each(|it| it.count_granted());
            members.gathered(permits, demand, now)
        })
    }
}

impl<'a> Pending<'a> for Reserved<'a> {
    fn undo(self: Box<Self>) {
        self.reserved.undo();
    }
}
