use rand_pcg::Pcg64Mcg;

use crate::Simulation;
use crate::chance::{Chance, generator};
use crate::num::{index, whole};
use crate::simulation::Clients;
use crate::traffic::{Kinds, RequestKind};

/// Clients that send a request, wait for the answer, think, and send the next request. The slower the answers, the fewer requests
/// they send.
pub(crate) struct ClosedLoop<'s> {
    model: Clients,
    rng: Pcg64Mcg,
    kinds: Kinds<'s>,
    /// The number of finished requests of each client.
    turns: Vec<u32>,
}

/// One request of one client. The client ignores the outcome of a request that it has given up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) client: u32,
    number: u32,
}

impl<'s> ClosedLoop<'s> {
    pub(crate) fn new(simulation: &'s Simulation, seed: u64) -> Option<Self> {
        let model = simulation.traffic.clients?;
        Some(Self {
            model,
            rng: generator(seed, Chance::Thinking),
            // A generator apart from that of the open loop, whose kinds must not depend on the clients.
            kinds: Kinds::new(simulation, !seed),
            turns: vec![0; index(u64::from(model.count))],
        })
    }

    /// The time of the first request of each client.
    pub(crate) fn first(&mut self) -> Vec<(u32, u64)> {
        (0..self.model.count)
            .map(|client| (client, self.think()))
            .collect()
    }

    pub(crate) fn send(&mut self, client: u32, now: u64) -> (Turn, RequestKind) {
        let turn = Turn {
            client,
            number: self.turns[index(u64::from(client))],
        };
        (turn, self.kinds.draw(now))
    }

    /// Whether the client still waits for this request.
    pub(crate) fn cares(&self, turn: Turn) -> bool {
        self.turns[index(u64::from(turn.client))] == turn.number
    }

    /// Ends a request, and returns the think time of its client. `None` if the client has ended this request before.
    pub(crate) fn ended(&mut self, turn: Turn) -> Option<u64> {
        if !self.cares(turn) {
            return None;
        }
        self.turns[index(u64::from(turn.client))] += 1;
        Some(self.think())
    }

    fn think(&mut self) -> u64 {
        whole(self.model.think.draw(&mut self.rng))
    }
}
