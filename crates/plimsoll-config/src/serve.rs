//! What a file says about the server itself.

use plimsoll_spec::Period;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What `plimsoll serve` does beside its limits. An option of the command line counts before what stands here, and a change
/// counts from the next start on.
///
/// ```
/// use plimsoll_config::{Config, Format};
///
/// let text = "
/// serve: { state_dir: /var/lib/plimsoll, grpc_age: 1h }
/// limits: { logins: { rate: 5/min, key: client } }
/// ";
/// let config = Config::from_str("limits.yaml", text, Format::Yaml)?;
/// assert_eq!(config.serve().unwrap().state_dir.as_deref(), Some("/var/lib/plimsoll"));
/// # Ok::<(), plimsoll_config::ConfigError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "settings of the server such as { state_dir: /var/lib/plimsoll }"
)]
#[non_exhaustive]
pub struct ServeSpec {
    /// The directory in which what limits in memory remember is kept, so that a restart is not a free burst; nowhere unless set. A path that
    /// does not begin with `/` begins where the server was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_dir: Option<String>,
    /// How often it is written there, beside at the end: every 30s unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_every: Option<Period>,
    /// How old a connection over gRPC becomes, ten per cent more or less, before its client is asked to open another one, so that
    /// proxies spread over servers that were added: 24h unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grpc_age: Option<Period>,
}
