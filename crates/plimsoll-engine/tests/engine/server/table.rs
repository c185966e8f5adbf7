//! Every line of the file, and requests that show it.

/// The lines of the file that it shows, by how they begin; and requests, each with what is answered.
///
/// A request is a method and a path; the client behind the proxy that asks (`from`), header fields (`name:value`), a body
/// (`form=…`, `json=…`, or so many `bytes=…`), and how often it is sent (`x10`, each from another client where the address has
/// a `*`). What is answered is a status and a text that the answer contains. `hold` sends a head and not yet the body, `wait`
/// asks without an answer, until `release` sends the first body that is held and `answered` reads the last that waits. `memory`
/// says how many percent of it are used.
pub(super) const TABLE: &[(&[&str], &[&str])] = &[
    (
        &["x-each:", "per_client:", "- { match: /**"],
        &[
            "GET / from 192.0.2.1 x10 = 200 0 bytes",
            "GET / from 192.0.2.1 = 429 come back later",
            "GET /other from 192.0.2.1 = 429 \"per_client\";r=0;t=1",
            "GET / from 192.0.2.2 = 200",
            "advance 1000",
            "GET / from 192.0.2.1 x5 = 200",
            "GET / from 192.0.2.1 = 429",
        ],
    ),
    (
        &["answer: { body:"],
        &[
            "GET / from 192.0.2.1 x10 = 200",
            "GET / from 192.0.2.1 = 429 content-type: text/plain",
            "GET / from 192.0.2.1 = 429 too many requests, come back later",
        ],
    ),
    (
        &["- { match: /health"],
        &[
            "GET / from 192.0.2.1 x10 = 200",
            "GET /health from 192.0.2.1 x20 = 200",
            "GET /health/ from 192.0.2.1 = 429",
        ],
    ),
    (
        &["proxies:", "client: {"],
        &[
            "GET / from 192.0.2.1 x10 = 200",
            "GET / from 192.0.2.1, 10.1.2.3 = 429",
            "GET / from 192.0.2.1, 192.0.2.9 = 200",
            "direct GET / from 192.0.2.1 x5 = 200",
            "direct GET / from 192.0.2.7 x5 = 200",
            "direct GET / from 192.0.2.8 = 429",
        ],
    ),
    (
        &["ipv6_prefix:"],
        &[
            "GET / from 2001:db8::1 x5 = 200",
            "GET / from 2001:db8:0:ff::1 x5 = 200",
            "GET / from 2001:db8:0:7::2 = 429",
            "GET / from 2001:db8:0:100::1 = 200",
        ],
    ),
    (
        &["slots:"],
        &[
            "fill slots POST /slow from 192.0.2.*",
            "wait GET / from 198.51.100.1",
            "release 200",
            "answered 200",
            "hold POST /slow from 198.51.100.1",
            "wait GET / from 198.51.100.2",
            "advance 251",
            "answered 503",
        ],
    ),
    (
        &["tomorrow:"],
        &[
            "GET / from 192.0.2.1 x2 = 200",
            "shadow tomorrow 0",
            "GET / from 192.0.2.1 = 200",
            "shadow tomorrow 1",
        ],
    ),
    (
        &["logins:", "- { name: login"],
        &[
            "POST /login from 192.0.2.1 form=user=anna&password=good x3 = 200 welcome",
            "POST /login from 192.0.2.1 form=user=anna&password=bad x5 = 401",
            "POST /login from 192.0.2.1 form=user=anna&password=good = 429",
            "POST /login from 192.0.2.1 form=user=bert&password=bad = 401",
            "advance 2000",
            "POST /login from 192.0.2.2 form=user=anna&password=bad = 401",
            "POST /login from 192.0.2.1 form=password=bad x6 = 401",
            "POST /sessions from 192.0.2.1 form=user=anna = 429",
            "POST /sessions from 192.0.2.1 form=user=cleo = 200",
            "GET /sessions from 192.0.2.1 = 200",
        ],
    ),
    (
        &[
            "per_token:",
            "rate: 60/min",
            "key: header:authorization",
            "answer: { status: 429",
            "- { match: /v1/**, hosts",
        ],
        &[
            "POST /v1/model host:api.example.com authorization:a x-account:7 json={\"max_tokens\":1} x60 = 200 MAX_TOKENS",
            "POST /v1/model host:api.example.com authorization:a x-account:7 json={} = 429 https://example.com/problems/quota",
            "POST /v1/model host:api.example.com authorization:a x-account:7 json={} = 429 the quota of this token is used up",
            "POST /v1/model host:eu.api.example.com authorization:b x-account:7 json={} = 200",
            "POST /v1/model host:example.com from 192.0.2.1 authorization:a json={} = 500",
            "advance 1000",
            "POST /v1/model host:api.example.com authorization:a x-account:7 json={} = 200",
        ],
    ),
    (
        &["tiers:"],
        &[
            "POST /v1/model host:api.example.com authorization:a x-account:7 json={} x60 = 200",
            "POST /v1/model host:api.example.com authorization:a x-account:7 x-plan:other json={} = 429",
            "POST /v1/model host:api.example.com authorization:a x-account:7 x-plan:pro json={} x940 = 200",
            "POST /v1/model host:api.example.com authorization:a x-account:7 x-plan:pro json={} = 429",
            "POST /v1/model host:api.example.com authorization:a x-account:7 x-plan:internal json={} x5 = 200",
        ],
    ),
    (
        &["overrides:"],
        &[
            "POST /v1/model host:api.example.com authorization:Bearer_robot x-account:7 json={} = 200",
            "POST /v1/model host:api.example.com authorization:Bearer_robot x-account:7 json={} = 429",
            "POST /v1/model host:api.example.com authorization:Bearer_stolen x-account:7 json={} = 429",
        ],
    ),
    (
        &["without_key:"],
        &[
            "POST /v1/model host:api.example.com x-account:7 json={} x60 = 200",
            "POST /v1/model host:api.example.com x-account:8 json={} = 429",
        ],
    ),
    (
        &[
            "tokens:",
            "rate: 100k/min",
            "key: header:x-account",
            "cost: { estimate",
        ],
        &[
            "POST /v1/model host:api.example.com authorization:a json={} = 400",
            "POST /v1/model host:api.example.com authorization:a x-account:7 json={\"max_tokens\":900000} = 200",
            "POST /v1/model host:api.example.com authorization:a x-account:7 json=60000 x2 = 200",
            "POST /v1/model host:api.example.com authorization:a x-account:7 json={} = 429",
            "POST /v1/model host:api.example.com authorization:a x-account:8 json={} = 200",
        ],
    ),
    (
        &["api:", "- { match: /v1/**, headers"],
        &[
            "GET /v1/x x-debug:yes x5 = 200",
            "wait GET /v1/x x-debug:yes",
            "advance 10",
            "answered 200",
            "GET /v1/x from 192.0.2.1 x10 = 200",
            "GET /v1/x from 192.0.2.1 = 429",
        ],
    ),
    (
        &["exports:", "- { match: /reports/**"],
        &[
            "GET /reports/july x1000 = 200",
            "GET /reports/july = 503 not now",
            "GET /reports = 503 x-team: exports",
        ],
    ),
    (
        &[
            "disk:",
            "uploads:",
            "kind: all",
            "of:",
            "- disk",
            "- { match: /upload/**",
        ],
        &[
            "hold POST /upload/a from 192.0.2.* x4",
            "advance 100",
            "wait POST /upload/a from 192.0.2.9 bytes=3",
            "wait POST /upload/a from 192.0.2.8 bytes=4",
            "release 200",
            "answered 200 4 bytes",
            "answered 200 3 bytes",
        ],
    ),
    (
        &["- { kind: fixed_window"],
        &[
            "paced POST /upload/a from 198.51.*.7 bytes=1 x1000 = 200",
            "advance 100",
            "POST /upload/a from 192.0.2.1 bytes=1 = 429 \"uploads\";q=1000;w=3600",
        ],
    ),
    (
        &["bytes:", "- { match: /download/**"],
        &[
            "GET /download/3000000 from 192.0.2.1 = 200",
            "GET /download/1 from 192.0.2.2 = 503 the limit is used up",
            "advance 300",
            "GET /download/1 from 192.0.2.2 = 200 x",
        ],
    ),
    (
        &["ingest:", "public:", "guard:"],
        &[
            "GET /download/1 from 192.0.2.* x5 = 200",
            "wait GET /download/1 from 192.0.2.6",
            "advance 10",
            "answered 200",
            "advance 1000",
            "POST /upload/a from 192.0.2.7 bytes=900000 = 200",
            "POST /upload/a from 192.0.2.8 bytes=900000 = 429 \"bytes\"",
            "memory 81",
            "POST /upload/a from 192.0.2.9 = 503",
            "GET / from 192.0.2.9 = 200",
            "memory 20",
            "POST /upload/a from 192.0.2.9 = 200",
        ],
    ),
    (
        &["- { match: /users/*/events"],
        &[
            "GET /users/7/events from 192.0.2.1 x10 = 200",
            "GET /users/8/events from 192.0.2.1 = 429",
            "GET /users//events from 192.0.2.1 = 429",
        ],
    ),
];
