//! HTTP/2 frame by frame: what RFC 9113 says of each mistake, section by section. The cases are those that h2spec has for servers;
//! h2spec itself is a program in Go, which cannot be had from the registries that this project builds from.

mod cases;

use super::*;
use cases::all;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
/// `ACK` of settings and pings, `END_STREAM` of data and headers.
const END: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

const PROTOCOL: u32 = 1;
const FLOW_CONTROL: u32 = 3;
const STREAM_CLOSED: u32 = 5;
const FRAME_SIZE: u32 = 6;
const COMPRESSION: u32 = 9;

/// What has to come of frames.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wanted {
    /// The connection ends, for one of these reasons.
    Connection(&'static [u32]),
    /// The stream ends, or the connection, for one of these reasons.
    Stream(&'static [u32]),
    /// A request is answered with 200.
    Answer,
    /// A ping is answered: what came before it was passed over.
    Pong,
}
use Wanted::{Answer as Answered, Connection, Pong, Stream};

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Fields as literals, which need no table.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).expect("short"));
            block.extend(text.as_bytes());
        }
    }
    block
}

const GET: [(&str, &str); 4] = [
    (":method", "GET"),
    (":scheme", "http"),
    (":path", "/"),
    (":authority", "a.example"),
];
const POST: [(&str, &str); 4] = [(":method", "POST"), GET[1], GET[2], GET[3]];

fn headers(flags: u8, stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, flags | END_HEADERS, stream, &block(fields))
}

/// A whole request without a body, with these fields besides.
fn get(stream: u32, more: &[(&str, &str)]) -> Vec<u8> {
    headers(END, stream, &[&GET, more].concat())
}

fn post(stream: u32) -> Vec<u8> {
    headers(0, stream, &POST)
}

fn ping() -> Vec<u8> {
    frame(PING, 0, 0, b"plimsoll")
}

fn setting(id: u16, value: u32) -> Vec<u8> {
    let payload = [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
    frame(SETTINGS, 0, 0, &payload)
}

fn window(stream: u32, more: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &more.to_be_bytes())
}

/// What came of frames, as soon as it is clear.
async fn comes_of(gateway: &Running, sent: &[u8], wanted: Wanted) -> Result<(), String> {
    let mut stream = BufReader::new(gateway.connect().await);
    let start = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &frame(SETTINGS, 0, 0, &[])[..],
        sent,
    ];
    let _ = stream.write_all(&start.concat()).await;
    let mut seen = String::new();
    let seeing = async {
        loop {
            let mut head = [0; 9];
            if stream.read_exact(&mut head).await.is_err() {
                let is_fine = matches!(wanted, Connection(_) | Stream(_));
                return is_fine
                    .then_some(())
                    .ok_or_else(|| format!("{seen}the end"));
            }
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; usize::try_from(length).expect("short")];
            stream
                .read_exact(&mut payload)
                .await
                .map_err(|it| it.to_string())?;
            let code = |at: usize| {
                let bytes = payload.get(at..at + 4)?;
                Some(u32::from_be_bytes(bytes.try_into().ok()?))
            };
            let is_met = match (wanted, head[3]) {
                (Connection(codes) | Stream(codes), GOAWAY) => {
                    code(4).is_some_and(|it| codes.contains(&it))
                }
                (Stream(codes), RST_STREAM) => code(0).is_some_and(|it| codes.contains(&it)),
                // 200 is the eighth entry of the static table of HPACK.
                (Answered, HEADERS) => payload.first() == Some(&0x88),
                (Pong, PING) => head[4] == END && payload == b"plimsoll",
                _ => false,
            };
            if is_met {
                return Ok(());
            }
            seen += &format!(
                "{} {:?}, ",
                head[3],
                code(if head[3] == GOAWAY { 4 } else { 0 })
            );
        }
    };
    let seeing = tokio::time::timeout(Duration::from_secs(30), seeing);
    seeing
        .await
        .unwrap_or_else(|_| Err("nothing of the kind in half a minute".to_owned()))
}

#[tokio::test]
async fn each_mistake_ends_what_it_should() {
    let server = server(|request| async move {
        // Not before the body has come, so that what is wrong with it is seen first.
        let _ = request.into_body().collect().await;
        text("ok")
    })
    .await;
    let gateway = Running::to(&[server]);
    let mut wrong = Vec::new();
    let cases = all();
    for (what, sent, wanted) in &cases {
        if let Err(seen) = comes_of(&gateway, sent, *wanted).await {
            wrong.push(format!("{what}: expected {wanted:?}, got {seen}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
    // 3.4: what is no preface.
    let answer = gateway.raw("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n").await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 400"),
        "{answer}"
    );
    gateway.at_rest().await;
    assert_eq!(gateway.counts.aborted(), 0);
}
