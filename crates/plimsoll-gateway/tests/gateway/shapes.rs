//! Malformed requests and answers, and what comes of each. The tests of the program send them too.

/// What is sent, and what is answered: a status with the word of a fault.
pub(crate) const REQUESTS: &[(&str, &str, u16, &str)] = &[
    (
        "both lengths",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
        "both_lengths",
    ),
    (
        "both lengths, the other way round",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n",
        400,
        "both_lengths",
    ),
    (
        "two lengths",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        400,
        "bad_head",
    ),
    (
        "a list of lengths",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1, 2\r\n\r\nab",
        400,
        "bad_head",
    ),
    (
        "a negative length",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n",
        400,
        "bad_head",
    ),
    (
        "a length with a sign",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: +1\r\n\r\na",
        400,
        "bad_head",
    ),
    (
        "an encoding that does not end in chunks",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip\r\n\r\n",
        400,
        "bad_head",
    ),
    (
        "an encoding hidden by a space",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding : chunked\r\n\r\n",
        400,
        "bad_head",
    ),
    (
        "chunks in HTTP/1.0",
        "POST / HTTP/1.0\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
        "bad_head",
    ),
    (
        "a folded line",
        "GET / HTTP/1.1\r\nhost: a\r\nx: 1\r\n 2\r\n\r\n",
        400,
        "bad_head",
    ),
    (
        "line feeds alone",
        "GET / HTTP/1.1\nhost: a\n\n",
        400,
        "bare_line_feed",
    ),
    (
        "one line feed alone",
        "GET / HTTP/1.1\r\nhost: a\nx: 1\r\n\r\n",
        400,
        "bare_line_feed",
    ),
    (
        "a carriage return in a value",
        "GET / HTTP/1.1\r\nhost: a\r\nx: 1\r2\r\n\r\n",
        400,
        "bad_head",
    ),
    (
        "a zero in a value",
        "GET / HTTP/1.1\r\nhost: a\r\nx: 1\0\r\n\r\n",
        400,
        "bad_head",
    ),
    (
        "no name",
        "GET / HTTP/1.1\r\nhost: a\r\n: 1\r\n\r\n",
        400,
        "bad_head",
    ),
    (
        "a space in a name",
        "GET / HTTP/1.1\r\nhost: a\r\nx y: 1\r\n\r\n",
        400,
        "bad_head",
    ),
    ("no host", "GET / HTTP/1.1\r\n\r\n", 400, "bad_host"),
    (
        "two hosts",
        "GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        400,
        "bad_host",
    ),
    (
        "a host that is none",
        "GET / HTTP/1.1\r\nhost: a b\r\n\r\n",
        400,
        "bad_host",
    ),
    (
        "a host with a user",
        "GET / HTTP/1.1\r\nhost: u@a\r\n\r\n",
        400,
        "bad_host",
    ),
    ("no version", "GET /\r\n\r\n", 400, "bad_head"),
    (
        "another version",
        "GET / HTTP/3.0\r\nhost: a\r\n\r\n",
        400,
        "bad_head",
    ),
    ("garbage", "\x16\x03\x01\x02\r\n\r\n", 400, "bad_head"),
    (
        "a tunnel",
        "CONNECT a:443 HTTP/1.1\r\nhost: a:443\r\n\r\n",
        405,
        "connect",
    ),
    (
        "a length that is too large",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 65537\r\n\r\n",
        413,
        "body_too_large",
    ),
    (
        "a chunk without a size",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nx\r\n\r\n",
        400,
        "bad_body",
    ),
    (
        "a chunk longer than its size",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
        400,
        "bad_body",
    ),
    (
        "a chunk whose line ends in a line feed",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\na\n0\n\n",
        400,
        "bad_body",
    ),
    (
        "a size that overflows",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
        400,
        "bad_body",
    ),
];

/// Answers that are none: `broken_answer`.
pub(crate) const BROKEN_ANSWERS: &[(&str, &str)] = &[
    ("nothing", ""),
    ("garbage", "garbage\r\n\r\n"),
    ("another protocol", "SSH-2.0-x\r\n"),
    ("half a head", "HTTP/1.1 200 OK\r\ncontent-le"),
    (
        "two lengths",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
    ),
    (
        "a length that is none",
        "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
    ),
    ("a bad name", "HTTP/1.1 200 OK\r\nx y: 1\r\n\r\n"),
    (
        "a protocol nobody asked for",
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    ),
];

/// Answers that break off after their head.
pub(crate) const SHORT_ANSWERS: &[(&str, &str)] = &[
    (
        "shorter than it says",
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort",
    ),
    (
        "chunks without an end",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nshort\r\n",
    ),
    (
        "a malformed chunk",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nshort\r\nx\r\n",
    ),
];
