//! The address of an admin port.

use std::fmt;
use std::str::FromStr;

/// The address of an admin port, and its token.
///
/// ```
/// use plimsoll_top::Endpoint;
///
/// let endpoint: Endpoint = "http://127.0.0.1:8422/".parse()?;
/// assert_eq!(endpoint.to_string(), "127.0.0.1:8422");
/// assert_eq!("localhost".parse::<Endpoint>()?.to_string(), "localhost:8422");
/// assert!("https://plimsoll.example".parse::<Endpoint>().is_err());
/// # Ok::<(), plimsoll_top::EndpointError>(())
/// ```
#[derive(Clone)]
pub struct Endpoint {
    pub(crate) address: String,
    pub(crate) token: Option<String>,
}

impl Endpoint {
    /// Sets the bearer token.
    #[must_use]
    pub fn token(mut self, token: Option<String>) -> Self {
        self.token = token;
        self
    }
}

/// The error of a text that is not the address of an admin port.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EndpointError {
    /// The admin port does not speak TLS.
    Tls,
    /// The text is not a host with an optional port.
    Malformed(String),
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tls => f.write_str(
                "the admin port does not speak TLS: expected HOST:PORT, reached by ssh for example (ssh -L 8422:127.0.0.1:8422 HOST)",
            ),
            Self::Malformed(text) => {
                write!(f, "expected HOST:PORT, such as 127.0.0.1:8422, not {text:?}")
            }
        }
    }
}

impl std::error::Error for EndpointError {}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        if text.starts_with("https://") {
            return Err(EndpointError::Tls);
        }
        let address = text.strip_prefix("http://").unwrap_or(text);
        let address = address.strip_suffix('/').unwrap_or(address);
        let malformed = || EndpointError::Malformed(text.to_owned());
        let allowed = |it: char| it.is_ascii_alphanumeric() || ".-_:[]%".contains(it);
        if address.is_empty() || !address.chars().all(allowed) {
            return Err(malformed());
        }
        let (host, port) = match address.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port),
            _ => (address, "8422"),
        };
        if host.is_empty() || port.parse::<u16>().is_err() {
            return Err(malformed());
        }
        Ok(Self {
            address: format!("{host}:{port}"),
            token: None,
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

/// Hides the token.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}
