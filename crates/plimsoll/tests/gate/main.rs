//! What one limiter does, whatever its rule. One program: each file in `tests/` would be linked by itself.

#[path = "../kinds/mod.rs"]
mod kinds;
#[path = "../poll/mod.rs"]
mod poll;
#[path = "../reference/mod.rs"]
mod reference;
#[path = "../rules/mod.rs"]
mod rules;
#[path = "../stepping/mod.rs"]
mod stepping;
#[path = "../subjects/mod.rs"]
mod subjects;
#[path = "../waiter/mod.rs"]
mod waiter;

mod after_the_fact;
mod against_reference;
mod auto_traits;
mod bad_options;
mod blocking;
mod changed_limits;
mod changes;
mod counted_refusals;
mod deadlines;
mod debt;
mod epochs;
mod events;
mod handed_on;
mod leaky_bucket_recipe;
mod linear_permits;
mod listening;
mod looking;
mod metadata;
mod never_too_much;
mod owned;
mod panicking_rules;
mod pausing;
mod penalties;
mod permit_ledger;
mod permit_table;
mod permits;
mod queues;
mod random_order;
mod refusals;
mod reservations;
mod resets;
#[cfg(feature = "serde")]
mod serialized;
mod settlement;
mod shrunk_limits;
mod standing;
mod totals;
mod undo;
mod undone_reservations;
mod verdict;
