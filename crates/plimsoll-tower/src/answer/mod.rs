//! Answers: what a caller is told of its limits, and of a refusal.
