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
#[derive(Debug)]
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
    /// A phrase for people.
    #[must_use]
    pub const fn phrase(self) -> &'static str {
        match self {
            Self::BadAddress => "the address of the store cannot be used",
            Self::Unreachable => "the store cannot be reached",
            Self::TimedOut => "the store did not answer in time",
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

    pub(crate) fn redis(&self) -> Option<&RedisError> {
        self.source.as_ref()
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

    const KNOWN: [(&str, StoreErrorKind); 13] = [
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
