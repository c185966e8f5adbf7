//! Calls over gRPC that are none, frame by frame: each is answered by a status, and the connection goes on.

use bytes::Bytes;
use h2::client::SendRequest;
use http::Request;
use tokio::net::TcpStream;
use tonic::Code;

use crate::Running;
use crate::envoy::METHOD;

/// A question of the domain `d`, one descriptor, with its prefix.
const QUESTION: &[u8] = b"\0\0\0\0\x0f\x0a\x01d\x12\x0a\x0a\x08\x0a\x01k\x12\x03abc";

/// The status that a body is answered by, sent in parts of so many bytes, and how it is called.
async fn status(to: &mut SendRequest<Bytes>, body: &[u8], part: usize) -> (Code, String) {
    let request = Request::post(format!("http://localhost{METHOD}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .expect("a request");
    let ready = to.clone().ready().await.expect("it is open");
    *to = ready;
    let (answer, mut send) = to
        .send_request(request, body.is_empty())
        .expect("a request");
    let mut parts = body.chunks(part.max(1)).peekable();
    while let Some(part) = parts.next() {
        // It may have answered already.
        if send
            .send_data(Bytes::copy_from_slice(part), parts.peek().is_none())
            .is_err()
        {
            break;
        }
    }
    let (head, mut body) = answer.await.expect("an answer").into_parts();
    assert_eq!(head.status, 200);
    assert_eq!(head.headers["content-type"], "application/grpc");
    while let Some(data) = body.data().await {
        let length = data.expect("data").len();
        let _ = body.flow_control().release_capacity(length);
    }
    let trailers = body.trailers().await.expect("an end");
    let fields = trailers.unwrap_or(head.headers);
    let code = fields["grpc-status"].to_str().expect("digits");
    let why = fields.get("grpc-message").map(|it| it.as_bytes().to_vec());
    let why = String::from_utf8(why.unwrap_or_default()).expect("text");
    (Code::from_bytes(code.as_bytes()), why)
}

#[tokio::test]
async fn what_is_no_message_is_answered_by_a_status() {
    let server = Running::start(None, None).await;
    let stream = TcpStream::connect(server.grpc).await.expect("it listens");
    let (mut to, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
    let connection = tokio::spawn(connection);
    let with = |at: usize, byte: u8| {
        let mut question = QUESTION.to_vec();
        question[at] = byte;
        question
    };
    let long = {
        let mut long = vec![0, 0, 4, 0, 1];
        long.resize(5 + 256 * 1024 + 1, 0);
        long
    };
    let hostile: [(&str, Vec<u8>, Code); 10] = [
        ("nothing", Vec::new(), Code::Internal),
        ("a part of a prefix", QUESTION[..3].to_vec(), Code::Internal),
        ("a prefix alone", QUESTION[..5].to_vec(), Code::Internal),
        (
            "a part of a message",
            QUESTION[..12].to_vec(),
            Code::Internal,
        ),
        ("two messages", QUESTION.repeat(2), Code::Internal),
        ("more than it says", with(4, 14), Code::Internal),
        ("compressed", with(0, 1), Code::Unimplemented),
        ("no protobuf", with(5, 0xff), Code::Internal),
        ("longer than it may be", with(1, 1), Code::OutOfRange),
        ("as long as it says, and too long", long, Code::OutOfRange),
    ];
    for (what, body, expected) in &hostile {
        for part in [1, 7, 16 * 1024] {
            if body.len() / part > 1000 {
                continue;
            }
            let (code, why) = status(&mut to, body, part).await;
            assert_eq!(code, *expected, "{what}: {why}");
            assert!(
                why.contains("expected") || what == &"no protobuf",
                "{what}: {why}"
            );
        }
        for part in [1, 4, 1000] {
            let (code, why) = status(&mut to, QUESTION, part).await;
            assert_eq!(code, Code::Ok, "after {what}: {why}");
        }
    }
    connection.abort();
    server.stop().await;
}
