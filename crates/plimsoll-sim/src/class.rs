use plimsoll::Priority;

/// The classes of traffic, most important first: their names in files, and their priorities at a gate.
pub(crate) const CLASSES: [(&str, Priority); 3] = [
    ("critical", Priority::Critical),
    ("normal", Priority::Normal),
    ("non-critical", Priority::NonCritical),
];

/// An index into [`CLASSES`].
pub(crate) type Class = usize;

/// The default class of traffic.
pub(crate) const NORMAL: Class = 1;
