//! TLS with clients and with servers.

use std::fmt;
use std::io;
use std::sync::Arc;

use plimsoll_config::gateway::{Protocol, TlsSpec};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// An invalid certificate or key, with the name of its file.
#[derive(Debug)]
pub struct TlsError(String);

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}

const HTTP1: &[u8] = b"http/1.1";
const HTTP2: &[u8] = b"h2";

fn certificates(path: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let read: Vec<_> = read.map_err(|error| TlsError(format!("{path}: {error}")))?;
    match read.is_empty() {
        true => Err(TlsError(format!(
            "{path}: expected certificates as PEM, found none"
        ))),
        false => Ok(read),
    }
}

/// Creates an acceptor of TLS, with HTTP/2 for clients that offer it.
pub(crate) fn acceptor(spec: &TlsSpec) -> Result<TlsAcceptor, TlsError> {
    let chain = certificates(&spec.cert)?;
    let key = PrivateKeyDer::from_pem_file(&spec.key)
        .map_err(|error| TlsError(format!("{}: {error}", spec.key)))?;
    let wrong = |error: rustls::Error| TlsError(format!("{} and {}: {error}", spec.cert, spec.key));
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(wrong)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(wrong)?;
    config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// TLS to servers.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) usual: TlsConnector,
    /// The connector for upgraded connections, which need HTTP/1.1.
    pub(crate) http1: TlsConnector,
}

impl Client {
    pub(crate) fn new(ca: Option<&str>, protocol: Protocol) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        match ca {
            Some(path) => {
                for certificate in certificates(path)? {
                    let wrong = |error| TlsError(format!("{path}: {error}"));
                    roots.add(certificate).map_err(wrong)?;
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        let wrong = |error: rustls::Error| TlsError(error.to_string());
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(wrong)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = |protocol: &[u8]| {
            let mut config = config.clone();
            config.alpn_protocols = vec![protocol.to_vec()];
            TlsConnector::from(Arc::new(config))
        };
        let http1 = connector(HTTP1);
        let usual = match protocol {
            Protocol::Http2 => connector(HTTP2),
            _ => http1.clone(),
        };
        Ok(Self { usual, http1 })
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// The error for a host that is no valid server name.
pub(crate) fn bad_name(name: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("{name} is no name of a server"),
    )
}
