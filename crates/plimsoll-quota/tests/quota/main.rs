//! Limits that are divided: what each gets, and what all get.

mod division;
mod fairness;
mod fleet;
