//! The description of a gateway in a file: the section `gateway`.
//!
//! ```
//! use plimsoll_config::{Config, Format};
//!
//! let text = "
//! gateway:
//!   listen: 127.0.0.1:8080
//!   upstreams: { app: { to: [http://10.0.0.1:9000, http://10.0.0.2:9000] } }
//! limits: { slots: { concurrency: adaptive } }
//! routes: [{ match: /**, limits: [slots], to: app }]
//! ";
//! let config = Config::from_str("limits.yaml", text, Format::Yaml)?;
//! let gateway = config.gateway().unwrap();
//! let (name, app) = gateway.upstreams.iter().next().unwrap();
//! assert_eq!((name, app.to.as_slice()[1].authority.as_str()), ("app", "10.0.0.2:9000"));
//! # Ok::<(), plimsoll_config::ConfigError>(())
//! ```
//!
//! This crate reads the section; `plimsoll-gateway` applies it. The types are those of the file: a [`GatewaySpec`] has
//! pools of servers ([`UpstreamSpec`]), each with [time-outs](TimeoutSpec), a [budget of retries](RetrySpec) and
//! [ejection of failing servers](HealthSpec).
//!
//! # Defaults
//!
//! | setting | default |
//! |---|---|
//! | [`listen`](GatewaySpec::listen) | `127.0.0.1:8080` |
//! | [`protocol`](UpstreamSpec::protocol) | `http1` |
//! | [`timeouts`](UpstreamSpec::timeouts) | those of [`TimeoutSpec::default`] |
//! | [`retries`](UpstreamSpec::retries) | those of [`RetrySpec::default`] |
//! | [`health`](UpstreamSpec::health) | ejected for 5 s after 5 failures in a row, at most for 5 minutes |
//!
//! ```
//! use plimsoll_config::gateway::{HealthSpec, Listen, Protocol};
//!
//! assert_eq!(Listen::default().as_slice()[0].0.port(), 8080);
//! assert_eq!(Protocol::default(), Protocol::Http1);
//! assert_eq!(HealthSpec::default().failures.0, 5);
//! ```

mod values;

use std::net::SocketAddr;

use plimsoll_spec::{Count, Named, Percent, Period};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

pub use values::{Address, Bytes, Origin};

/// A gateway in front of servers: its addresses and its upstreams.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a gateway such as { upstreams: { app: { to: \"http://127.0.0.1:9000\" } } }"
)]
#[non_exhaustive]
pub struct GatewaySpec {
    /// The addresses to listen on, one or several: 127.0.0.1:8080 unless set. HTTP/1.1 and HTTP/2 are detected.
    #[serde(default)]
    pub listen: Listen,
    /// The certificate for TLS; no TLS unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsSpec>,
    /// The upstream servers, by the name of their pool. Requests whose route names no pool go to the first.
    pub upstreams: Named<UpstreamSpec>,
    /// The largest body of a request in bytes; unbounded unless set. A longer one is answered with 413.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_body: Option<Bytes>,
    /// The number of threads that serve connections: one for each processor unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<Count>,
}

/// One address or several.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename = "either", rename_all = "snake_case")]
#[schemars(rename = "Listen", untagged)]
#[non_exhaustive]
pub enum Listen {
    /// One.
    One(Address),
    /// Several.
    Many(Vec<Address>),
}

impl Listen {
    /// Returns all addresses.
    #[must_use]
    pub fn as_slice(&self) -> &[Address] {
        match self {
            Self::One(address) => std::slice::from_ref(address),
            Self::Many(addresses) => addresses,
        }
    }
}

impl Default for Listen {
    fn default() -> Self {
        Self::One(Address(SocketAddr::from(([127, 0, 0, 1], 8080))))
    }
}

impl Serialize for Listen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::One(address) => address.serialize(serializer),
            Self::Many(addresses) => addresses.serialize(serializer),
        }
    }
}

/// The files of a certificate.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "the files of a certificate such as { cert: cert.pem, key: key.pem }"
)]
#[non_exhaustive]
pub struct TlsSpec {
    /// The certificate and its chain, as PEM.
    pub cert: String,
    /// Its private key, as PEM.
    pub key: String,
}

/// A pool of equivalent servers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a pool of servers such as { to: \"http://127.0.0.1:9000\" }"
)]
#[non_exhaustive]
pub struct UpstreamSpec {
    /// The URLs of the servers, one or several, such as `http://10.0.0.1:9000` or `https://api.example.com`. A request goes to the one
    /// with the fewest requests in flight.
    pub to: Origins,
    /// The protocol: http1 or http2 (without TLS: with prior knowledge). Upgraded connections use http1.
    #[serde(default, skip_serializing_if = "Protocol::is_default")]
    pub protocol: Protocol,
    /// The `Host` that is sent: that of the client unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The file of trusted certificates, as PEM; those of the system unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// The largest number of idle connections of each worker to each server.
    #[serde(default = "keep")]
    pub keep: Count,
    /// Time-outs.
    #[serde(default)]
    pub timeouts: TimeoutSpec,
    /// The budget of retries.
    #[serde(default)]
    pub retries: RetrySpec,
    /// When a failing server is ejected for a while.
    #[serde(default)]
    pub health: HealthSpec,
}

/// One server or several.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename = "either", rename_all = "snake_case")]
#[schemars(rename = "Origins", untagged)]
#[non_exhaustive]
pub enum Origins {
    /// One.
    One(Origin),
    /// Several.
    Many(Vec<Origin>),
}

impl Origins {
    /// Returns all servers.
    #[must_use]
    pub fn as_slice(&self) -> &[Origin] {
        match self {
            Self::One(origin) => std::slice::from_ref(origin),
            Self::Many(origins) => origins,
        }
    }
}

impl Serialize for Origins {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::One(origin) => origin.serialize(serializer),
            Self::Many(origins) => origins.serialize(serializer),
        }
    }
}

/// The protocol to servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2.
    Http2,
}

impl Protocol {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The time-outs for servers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "timeouts such as { connect: 1s, response: 30s, idle: 60s }"
)]
#[non_exhaustive]
pub struct TimeoutSpec {
    /// For a connection, TLS included.
    pub connect: Period,
    /// For the head of a response, counted from the last part of the request that was sent.
    pub response: Period,
    /// For the next part of a body, in either direction, and on upgraded connections in both.
    pub idle: Period,
}

impl Default for TimeoutSpec {
    fn default() -> Self {
        Self {
            connect: seconds(2),
            response: seconds(60),
            idle: seconds(60),
        }
    }
}

/// The budget of retries: a percentage of requests, and a number each second in addition.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "a budget of retries such as { percent: 20%, least: 10 }"
)]
#[non_exhaustive]
pub struct RetrySpec {
    /// The largest number of retries of one request; 0 for none.
    pub most: u32,
    /// The retries as a percentage of requests.
    pub percent: Percent,
    /// The retries each second in addition.
    pub least: u32,
}

impl Default for RetrySpec {
    fn default() -> Self {
        Self {
            most: 2,
            percent: Percent(20),
            least: 10,
        }
    }
}

/// When a failing server is ejected: it gets no requests for a while.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "rules of health such as { failures: 5, ejected: 10s }"
)]
#[non_exhaustive]
pub struct HealthSpec {
    /// The number of failures in a row: no connection, a broken response, none in time, or one with a status of 5xx.
    pub failures: Count,
    /// The length of an ejection. It doubles each time that the server fails again right after.
    pub ejected: Period,
    /// The longest ejection.
    pub longest: Period,
}

impl Default for HealthSpec {
    fn default() -> Self {
        Self {
            failures: Count(5),
            ejected: seconds(5),
            longest: seconds(300),
        }
    }
}

const fn seconds(number: u64) -> Period {
    Period(number * 1_000_000_000)
}

const fn keep() -> Count {
    Count(64)
}

impl GatewaySpec {
    /// Returns the pool with this name, and without a name the first pool. `None` if there is no such pool.
    ///
    /// ```
    /// use plimsoll_config::{Config, Format};
    ///
    /// let text = "
    /// gateway: { upstreams: { app: { to: http://10.0.0.1:9000 }, files: { to: http://10.0.0.2:9000 } } }
    /// ";
    /// let config = Config::from_str("limits.yaml", text, Format::Yaml)?;
    /// let gateway = config.gateway().unwrap();
    /// assert_eq!(gateway.upstream(None).unwrap().0, "app");
    /// assert_eq!(gateway.upstream(Some("files")).unwrap().0, "files");
    /// assert!(gateway.upstream(Some("mail")).is_none());
    /// # Ok::<(), plimsoll_config::ConfigError>(())
    /// ```
    #[must_use]
    pub fn upstream(&self, name: Option<&str>) -> Option<(&str, &UpstreamSpec)> {
        match name {
            Some(name) => self.upstreams.iter().find(|(known, _)| *known == name),
            None => self.upstreams.iter().next(),
        }
    }
}
