//! The clients of a closed loop.

use super::World;
use crate::closed_loop::Turn;
use crate::job::{Event, Request};

impl World<'_> {
    pub(super) fn send(&mut self, client: u32) {
        if let Some(closed_loop) = &mut self.closed_loop {
            let (turn, kind) = closed_loop.send(client, self.now);
            let gives_up = self.now.saturating_add(self.simulation.deadline);
            self.events.push(gives_up, Event::GiveUp(turn));
            self.arrive(self.now, kind, Some(turn));
        }
    }

    /// Ends the request of a client, which thinks and then sends the next one.
    pub(super) fn next_turn(&mut self, turn: Turn) {
        let thinks = self.closed_loop.as_mut().and_then(|them| them.ended(turn));
        if let Some(span) = thinks {
            let at = self.now.saturating_add(span);
            self.events.push(at, Event::Send(turn.client));
        }
    }

    /// Whether the client still waits for the answer. Always true in the open loop.
    pub(super) fn cares(&self, request: Request) -> bool {
        match (request.turn, &self.closed_loop) {
            (Some(turn), Some(closed_loop)) => closed_loop.cares(turn),
            _ => true,
        }
    }
}
