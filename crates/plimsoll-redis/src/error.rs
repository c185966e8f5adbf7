use std::error::Error;
use std::fmt;

use redis::{ErrorKind, RedisError, ServerErrorKind};

/// The store could not decide. It is not a refusal: nobody knows whether the caller is over its limit.
///
/// ```
/// use plimsoll_redis::{Store, StoreErrorKind};
///
/// let error = Store::connect("postgres://localhost").unwrap_err();
/// assert_eq!(error.kind(), StoreErrorKind::BadAddress);
/// ```
#[derive(Clone, Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    source: Option<RedisError>,
    detail: Option<String>,
}

/// What kept the store from deciding.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The address cannot be understood, or needs a feature that is not compiled in.
    BadAddress,
    /// No server answers, the connection broke, or the server is not ready. If the connection broke
    /// in the middle, the decision may have been made.
    Unreachable,
    /// No answer within the deadline. The decision may have been made.
    TimedOut,
    /// Nothing was sent: the store did not answer lately, and is tried again only now and then. See
    /// [`Circuit`](crate::Circuit).
    NotAsked,
    /// Something else is kept at the key.
    WrongType,
    /// The script was killed. Nothing was taken.
    ScriptKilled,
    /// The server is busy with a script that does not end.
    Busy,
    /// The server has no memory left for it.
    OutOfMemory,
    /// The server is a replica, or may not write now.
    ReadOnly,
    /// The server asks for credentials, or they do not permit this.
    NotPermitted,
    /// The keys of one decision lie on several nodes of a cluster.
    CrossSlot,
    /// The keys are being moved to another node of the cluster.
    Moving,
    /// A store cannot do this for such a rule.
    Unsupported,
    /// The answer cannot be understood.
    BadReply,
    /// The server refused for a reason that has no kind of its own: see the source.
    Server,
}

impl StoreErrorKind {
    /// All of them, for those who count by cause.
    pub const ALL: [Self; 15] = [
        Self::BadAddress,
        Self::Unreachable,
        Self::TimedOut,
        Self::NotAsked,
        Self::WrongType,
        Self::ScriptKilled,
        Self::Busy,
        Self::OutOfMemory,
        Self::ReadOnly,
        Self::NotPermitted,
        Self::CrossSlot,
        Self::Moving,
        Self::Unsupported,
        Self::BadReply,
        Self::Server,
    ];

    /// Its place among all.
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// The word for it in logs and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BadAddress => "bad_address",
            Self::Unreachable => "unreachable",
            Self::TimedOut => "timed_out",
            Self::NotAsked => "not_asked",
            Self::WrongType => "wrong_type",
            Self::ScriptKilled => "script_killed",
            Self::Busy => "busy",
            Self::OutOfMemory => "out_of_memory",
            Self::ReadOnly => "read_only",
            Self::NotPermitted => "not_permitted",
            Self::CrossSlot => "cross_slot",
            Self::Moving => "moving",
            Self::Unsupported => "unsupported",
            Self::BadReply => "bad_reply",
            Self::Server => "server",
        }
    }

    /// A phrase for people.
    #[must_use]
    pub const fn phrase(self) -> &'static str {
        match self {
            Self::BadAddress => "the address of the store cannot be used",
            Self::Unreachable => "the store cannot be reached",
            Self::TimedOut => "the store did not answer in time",
            Self::NotAsked => "the store is not asked: it did not answer lately",
            Self::WrongType => "something else is kept at the key",
            Self::ScriptKilled => "the script was killed",
            Self::Busy => "the store is busy with another script",
            Self::OutOfMemory => "the store is out of memory",
            Self::ReadOnly => "the store is read-only",
            Self::NotPermitted => "the store does not permit this",
            Self::CrossSlot => "the keys lie on different nodes",
            Self::Moving => "the keys are being moved to another node",
            Self::Unsupported => "a store cannot do this for such a limit",
            Self::BadReply => "the answer of the store cannot be understood",
            Self::Server => "the store refused",
        }
    }
}

impl StoreError {
    pub(crate) fn new(kind: StoreErrorKind) -> Self {
        Self {
            kind,
            source: None,
            detail: None,
        }
    }

    pub(crate) fn bad_address(source: RedisError) -> Self {
        Self {
            source: Some(source),
            ..Self::new(StoreErrorKind::BadAddress)
        }
    }

    pub(crate) fn bad_reply(reply: &redis::Value) -> Self {
        Self {
            detail: Some(format!("{reply:?}")),
            ..Self::new(StoreErrorKind::BadReply)
        }
    }

    /// What is kept at one key of several is in the way; in the words of the server.
    pub(crate) fn of_key(said: &str) -> Self {
        let kind = ErrorKind::Server(ServerErrorKind::ResponseError);
        RedisError::from((kind, "what is kept at the key", said.to_owned())).into()
    }

    pub(crate) fn redis(&self) -> Option<&RedisError> {
        self.source.as_ref()
    }

    /// What the server or the network said, at most so many bytes of it.
    pub(crate) fn cause(&self, most: usize) -> String {
        let mut cause = match (&self.source, &self.detail) {
            (Some(source), _) => source.to_string(),
            (None, Some(detail)) => detail.clone(),
            (None, None) => self.kind.phrase().to_owned(),
        };
        while cause.len() > most || !cause.is_char_boundary(cause.len()) {
            cause.pop();
        }
        cause
    }

    /// Whether the connection leads to a server that is not the primary any more.
    pub(crate) fn is_replica(&self) -> bool {
        let said = |error: &RedisError| {
            error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
                || error.code() == Some("READONLY")
                || error.detail().is_some_and(|it| it.contains("READONLY"))
        };
        self.kind == StoreErrorKind::ReadOnly && self.source.as_ref().is_some_and(said)
    }

    /// Whether the store did not answer at all.
    pub(crate) fn is_silence(&self) -> bool {
        matches!(
            self.kind,
            StoreErrorKind::Unreachable | StoreErrorKind::TimedOut
        )
    }

    /// What kept the store from deciding.
    #[must_use]
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }
}

impl From<RedisError> for StoreError {
    fn from(error: RedisError) -> Self {
        Self {
            kind: kind_of(&error),
            source: Some(error),
            detail: None,
        }
    }
}

fn kind_of(error: &RedisError) -> StoreErrorKind {
    use StoreErrorKind as Kind;

    match error.kind() {
        ErrorKind::Io if error.is_timeout() => Kind::TimedOut,
        ErrorKind::Io | ErrorKind::ClusterConnectionNotFound => Kind::Unreachable,
        ErrorKind::AuthenticationFailed => Kind::NotPermitted,
        ErrorKind::InvalidClientConfig => Kind::BadAddress,
        ErrorKind::Parse | ErrorKind::UnexpectedReturnType => Kind::BadReply,
        ErrorKind::Server(kind) => match kind {
            ServerErrorKind::BusyLoading
            | ServerErrorKind::MasterDown
            | ServerErrorKind::ClusterDown => Kind::Unreachable,
            ServerErrorKind::Moved | ServerErrorKind::Ask | ServerErrorKind::TryAgain => {
                Kind::Moving
            }
            ServerErrorKind::CrossSlot => Kind::CrossSlot,
            ServerErrorKind::ReadOnly => Kind::ReadOnly,
            ServerErrorKind::NoPerm => Kind::NotPermitted,
            _ => kind_of_text(error),
        },
        _ => kind_of_text(error),
    }
}

/// Errors of commands inside a script have their own code in front since Redis 7; before, it is somewhere in the
/// text.
fn kind_of_text(error: &RedisError) -> StoreErrorKind {
    use StoreErrorKind as Kind;

    const KNOWN: [(&str, StoreErrorKind); 14] = [
        ("WRONGTYPE", Kind::WrongType),
        ("BADSTATE", Kind::WrongType),
        ("not a valid float", Kind::WrongType),
        ("Script killed", Kind::ScriptKilled),
        ("BUSY", Kind::Busy),
        ("OOM", Kind::OutOfMemory),
        ("READONLY", Kind::ReadOnly),
        ("MISCONF", Kind::ReadOnly),
        ("NOREPLICAS", Kind::ReadOnly),
        ("NOAUTH", Kind::NotPermitted),
        ("WRONGPASS", Kind::NotPermitted),
        ("NOPERM", Kind::NotPermitted),
        ("The user executing the script", Kind::NotPermitted),
        // Valkey says it so.
        ("ACL failure in script", Kind::NotPermitted),
    ];
    let (code, detail) = (error.code().unwrap_or(""), error.detail().unwrap_or(""));
    let known = KNOWN
        .iter()
        .find(|(text, _)| code == *text || detail.contains(text));
    known.map_or(Kind::Server, |(_, kind)| *kind)
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.phrase())?;
        match &self.detail {
            Some(detail) => write!(f, ": {detail}"),
            None => Ok(()),
        }
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_at_its_place_and_has_a_word_of_its_own() {
        for (index, kind) in StoreErrorKind::ALL.into_iter().enumerate() {
            assert_eq!(kind.index(), index, "{kind:?}");
            let same = |other: &StoreErrorKind| other.as_str() == kind.as_str();
            assert_eq!(StoreErrorKind::ALL.iter().filter(|it| same(it)).count(), 1);
        }
    }
}
