//! Faults of requests and servers, and the responses to them.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};

/// A failure that the gateway answers itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    BadHead,
    BareLineFeed,
    BothLengths,
    BadHost,
    BadBody,
    Connect,
    SlowBody,
    BodyTooLarge,
    UriTooLong,
    HeadTooLarge,
    NoConnection,
    BrokenAnswer,
    NoPool,
    SlowConnection,
    SlowAnswer,
}

use Fault::{
    BadBody, BadHead, BadHost, BareLineFeed, BodyTooLarge, BothLengths, BrokenAnswer, Connect,
    HeadTooLarge, NoConnection, NoPool, SlowAnswer, SlowBody, SlowConnection, UriTooLong,
};

impl Fault {
    pub(crate) const ALL: [Self; 15] = [
        BadHead,
        BareLineFeed,
        BothLengths,
        BadHost,
        BadBody,
        Connect,
        SlowBody,
        BodyTooLarge,
        UriTooLong,
        HeadTooLarge,
        NoConnection,
        BrokenAnswer,
        NoPool,
        SlowConnection,
        SlowAnswer,
    ];

    pub(crate) const fn status(self) -> StatusCode {
        match self {
            BadHead | BareLineFeed | BothLengths | BadHost | BadBody => StatusCode::BAD_REQUEST,
            Connect => StatusCode::METHOD_NOT_ALLOWED,
            SlowBody => StatusCode::REQUEST_TIMEOUT,
            BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            UriTooLong => StatusCode::URI_TOO_LONG,
            HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            NoConnection | BrokenAnswer => StatusCode::BAD_GATEWAY,
            NoPool => StatusCode::SERVICE_UNAVAILABLE,
            SlowConnection | SlowAnswer => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// Its name in metrics and responses.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            BadHead => "bad_head",
            BareLineFeed => "bare_line_feed",
            BothLengths => "both_lengths",
            BadHost => "bad_host",
            BadBody => "bad_body",
            Connect => "connect",
            SlowBody => "slow_body",
            BodyTooLarge => "body_too_large",
            UriTooLong => "uri_too_long",
            HeadTooLarge => "head_too_large",
            NoConnection => "no_connection",
            BrokenAnswer => "broken_answer",
            NoPool => "no_pool",
            SlowConnection => "slow_connection",
            SlowAnswer => "slow_answer",
        }
    }

    const fn detail(self) -> &'static str {
        match self {
            BadHead => "The head of the request is malformed.",
            BareLineFeed => "A line of the head ends without a carriage return.",
            BothLengths => "The request has both a Content-Length and a Transfer-Encoding.",
            BadHost => "The request needs exactly one valid Host.",
            BadBody => "The body of the request is malformed.",
            Connect => "Nothing is tunnelled here but protocols that a request upgrades to.",
            SlowBody => "The body of the request did not arrive in time.",
            BodyTooLarge => "The body of the request is longer than is allowed.",
            UriTooLong => "The target of the request is too long.",
            HeadTooLarge => "The head of the request is too large.",
            NoConnection => "No server could be reached.",
            BrokenAnswer => "The server's answer broke off or was malformed.",
            NoPool => "No server is known for this request.",
            SlowConnection => "No server could be reached in time.",
            SlowAnswer => "The server did not answer in time.",
        }
    }

    /// The fault for a status that hyper answers by itself.
    pub(crate) const fn of_status(status: u16) -> Self {
        match status {
            414 => UriTooLong,
            431 => HeadTooLarge,
            _ => BadHead,
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
        if self == Connect {
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
