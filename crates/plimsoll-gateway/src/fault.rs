//! Faults of requests and servers, and the responses to them.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};

/// Writes [`Fault`] from rows of a variant, its status, its name in metrics and responses, and a sentence for the client.
macro_rules! faults {
    ($($fault:ident, $status:ident, $word:literal, $detail:literal;)*) => {
        /// A failure that the gateway answers itself.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Fault {
            $($fault,)*
        }

        impl Fault {
            pub(crate) const ALL: [Self; [$($word),*].len()] = [$(Self::$fault),*];

            pub(crate) const fn status(self) -> StatusCode {
                match self {
                    $(Self::$fault => StatusCode::$status,)*
                }
            }

            /// The name of the fault in metrics and responses.
            pub(crate) const fn word(self) -> &'static str {
                match self {
                    $(Self::$fault => $word,)*
                }
            }

            const fn detail(self) -> &'static str {
                match self {
                    $(Self::$fault => $detail,)*
                }
            }
        }
    };
}

faults! {
    BadHead, BAD_REQUEST, "bad_head", "The head of the request is malformed.";
    BareLineFeed, BAD_REQUEST, "bare_line_feed", "A line of the head ends without a carriage return.";
    BothLengths, BAD_REQUEST, "both_lengths", "The request has both a Content-Length and a Transfer-Encoding.";
    BadHost, BAD_REQUEST, "bad_host", "The request needs exactly one valid Host.";
    BadBody, BAD_REQUEST, "bad_body", "The body of the request is malformed.";
    Connect, METHOD_NOT_ALLOWED, "connect", "Nothing is tunnelled here but protocols that a request upgrades to.";
    SlowBody, REQUEST_TIMEOUT, "slow_body", "The body of the request did not arrive in time.";
    BodyTooLarge, PAYLOAD_TOO_LARGE, "body_too_large", "The body of the request is longer than is allowed.";
    UriTooLong, URI_TOO_LONG, "uri_too_long", "The target of the request is too long.";
    HeadTooLarge, REQUEST_HEADER_FIELDS_TOO_LARGE, "head_too_large", "The head of the request is too large.";
    NoConnection, BAD_GATEWAY, "no_connection", "No server could be reached.";
    BrokenAnswer, BAD_GATEWAY, "broken_answer", "The server's answer broke off or was malformed.";
    NoPool, SERVICE_UNAVAILABLE, "no_pool", "No server is known for this request.";
    SlowConnection, GATEWAY_TIMEOUT, "slow_connection", "No server could be reached in time.";
    SlowAnswer, GATEWAY_TIMEOUT, "slow_answer", "The server did not answer in time.";
}

impl Fault {
    /// The fault for a status that hyper answers by itself.
    pub(crate) const fn of_status(status: u16) -> Self {
        match status {
            414 => Self::UriTooLong,
            431 => Self::HeadTooLarge,
            _ => Self::BadHead,
        }
    }

    fn problem(self) -> String {
        let status = self.status();
        format!(
            r#"{{"type":"about:blank","title":"{}","status":{},"detail":"{}","fault":"{}"}}"#,
            status.canonical_reason().unwrap_or_default(),
            status.as_u16(),
            self.detail(),
            self.word(),
        )
    }

    /// The response, a problem document (RFC 9457).
    pub(crate) fn response(self) -> Response<Bytes> {
        let mut response = Response::new(Bytes::from(self.problem()));
        *response.status_mut() = self.status();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        if self == Self::Connect {
            let none = HeaderValue::from_static("");
            response.headers_mut().insert(http::header::ALLOW, none);
        }
        response
    }

    /// The response as the text of HTTP/1.1, for a connection without a request to answer.
    pub(crate) fn on_the_wire(self) -> String {
        let (status, body) = (self.status(), self.problem());
        format!(
            "HTTP/1.1 {} {}\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            status.as_u16(),
            status.canonical_reason().unwrap_or_default(),
            body.len(),
        )
    }
}
