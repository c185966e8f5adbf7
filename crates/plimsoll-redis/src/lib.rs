//! Limits shared by a fleet, in Redis.
