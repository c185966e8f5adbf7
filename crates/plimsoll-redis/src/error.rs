use std::error::Error;
use std::fmt;

use redis::{ErrorKind, RedisError, ServerErrorKind};

/// The store did not decide. This is not a refusal: the caller may or may not be over its limit.
///
/// It is returned by the methods of [`RedisLimiter`](crate::RedisLimiter), [`RedisAll`](crate::RedisAll) and
/// [`Store`](crate::Store). A [`Fleet`](crate::Fleet) does not return it, but answers as its [`Outage`](crate::Outage) setting
/// says. The [`source`](std::error::Error::source) is the error of the connection or the reply of the server.
///
/// ```
/// use plimsoll_redis::{Store, StoreErrorKind};
///
/// let error = Store::open("postgres://localhost").unwrap_err();
/// assert_eq!(error.kind(), StoreErrorKind::BadAddress);
/// ```
///
/// # Retries
///
/// A call is never repeated automatically, because it may have been charged. Decide by the [kind](Self::kind) whether
/// to repeat it:
///
/// ```no_run
/// use plimsoll_redis::{Decision, RedisLimiter, StoreError, StoreErrorKind};
///
/// async fn decide(api: &RedisLimiter, key: &str) -> Result<Decision, StoreError> {
///     match api.decide(key, 1).await {
///         // Nothing was taken, and the server recovers soon.
///         Err(error) if error.kind() == StoreErrorKind::Busy => api.decide(key, 1).await,
///         other => other,
///     }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    source: Option<RedisError>,
    detail: Option<String>,
}

/// The reason why a store did not decide.
///
/// | kind | sent | may have been charged | opens the [circuit](crate::Circuit) |
/// |---|---|---|---|
/// | [`Unreachable`](Self::Unreachable) | perhaps | if the connection broke during the call | yes |
/// | [`TimedOut`](Self::TimedOut) | yes | yes | yes |
/// | [`CircuitOpen`](Self::CircuitOpen), [`BadAddress`](Self::BadAddress) | no | no | no |
/// | [`BadReply`](Self::BadReply), [`Server`](Self::Server) | yes | perhaps | no |
/// | all others | yes, or refused before | no | no |
///
/// ```
/// use plimsoll_redis::StoreErrorKind;
///
/// /// Whether the store did not answer, so that a rate may have been charged.
/// fn is_unanswered(kind: StoreErrorKind) -> bool {
///     matches!(kind, StoreErrorKind::TimedOut | StoreErrorKind::Unreachable)
/// }
/// assert!(!is_unanswered(StoreErrorKind::CircuitOpen));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The address is invalid, or needs a feature that is not enabled.
    BadAddress,
    /// No server accepts connections, the connection broke, or the server is not ready. If the connection broke during the call, the
    /// decision may have been made.
    Unreachable,
    /// The store did not answer within the deadline. The decision may have been made.
    TimedOut,
    /// The call was not sent, because the [circuit](crate::Circuit) is open: recent calls failed.
    CircuitOpen,
    /// The key holds a value of another type.
    WrongType,
    /// The script was killed on the server. Nothing was taken.
    ScriptKilled,
    /// The server is busy with a long-running script.
    Busy,
    /// The server is out of memory.
    OutOfMemory,
    /// The server is a replica, or does not accept writes now.
    ReadOnly,
    /// Credentials are missing, or do not permit the command.
    NotPermitted,
    /// The keys of one script are in several hash slots of a cluster.
    CrossSlot,
    /// The keys are being migrated to another node of the cluster.
    Moving,
    /// The rule does not support the operation in a store.
    Unsupported,
    /// The reply is malformed.
    BadReply,
    /// Any other error reply of the server: see the source of the [`StoreError`].
    Server,
}

impl StoreErrorKind {
    /// All kinds, for example to export a counter for each of them: see [`StoreStats::failures`](crate::StoreStats::failures).
    pub const ALL: [Self; 15] = [
        Self::BadAddress,
        Self::Unreachable,
        Self::TimedOut,
        Self::CircuitOpen,
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

    /// The index in [`ALL`](Self::ALL).
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// Returns the name in logs and metrics.
    ///
    /// ```
    /// use plimsoll_redis::StoreErrorKind;
    ///
    /// assert_eq!(StoreErrorKind::TimedOut.as_str(), "timed_out");
    /// assert_eq!(StoreErrorKind::CircuitOpen.as_str(), "circuit_open");
    /// ```
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BadAddress => "bad_address",
            Self::Unreachable => "unreachable",
            Self::TimedOut => "timed_out",
            Self::CircuitOpen => "circuit_open",
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

    /// Returns a short description for error messages.
    #[must_use]
    pub const fn phrase(self) -> &'static str {
        match self {
            Self::BadAddress => "the address of the store cannot be used",
            Self::Unreachable => "the store cannot be reached",
            Self::TimedOut => "the store did not answer in time",
            Self::CircuitOpen => "the store is not called, because it did not answer recently",
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

    /// The error of one key of a script, from the message of the server.
    pub(crate) fn of_key(said: &str) -> Self {
        let kind = ErrorKind::Server(ServerErrorKind::ResponseError);
        RedisError::from((kind, "what is kept at the key", said.to_owned())).into()
    }

    pub(crate) fn redis(&self) -> Option<&RedisError> {
        self.source.as_ref()
    }

    /// The message of the server or the network, shortened to `most` bytes.
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

    /// Whether the server is no longer the primary.
    pub(crate) fn is_replica(&self) -> bool {
        let said = |error: &RedisError| {
            error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
                || error.code() == Some("READONLY")
                || error.detail().is_some_and(|it| it.contains("READONLY"))
        };
        self.kind == StoreErrorKind::ReadOnly && self.source.as_ref().is_some_and(said)
    }

    /// Whether the store did not answer, as opposed to an error reply.
    pub(crate) fn is_silence(&self) -> bool {
        matches!(
            self.kind,
            StoreErrorKind::Unreachable | StoreErrorKind::TimedOut
        )
    }

    /// Returns the reason why the store did not decide.
    ///
    /// ```no_run
    /// use plimsoll_redis::{Store, StoreErrorKind};
    ///
    /// # async fn doc() -> Result<(), plimsoll_redis::StoreError> {
    /// match Store::open("redis://127.0.0.1")?.ping().await {
    ///     Err(error) if error.kind() == StoreErrorKind::NotPermitted => panic!("wrong password: {error}"),
    ///     other => other,
    /// }
    /// # }
    /// ```
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

/// Since Redis 7 errors of commands inside a script begin with their code; before, the code is inside the text.
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
        // The message of Valkey.
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
