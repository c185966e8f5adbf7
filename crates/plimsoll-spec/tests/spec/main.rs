//! Limiters that are described by values: by name, and behind one type.

mod forwarding;
mod limits_by_name;
