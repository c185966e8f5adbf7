//! The settings of `plimsoll serve` in a file.

use plimsoll_spec::Period;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of `plimsoll serve`. Options of the command line take precedence, and changes apply at the next start.
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
    /// The directory for the saved state of limits in memory, so that a restart does not grant a free burst; none
    /// unless set. A relative path starts at the working directory of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_dir: Option<String>,
    /// The interval at which the state is saved, in addition to the end of the process: 30s unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_every: Option<Period>,
    /// The age, plus or minus 10 %, at which a gRPC connection is closed gracefully, so that proxies also connect to
    /// servers that were added: 24h unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grpc_age: Option<Period>,
}
