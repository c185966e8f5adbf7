//! gRPC-Web, whose trailers are the last message of the body.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use plimsoll::{ManualClock, Outcome};
use plimsoll_tower::{HttpLimitLayer, RequestLimit};
use tower_layer::Layer;

use super::{Answers, answer, get};
use crate::hand::now;
use crate::recorder::Recorder;

/// A message of gRPC-Web: data, or trailers with the highest bit set.
fn message(flag: u8, text: &[u8]) -> Vec<u8> {
    let mut message = vec![flag];
    message.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
    message.extend(text);
    message
}

/// A body that says this status after two messages.
fn body(status: &str) -> Vec<u8> {
    let trailers = format!("grpc-message:grpc-status: 14\r\nGRPC-Status: {status}\r\n");
    let mut body = message(0, b"one");
    body.extend(message(1, &[0x80; 300]));
    body.extend(message(0x80, trailers.as_bytes()));
    body
}

/// In the text form, each part by itself, with padding where it ends.
fn base64(body: &[u8]) -> Vec<u8> {
    use base64::Engine;
    let parts = body
        .chunks(7)
        .map(|part| base64::prelude::BASE64_STANDARD.encode(part));
    parts.collect::<String>().into_bytes()
}

/// What is learned from a body that comes in chunks of this size.
fn learned(content_type: &'static str, body: &[u8], size: usize) -> Vec<Outcome> {
    let told = Recorder::default();
    let gate = told.gate(ManualClock::new().clock());
    let service = Answers(|request: &Request<()>| {
        let (content_type, frames) = request
            .extensions()
            .get::<(&'static str, Vec<Bytes>)>()
            .unwrap()
            .clone();
        let frames = frames
            .into_iter()
            .map(|bytes| Ok::<_, std::io::Error>(http_body::Frame::data(bytes)));
        Response::builder()
            .header("content-type", content_type)
            .body(StreamBody::new(futures_util::stream::iter(
                frames.collect::<Vec<_>>(),
            )))
            .unwrap()
    });
    let mut service = HttpLimitLayer::new(RequestLimit::new(gate.clone())).layer(service);
    let frames: Vec<_> = body.chunks(size).map(Bytes::copy_from_slice).collect();
    let mut request = get("/");
    request.extensions_mut().insert((content_type, frames));
    let response = answer(&mut service, request);
    let read = now(response.into_body().collect()).unwrap().to_bytes();
    assert_eq!(read, body, "nothing is changed");
    assert_eq!(gate.snapshot().in_use(), 0);
    told.told()
}

/// It was taken for gRPC, whose trailers never came, so that a limit that learns learned nothing from any call.
#[test]
fn the_status_in_the_body_says_what_it_says_about_the_load() {
    let cases: [(&str, &[Outcome]); 4] = [
        ("0", &[Outcome::Success]),
        ("5", &[Outcome::Success]),
        ("14", &[Outcome::Overload]),
        ("13", &[]),
    ];
    for (status, expected) in cases {
        for size in [1, 2, 3, 5, 64, 10_000] {
            for content_type in ["application/grpc-web", "application/grpc-web+proto; x=y"] {
                let told = learned(content_type, &body(status), size);
                assert_eq!(told, expected, "{status} in chunks of {size}");
            }
            for content_type in [
                "application/grpc-web-text",
                "Application/gRPC-Web-Text+proto",
            ] {
                let told = learned(content_type, &base64(&body(status)), size);
                assert_eq!(told, expected, "{status} in chunks of {size}, as text");
            }
        }
    }
}

#[test]
fn a_body_without_trailers_says_nothing() {
    let whole = body("0");
    for length in [0, 3, 8, 30, whole.len() - 1] {
        let cut = &whole[..length];
        let told = learned("application/grpc-web", cut, 10);
        assert_eq!(told, [], "cut after {length}");
    }
    // Longer than any trailers are.
    let mut endless = vec![0x80, 0xff, 0xff, 0xff, 0xff];
    endless.resize(100_000, b'x');
    assert_eq!(learned("application/grpc-web", &endless, 1000), []);
}

#[test]
fn a_status_in_the_head_is_the_status() {
    let told = Recorder::default();
    let gate = told.gate(ManualClock::new().clock());
    let service = Answers(|_: &Request<()>| {
        Response::builder()
            .header("content-type", "application/grpc-web+proto")
            .header("grpc-status", "8")
            .body(Full::<Bytes>::default())
            .unwrap()
    });
    let mut service = HttpLimitLayer::new(RequestLimit::new(gate)).layer(service);
    drop(answer(&mut service, get("/")));
    assert_eq!(told.told(), [Outcome::Overload]);
}

/// Types that only begin like gRPC's are something else, and say what their status says.
#[test]
fn other_types_are_not_grpc() {
    let told = learned("application/grpcish", b"text", 10);
    assert_eq!(told, [Outcome::Success]);
}
