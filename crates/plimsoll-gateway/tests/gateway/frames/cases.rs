//! The cases, by the sections of RFC 9113.

use super::*;

type Case = (&'static str, Vec<u8>, Wanted);

/// What is sent after the preface, and what has to come of it.
pub(super) fn all() -> Vec<Case> {
    [framing(), control(), messages()].concat()
}

fn framing() -> Vec<Case> {
    let large = vec![0; 16_385];
    let body = |size: usize| frame(DATA, END, 1, &vec![b'x'; size]);
    let padded = |kind: u8, stream, rest: &[u8]| {
        let payload = [&[200], rest].concat();
        frame(kind, PADDED | END_HEADERS, stream, &payload)
    };
    let begun = frame(HEADERS, END, 1, &block(&GET));
    let rest = frame(CONTINUATION, END_HEADERS, 1, &block(&[("x", "y")]));
    vec![
        (
            "4.1 a frame of an unknown kind",
            [frame(22, 0, 0, b"12345678"), ping()].concat(),
            Pong,
        ),
        (
            "4.1 flags without a meaning",
            frame(PING, 0xfe, 0, b"plimsoll"),
            Pong,
        ),
        (
            "4.1 a reserved bit",
            frame(PING, 0, 1 << 31, b"plimsoll"),
            Pong,
        ),
        (
            "4.2 the largest frame",
            [post(1), body(16_384)].concat(),
            Answered,
        ),
        (
            "4.2 data that is too large",
            [post(1), frame(DATA, END, 1, &large)].concat(),
            Stream(&[FRAME_SIZE]),
        ),
        (
            "4.2 headers that are too large",
            frame(HEADERS, END | END_HEADERS, 1, &large),
            Connection(&[FRAME_SIZE]),
        ),
        (
            "4.3 a block that is none",
            frame(HEADERS, END | END_HEADERS, 1, &[0x40, 1, 2]),
            Connection(&[COMPRESSION]),
        ),
        (
            "4.3 an index of no table",
            frame(HEADERS, END | END_HEADERS, 1, &[0xff, 0x50]),
            Connection(&[COMPRESSION]),
        ),
        (
            "4.3 a priority inside of a block",
            [begun.clone(), frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 9])].concat(),
            Connection(&[PROTOCOL]),
        ),
        (
            "4.3 another stream inside of a block",
            [begun.clone(), get(3, &[])].concat(),
            Connection(&[PROTOCOL]),
        ),
        (
            "5.5 an unknown frame inside of a block",
            [begun.clone(), frame(22, 0, 0, b"12345678")].concat(),
            Connection(&[PROTOCOL]),
        ),
        (
            "5.1 idle: data",
            frame(DATA, END, 1, b"x"),
            Connection(&[PROTOCOL]),
        ),
        (
            "5.1 idle: a reset",
            frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]),
            Connection(&[PROTOCOL]),
        ),
        (
            "5.1 idle: a window",
            window(1, 100),
            Connection(&[PROTOCOL]),
        ),
        (
            "5.1 idle: a continuation",
            rest.clone(),
            Connection(&[PROTOCOL]),
        ),
        (
            "5.1 half closed: data",
            [get(1, &[]), body(4)].concat(),
            Stream(&[STREAM_CLOSED]),
        ),
        (
            "5.1 half closed: headers",
            [get(1, &[]), get(1, &[])].concat(),
            Stream(&[STREAM_CLOSED]),
        ),
        (
            "5.1 half closed: a continuation",
            [get(1, &[]), rest.clone()].concat(),
            Stream(&[STREAM_CLOSED, PROTOCOL]),
        ),
        ("5.1.1 an even number", get(2, &[]), Connection(&[PROTOCOL])),
        (
            "5.1.1 a smaller number",
            [get(5, &[]), get(3, &[])].concat(),
            Connection(&[PROTOCOL]),
        ),
        (
            "6.1 data of the connection",
            frame(DATA, 0, 0, b"x"),
            Connection(&[PROTOCOL]),
        ),
        (
            "6.1 data with too much padding",
            [post(1), padded(DATA, 1, b"x")].concat(),
            Connection(&[PROTOCOL]),
        ),
        (
            "6.2 headers of the connection",
            headers(END, 0, &GET),
            Connection(&[PROTOCOL]),
        ),
        (
            "6.2 headers with too much padding",
            padded(HEADERS, 1, &block(&GET)),
            Connection(&[PROTOCOL]),
        ),
        (
            "6.3 a priority of the connection",
            frame(PRIORITY, 0, 0, &[0, 0, 0, 1, 9]),
            Connection(&[PROTOCOL]),
        ),
        (
            "6.3 a priority of another size",
            [post(1), frame(PRIORITY, 0, 1, &[0; 4])].concat(),
            Stream(&[FRAME_SIZE]),
        ),
        (
            "6.4 a reset of the connection",
            frame(RST_STREAM, 0, 0, &[0, 0, 0, 8]),
            Connection(&[PROTOCOL]),
        ),
        (
            "6.4 a reset of another size",
            [post(1), frame(RST_STREAM, 0, 1, &[0; 3])].concat(),
            Connection(&[FRAME_SIZE]),
        ),
        (
            "6.6 a promise of a client",
            [post(1), frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2])].concat(),
            Connection(&[PROTOCOL]),
        ),
        (
            "6.10 a continuation of the connection",
            [begun.clone(), frame(CONTINUATION, END_HEADERS, 0, &[])].concat(),
            Connection(&[PROTOCOL]),
        ),
        (
            "6.10 a continuation after the end",
            [post(1), rest.clone()].concat(),
            Connection(&[PROTOCOL]),
        ),
        (
            "6.10 continuations",
            [
                begun,
                frame(CONTINUATION, 0, 1, &block(&[("x", "y")])),
                rest,
            ]
            .concat(),
            Answered,
        ),
    ]
}

fn control() -> Vec<Case> {
    let most = (1 << 31) - 1;
    vec![
        (
            "6.5 an acknowledgement with settings",
            frame(SETTINGS, END, 0, &[0; 6]),
            Connection(&[FRAME_SIZE]),
        ),
        (
            "6.5 settings of a stream",
            frame(SETTINGS, 0, 1, &[]),
            Connection(&[PROTOCOL]),
        ),
        (
            "6.5 settings of another size",
            frame(SETTINGS, 0, 0, &[0; 7]),
            Connection(&[FRAME_SIZE]),
        ),
        (
            "6.5.2 pushing, neither on nor off",
            setting(2, 2),
            Connection(&[PROTOCOL]),
        ),
        (
            "6.5.2 a window that is too large",
            setting(4, 1 << 31),
            Connection(&[FLOW_CONTROL]),
        ),
        (
            "6.5.2 frames that are too small",
            setting(5, 16_383),
            Connection(&[PROTOCOL]),
        ),
        (
            "6.5.2 frames that are too large",
            setting(5, 1 << 24),
            Connection(&[PROTOCOL]),
        ),
        (
            "6.5.2 an unknown setting",
            [setting(0xff, 1), ping()].concat(),
            Pong,
        ),
        ("6.7 a ping", ping(), Pong),
        (
            "6.7 a ping of a stream",
            frame(PING, 0, 1, &[0; 8]),
            Connection(&[PROTOCOL]),
        ),
        (
            "6.7 a ping of another size",
            frame(PING, 0, 0, &[0; 6]),
            Connection(&[FRAME_SIZE]),
        ),
        (
            "6.8 a farewell of a stream",
            frame(GOAWAY, 0, 1, &[0; 8]),
            Connection(&[PROTOCOL]),
        ),
        (
            "6.9 a window of nothing",
            window(0, 0),
            Connection(&[PROTOCOL]),
        ),
        (
            "6.9 a window of nothing, of a stream",
            [post(1), window(1, 0)].concat(),
            Stream(&[PROTOCOL]),
        ),
        (
            "6.9 a window of another size",
            frame(WINDOW_UPDATE, 0, 0, &[0; 3]),
            Connection(&[FRAME_SIZE]),
        ),
        (
            "6.9.1 a window that overflows",
            [window(0, most), window(0, most)].concat(),
            Connection(&[FLOW_CONTROL]),
        ),
        (
            "6.9.1 a window of a stream that overflows",
            [post(1), window(1, most), window(1, most)].concat(),
            Stream(&[FLOW_CONTROL]),
        ),
        (
            "6.9.2 windows that overflow by a setting",
            [post(1), window(1, most - 65_535), setting(4, 65_536)].concat(),
            Connection(&[FLOW_CONTROL]),
        ),
    ]
}

fn messages() -> Vec<Case> {
    let without = |at: usize| {
        let mut fields = GET.to_vec();
        fields.remove(at);
        headers(END, 1, &fields)
    };
    let with = |fields: &[(&str, &str)]| headers(END, 1, fields);
    let malformed = Stream(&[PROTOCOL]);
    let sized = |size: &str| headers(0, 1, &[&POST[..], &[("content-length", size)]].concat());
    let data = frame(DATA, END, 1, b"four");
    vec![
        ("8.1 a request", get(1, &[("x", "y")]), Answered),
        (
            "8.1 trailers without an end",
            [post(1), headers(0, 1, &[("x", "y")])].concat(),
            malformed,
        ),
        // h2 drops the field, where the stream should end: nothing of it reaches a server.
        (
            "8.1 trailers with what only a head has",
            [post(1), headers(END, 1, &[(":method", "GET")])].concat(),
            Answered,
        ),
        (
            "8.1.1 a length, and another length",
            [sized("1"), data.clone()].concat(),
            malformed,
        ),
        (
            "8.1.1 a length, and several parts",
            [sized("9"), frame(DATA, 0, 1, b"four"), data.clone()].concat(),
            malformed,
        ),
        (
            "8.1.1 the right length",
            [sized("4"), data].concat(),
            Answered,
        ),
        ("8.2.1 a capital letter", get(1, &[("X-Y", "z")]), malformed),
        (
            "8.2.1 a line feed in a value",
            get(1, &[("x", "y\nz: 1")]),
            malformed,
        ),
        (
            "8.2.1 a zero in a value",
            get(1, &[("x", "y\0")]),
            malformed,
        ),
        (
            "8.2.2 a field of one connection",
            get(1, &[("connection", "keep-alive")]),
            malformed,
        ),
        (
            "8.2.2 an encoding",
            get(1, &[("transfer-encoding", "chunked")]),
            malformed,
        ),
        (
            "8.2.2 trailers, and something else",
            get(1, &[("te", "trailers, deflate")]),
            malformed,
        ),
        (
            "8.3 an unknown pseudo field",
            with(&[&GET[..], &[(":x", "y")]].concat()),
            malformed,
        ),
        (
            "8.3 a pseudo field of answers",
            with(&[&GET[..], &[(":status", "200")]].concat()),
            malformed,
        ),
        (
            "8.3 a pseudo field after others",
            with(&[&GET[..2], &[("x", "y")], &GET[2..]].concat()),
            malformed,
        ),
        (
            "8.3.1 an empty path",
            with(&[GET[0], GET[1], (":path", ""), GET[3]]),
            malformed,
        ),
        ("8.3.1 no method", without(0), malformed),
        ("8.3.1 no scheme", without(1), malformed),
        ("8.3.1 no path", without(2), malformed),
        (
            "8.3.1 two methods",
            with(&[&GET[..1], &GET[..]].concat()),
            malformed,
        ),
        (
            "8.3.1 two schemes",
            with(&[&GET[..], &GET[1..2]].concat()),
            malformed,
        ),
        (
            "8.3.1 two paths",
            with(&[&GET[..], &GET[2..3]].concat()),
            malformed,
        ),
    ]
}
