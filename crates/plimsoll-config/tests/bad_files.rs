//! Files that are wrong: for each the whole message, with file, line, column, field, what was expected and the nearest
//! name. It is one table, and long because there is much that can be wrong.

use plimsoll_config::{Config, Format};

struct Bad {
    what: &'static str,
    file: &'static str,
    text: &'static str,
    says: &'static str,
}

#[test]
fn every_mistake_is_named_with_its_place() {
    check(&TABLE);
}

#[cfg(feature = "redis")]
#[test]
fn every_mistake_about_stores_is_named_with_its_place() {
    check(&STORES);
}

#[cfg(not(feature = "redis"))]
#[test]
fn without_a_client_there_are_no_stores() {
    check(&[Bad {
        what: "a store",
        file: "limits.yaml",
        text: "limiters: {}\nstores: { main: { url: redis://127.0.0.1 } }\n",
        says: "limits.yaml:2:1: stores: stores need the feature `redis` of plimsoll-config, and this program was built without it",
    }]);
}

#[track_caller]
fn check(table: &[Bad]) {
    let mut wrong = Vec::new();
    for bad in table {
        let says = match Config::from_str(bad.file, bad.text, Format::of(bad.file.as_ref())) {
            Ok(_) => "nothing".to_owned(),
            Err(error) => {
                assert!(
                    error.line().is_some() && error.column().is_some(),
                    "{}",
                    bad.what
                );
                error.to_string()
            }
        };
        if says != bad.says {
            wrong.push(format!(
                "{}:\n  expected {}\n  found    {says}",
                bad.what, bad.says
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_file_that_is_not_there_has_no_place() {
    let error = Config::from_file("no/such/file.yaml").expect_err("no file");
    assert_eq!(error.line(), None);
    assert!(
        error
            .to_string()
            .starts_with("no/such/file.yaml: cannot be read: ")
    );
}

#[test]
fn what_could_exhaust_memory_or_the_stack_is_refused() {
    let deep = format!("limiters: {}1{}", "{ a: ".repeat(100), " }".repeat(100));
    let lists = format!("limiters = {}{}", "[".repeat(70), "]".repeat(70));
    let chain: String = (0..100)
        .map(|at| format!("  l{at}: {{ kind: all, of: [l{}] }}\n", at + 1))
        .collect();
    let chain = format!("limiters:\n{chain}  l100: {{ kind: concurrency, limit: 1 }}\n");
    let wide: String = (0..100)
        .map(|at| format!("  l{at}: {{ kind: concurrency, limit: 1 }}\n"))
        .collect();
    let names: Vec<String> = (0..100).map(|at| format!("l{at}")).collect();
    let wide = format!(
        "limiters:\n{wide}  all: {{ kind: all, of: [{}] }}\n",
        names.join(", ")
    );
    let cases = [
        (deep, Format::Yaml, "nested more than 64 deep"),
        (lists, Format::Toml, "nested more than 64 deep"),
        (chain, Format::Yaml, "`all` nested more than 64 deep"),
        (wide, Format::Yaml, "more than 64 limiters behind one `all`"),
    ];
    for (text, format, says) in cases {
        let error = Config::from_str("limits", &text, format).expect_err(says);
        assert!(error.to_string().contains(says), "{error}");
    }
}

const TABLE: [Bad; 98] = [
    Bad {
        what: "an unknown field",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: token_bucket, brust: 20, refill: 1, every: 1s }
",
        says: "limits.yaml:2:30: limiters.api.brust: unknown field of the limiter `token_bucket`, did you mean `burst`?",
    },
    Bad {
        what: "an unknown field of the file",
        file: "limits.yaml",
        text: "limitors: {}
",
        says: "limits.yaml:1:1: limitors: unknown field of a configuration file, did you mean `limiters`?",
    },
    Bad {
        what: "an unknown common field",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: concurrency, limit: 1, kyed: true }
",
        says: "limits.yaml:2:39: limiters.api.kyed: unknown field of the limiter `concurrency`, did you mean `keyed`?",
    },
    Bad {
        what: "a field of another kind",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: concurrency, limit: 1, burst: 3 }
",
        says: "limits.yaml:2:39: limiters.api.burst: unknown field of the limiter `concurrency`, known are limit, lease, queue, keyed, max_keys, name, store, outage, borrow, kind",
    },
    Bad {
        what: "an unknown kind",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: token_buket, burst: 20 }
",
        says: r#"limits.yaml:2:16: limiters.api.kind: unknown word "token_buket", did you mean `token_bucket`?"#,
    },
    Bad {
        what: "no kind",
        file: "limits.yaml",
        text: "limiters:
  api: { limit: 20 }
",
        says: "limits.yaml:2:8: limiters.api.kind: this field is missing",
    },
    Bad {
        what: "a missing field",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: concurrency }
",
        says: "limits.yaml:2:8: limiters.api.limit: this field is missing",
    },
    Bad {
        what: "no limiter at all",
        file: "limits.yaml",
        text: "limiters:
  api: 5
",
        says: r#"limits.yaml:2:8: limiters.api: expected a limiter: a map with a `kind`, found "5""#,
    },
    Bad {
        what: "nothing where a limiter should be",
        file: "limits.yaml",
        text: "limiters:
  api:
",
        says: "limits.yaml:2:6: limiters.api: expected a limiter: a map with a `kind`, found nothing",
    },
    Bad {
        what: "a list of limiters",
        file: "limits.yaml",
        text: "limiters: [{ kind: concurrency, limit: 1 }]
",
        says: "limits.yaml:1:11: limiters: expected a map of names, found a list",
    },
    Bad {
        what: "a wrong unit",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: fixed_window, limit: 1, window: 5w }
",
        says: r#"limits.yaml:2:48: limiters.api.window: expected a duration with its unit such as 250ms, 1s, 5m, 1h or 1d, found "5w""#,
    },
    Bad {
        what: "a number without a unit",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: token_bucket, burst: 1, refill: 1, every: 60 }
",
        says: r#"limits.yaml:2:58: limiters.api.every: expected a duration with its unit such as 250ms, 1s, 5m, 1h or 1d, found "60", did you mean `60s`?"#,
    },
    Bad {
        what: "a number of milliseconds without a unit",
        file: "limits.json",
        text: r#"{ "limiters": { "api": { "kind": "fixed_window", "limit": 1, "window": 5000 } } }"#,
        says: r#"limits.json:1:72: limiters.api.window: expected a duration with its unit such as 250ms, 1s, 5m, 1h or 1d, found "5000", did you mean `5000ms`?"#,
    },
    Bad {
        what: "a fraction of a unit",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: fixed_window, limit: 1, window: 1.5s }
",
        says: r#"limits.yaml:2:48: limiters.api.window: expected a duration with its unit such as 250ms, 1s, 5m, 1h or 1d, found "1.5s""#,
    },
    Bad {
        what: "a duration of nothing",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: fixed_window, limit: 1, window: 0s }
",
        says: r#"limits.yaml:2:48: limiters.api.window: expected a duration above 0, found "0s""#,
    },
    Bad {
        what: "too long a duration",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: fixed_window, limit: 1, window: 300000d }
",
        says: r#"limits.yaml:2:48: limiters.api.window: expected a duration of at most 213503d, found "300000d""#,
    },
    Bad {
        what: "a limit of 0",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: concurrency, limit: 0 }
",
        says: r#"limits.yaml:2:36: limiters.api.limit: expected a whole number from 1 to 4294967295, found "0""#,
    },
    Bad {
        what: "a limit in quotes",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: concurrency, limit: '4' }
",
        says: r#"limits.yaml:2:36: limiters.api.limit: expected a whole number from 1 to 4294967295, found the text "4""#,
    },
    Bad {
        what: "a limit that is too large",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: concurrency, limit: 4294967296 }
",
        says: r#"limits.yaml:2:36: limiters.api.limit: expected a whole number from 1 to 4294967295, found "4294967296""#,
    },
    Bad {
        what: "a negative rate",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: smooth_bursty, rate: -1 }
",
        says: r#"limits.yaml:2:37: limiters.api.rate: expected a number above 0, found "-1""#,
    },
    Bad {
        what: "a flag that is none",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: concurrency, limit: 1, keyed: yes }
",
        says: r#"limits.yaml:2:46: limiters.api.keyed: expected true or false, found "yes""#,
    },
    Bad {
        what: "an unknown word",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: fixed_window, limit: 1, window: 1s, align: epok }
",
        says: r#"limits.yaml:2:59: limiters.api.align: unknown word "epok", known are start, epoch"#,
    },
    Bad {
        what: "an unknown field of a queue",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: concurrency, limit: 1, queue: { bonud: 3 } }
",
        says: "limits.yaml:2:48: limiters.api.queue.bonud: unknown field of a queue, did you mean `bound`?",
    },
    Bad {
        what: "an unknown order",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: concurrency, limit: 1, queue: { bound: 3, order: fofi } }
",
        says: r#"limits.yaml:2:65: limiters.api.queue.order: unknown word "fofi", known are fifo, lifo"#,
    },
    Bad {
        what: "a queue that is a number",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: concurrency, limit: 1, queue: 5 }
",
        says: r#"limits.yaml:2:46: limiters.api.queue: expected a queue such as { bound: 10 }, found "5""#,
    },
    Bad {
        what: "a queue with nothing",
        file: "limits.yaml",
        text: "limiters:
  api:
    kind: concurrency
    limit: 1
    queue:
",
        says: "limits.yaml:5:10: limiters.api.queue: expected a queue such as { bound: 10 }, found nothing",
    },
    Bad {
        what: "an unknown algorithm",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: adaptive, algorithm: vega }
",
        says: r#"limits.yaml:2:37: limiters.api.algorithm: unknown word "vega", did you mean `vegas`?"#,
    },
    Bad {
        what: "an unknown parameter",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: adaptive, algorithm: vegas, intial: 5 }
",
        says: "limits.yaml:2:44: limiters.api.intial: unknown field of the algorithm `vegas`, did you mean `initial`?",
    },
    Bad {
        what: "a parameter of what is behind windows",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: adaptive, algorithm: windowed, delegate: { algorithm: aimd, backof: 0.8 } }
",
        says: "limits.yaml:2:76: limiters.api.delegate.backof: unknown field of the algorithm `aimd`, did you mean `backoff`?",
    },
    Bad {
        what: "bounds that do not go together",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: adaptive, algorithm: verdict, min: 30, max: 20 }
",
        says: "limits.yaml:2:60: limiters.api.max: expected at least the minimum, found 20",
    },
    Bad {
        what: "a bound beside a default",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: adaptive, algorithm: aimd, initial: 5 }
",
        says: "limits.yaml:2:52: limiters.api.initial: expected from the minimum to the maximum, found 5",
    },
    Bad {
        what: "a bound behind windows",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: adaptive, algorithm: windowed, delegate: { algorithm: vegas, initial: 5000 } }
",
        says: "limits.yaml:2:86: limiters.api.delegate.initial: expected from the minimum to the maximum, found 5000",
    },
    Bad {
        what: "more tokens than the burst",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: token_bucket, burst: 2, refill: 1, every: 1s, initial: 3 }
",
        says: "limits.yaml:2:71: limiters.api.initial: expected at most the burst, found 3",
    },
    Bad {
        what: "too many segments",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: sliding_window, limit: 1, window: 1s, segments: 100000 }
",
        says: "limits.yaml:2:64: limiters.api.segments: expected 1 to 65536, found 100000",
    },
    Bad {
        what: "a bandwidth that refuses its numbers",
        file: "limits.yaml",
        text: "limiters:
  api:
    kind: bandwidths
    limits:
      - { burst: 1, refill: 1, every: 1s }
      - { burst: 1, refill: 1, every: 1s, initial: 2 }
",
        says: "limits.yaml:6:52: limiters.api.limits[1].initial: expected at most the burst, found 2",
    },
    Bad {
        what: "no bandwidths",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: bandwidths, limits: [] }
",
        says: "limits.yaml:2:36: limiters.api.limits: expected a list of bandwidths, found an empty list",
    },
    Bad {
        what: "keys without keyed",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: concurrency, limit: 1, max_keys: 5 }
",
        says: "limits.yaml:2:39: limiters.api.max_keys: only a limiter with `keyed: true` has keys",
    },
    Bad {
        what: "keys for an adaptive limit",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: adaptive, algorithm: verdict, keyed: true }
",
        says: "limits.yaml:2:46: limiters.api.keyed: `adaptive` has no keys: expected a limiter of another kind, or false",
    },
    Bad {
        what: "a queue of all",
        file: "limits.yaml",
        text: "limiters:
  a: { kind: concurrency, limit: 1 }
  b: { kind: all, of: [a], queue: { bound: 3 } }
",
        says: "limits.yaml:3:28: limiters.b.queue: `all` has no queue: who waits does so in the queue of a member",
    },
    Bad {
        what: "a percentage above 100",
        file: "limits.yaml",
        text: "limiters:
  m: { kind: memory, hard_limit: 120% }
",
        says: r#"limits.yaml:2:34: limiters.m.hard_limit: expected a percentage such as 80%, or bytes such as 512MiB, 2GiB, 64KiB or 1000000B, found "120%""#,
    },
    Bad {
        what: "an amount without a unit",
        file: "limits.yaml",
        text: "limiters:
  m: { kind: memory, hard_limit: 512MB }
",
        says: r#"limits.yaml:2:34: limiters.m.hard_limit: expected a percentage such as 80%, or bytes such as 512MiB, 2GiB, 64KiB or 1000000B, found "512MB""#,
    },
    Bad {
        what: "a threshold that is no percentage",
        file: "limits.yaml",
        text: "limiters:
  c: { kind: cpu, threshold: 0.9 }
",
        says: r#"limits.yaml:2:30: limiters.c.threshold: expected a percentage from 1% to 100%, found "0.9""#,
    },
    Bad {
        what: "a queue of what says yes or no",
        file: "limits.yaml",
        text: "limiters:
  c: { kind: cpu, threshold: 90%, queue: { bound: 1 } }
",
        says: "limits.yaml:2:35: limiters.c.queue: `cpu` has no queue: it says yes or no at once",
    },
    Bad {
        what: "a member that does not exist",
        file: "limits.yaml",
        text: "limiters:
  disk: { kind: concurrency, limit: 1 }
  both: { kind: all, of: [dsik] }
",
        says: "limits.yaml:3:27: limiters.both.of[0]: there is no limiter `dsik`, did you mean `disk`?",
    },
    Bad {
        what: "no members",
        file: "limits.yaml",
        text: "limiters:
  both: { kind: all, of: [] }
",
        says: "limits.yaml:2:26: limiters.both.of: expected a list of limiters, found an empty list",
    },
    Bad {
        what: "a member that is a list",
        file: "limits.yaml",
        text: "limiters:
  both: { kind: all, of: [[a]] }
",
        says: "limits.yaml:2:27: limiters.both.of[0]: expected a limiter: a map with a `kind`, found a list",
    },
    Bad {
        what: "a mistake in a member described on the spot",
        file: "limits.yaml",
        text: "limiters:
  both: { kind: all, of: [{ kind: concurrency, limt: 1 }] }
",
        says: "limits.yaml:2:48: limiters.both.of[0].limt: unknown field of the limiter `concurrency`, did you mean `limit`?",
    },
    Bad {
        what: "a member with keys",
        file: "limits.yaml",
        text: "limiters:
  a: { kind: concurrency, limit: 1, keyed: true }
  b: { kind: all, of: [a] }
",
        says: "limits.yaml:3:24: limiters.b.of[0]: `a` has keys, and `all` knows none: expected a limiter without `keyed`",
    },
    Bad {
        what: "a member that is a provider",
        file: "limits.yaml",
        text: "limiters:
  a: { kind: concurrency, limit: 1 }
  b: { kind: all, of: [p] }
providers: { p: { request_count: a } }
",
        says: "limits.yaml:3:24: limiters.b.of[0]: `p` is a provider: expected a limiter",
    },
    Bad {
        what: "a cycle of one",
        file: "limits.yaml",
        text: "limiters:
  a: { kind: all, of: [a] }
",
        says: "limits.yaml:2:24: limiters.a.of[0]: a cycle: a -> a",
    },
    Bad {
        what: "a cycle of three",
        file: "limits.yaml",
        text: "limiters:
  a: { kind: all, of: [b] }
  b: { kind: all, of: [c] }
  c:
    kind: all
    of: [a]
",
        says: "limits.yaml:6:10: limiters.c.of[0]: a cycle: a -> b -> c -> a",
    },
    Bad {
        what: "a member that is charged twice",
        file: "limits.yaml",
        text: "limiters:
  a: { kind: concurrency, limit: 1 }
  b: { kind: all, of: [a] }
  c: { kind: all, of: [a, b] }
",
        says: "limits.yaml:4:27: limiters.c.of[1]: `a` would be charged twice",
    },
    Bad {
        what: "the same name twice in a section",
        file: "limits.yaml",
        text: "limiters:
  a: { kind: concurrency, limit: 1 }
  a: { kind: concurrency, limit: 2 }
",
        says: "limits.yaml:3:3: limiters.a: this field is here twice: first in line 2",
    },
    Bad {
        what: "the same name in two sections",
        file: "limits.yaml",
        text: "limiters:
  a: { kind: concurrency, limit: 1 }
providers:
  a: { request_count: a }
",
        says: "limits.yaml:4:3: providers.a: the name `a` is here twice: first in line 2, in `limiters`",
    },
    Bad {
        what: "the same name given to two",
        file: "limits.yaml",
        text: "limiters:
  a: { kind: concurrency, limit: 1 }
  b: { kind: concurrency, limit: 1, name: a }
",
        says: "limits.yaml:3:43: limiters.b.name: the name `a` is here twice: first in line 2",
    },
    Bad {
        what: "a name that is none",
        file: "limits.yaml",
        text: "limiters:
  my limiter: { kind: concurrency, limit: 1 }
",
        says: r#"limits.yaml:2:3: limiters."my limiter": expected a name of at most 64 letters, digits, `_`, `-` and `.`, found "my limiter""#,
    },
    Bad {
        what: "an unknown weight",
        file: "limits.yaml",
        text: "limiters:
  a: { kind: concurrency, limit: 1 }
providers:
  p: { request_cuont: a }
",
        says: "limits.yaml:4:8: providers.p.request_cuont: unknown weight, did you mean `request_count`? (others are named in `weights`)",
    },
    Bad {
        what: "a weight that is known anyway",
        file: "limits.yaml",
        text: "weights: [memory_size]
",
        says: "limits.yaml:1:11: weights[0]: `memory_size` is known without being named here",
    },
    Bad {
        what: "a provider of nothing",
        file: "limits.yaml",
        text: "providers: { p: {} }
",
        says: "limits.yaml:1:17: providers.p: expected at least one limiter, found none",
    },
    Bad {
        what: "a provider of a limiter that does not exist",
        file: "limits.yaml",
        text: "limiters:
  a: { kind: concurrency, limit: 1 }
providers: { p: { request_count: b1 } }
",
        says: "limits.yaml:3:34: providers.p.request_count: there is no limiter `b1`, known are a",
    },
    Bad {
        what: "two limiters for a weight",
        file: "limits.yaml",
        text: "limiters:
  a: { kind: concurrency, limit: 1 }
providers: { p: { request_count: [a, a] } }
",
        says: "limits.yaml:3:34: providers.p.request_count: expected the name of one limiter; several go together as `kind: all`, found a list",
    },
    Bad {
        what: "a rate where only yes or no can stand",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: token_bucket, burst: 1, refill: 1, every: 1s }
providers: { p: { basic: [api] } }
",
        says: "limits.yaml:3:27: providers.p.basic[0]: `api` (token_bucket) is a rate limiter: expected a basic one",
    },
    Bad {
        what: "a provider of a limiter with keys",
        file: "limits.yaml",
        text: "limiters:
  a: { kind: concurrency, limit: 1, keyed: true }
providers: { p: { request_count: a } }
",
        says: "limits.yaml:3:34: providers.p.request_count: `a` has keys, and nobody knows one here: expected a limiter without `keyed`",
    },
    Bad {
        what: "middleware that does not exist",
        file: "limits.yaml",
        text: "limiters:
  per_user: { kind: concurrency, limit: 1, keyed: true }
middleware:
  public: [per_usr]
",
        says: "limits.yaml:4:12: middleware.public[0]: there is no limiter, provider or list of middleware `per_usr`, did you mean `per_user`?",
    },
    Bad {
        what: "a list of nothing",
        file: "limits.yaml",
        text: "middleware: { public: [] }
",
        says: "limits.yaml:1:23: middleware.public: expected a list of names, found an empty list",
    },
    Bad {
        what: "a cycle of lists",
        file: "limits.yaml",
        text: "middleware:
  a: [b]
  b: [a]
",
        says: "limits.yaml:3:7: middleware.b[0]: a cycle: a -> b -> a",
    },
    Bad {
        what: "middleware that is asked twice",
        file: "limits.yaml",
        text: "limiters:
  a: { kind: concurrency, limit: 1 }
middleware: { m: [a, a] }
",
        says: "limits.yaml:3:22: middleware.m[1]: `a` would be asked twice",
    },
    Bad {
        what: "a route to nothing",
        file: "limits.yaml",
        text: "routes:
  - { match: / }
",
        says: "limits.yaml:2:5: routes[0]: nothing hangs here: expected `middleware` or `bytes`",
    },
    Bad {
        what: "a route to what does not exist",
        file: "limits.yaml",
        text: "limiters:
  disk: { kind: concurrency, limit: 1 }
routes:
  - { match: /, middleware: disc }
",
        says: "limits.yaml:4:29: routes[0].middleware: there is no limiter, provider or list of middleware `disc`, did you mean `disk`?",
    },
    Bad {
        what: "an unknown field of a route",
        file: "limits.yaml",
        text: "limiters:
  a: { kind: concurrency, limit: 1 }
routes:
  - { macth: /, middleware: a }
",
        says: "limits.yaml:4:7: routes[0].macth: unknown field of a route, did you mean `match`?",
    },
    Bad {
        what: "a pattern without a slash",
        file: "limits.yaml",
        text: "limiters:
  a: { kind: concurrency, limit: 1 }
routes: [{ match: upload, middleware: a }]
",
        says: r#"limits.yaml:3:19: routes[0].match: expected a path that begins with `/`, found "upload""#,
    },
    Bad {
        what: "two stars in the middle",
        file: "limits.yaml",
        text: "limiters:
  a: { kind: concurrency, limit: 1 }
routes: [{ match: /a/**/b, middleware: a }]
",
        says: r#"limits.yaml:3:19: routes[0].match: expected `**` only at the end, found "/a/**/b""#,
    },
    Bad {
        what: "the same pattern twice",
        file: "limits.yaml",
        text: "limiters:
  a: { kind: concurrency, limit: 1 }
routes:
  - { match: /a, middleware: a }
  - { match: /a, middleware: a }
",
        says: "limits.yaml:5:14: routes[1].match: this is matched before, by routes[0]",
    },
    Bad {
        what: "a resource where bytes are counted",
        file: "limits.yaml",
        text: "limiters:
  disk: { kind: concurrency, limit: 4 }
routes:
  - { match: /, bytes: disk }
",
        says: "limits.yaml:4:24: routes[0].bytes: `disk` (concurrency) is a resource limiter: expected a rate or basic one, because bytes are counted and not held",
    },
    Bad {
        what: "a resource inside of all where bytes are counted",
        file: "limits.yaml",
        text: "limiters:
  r: { kind: fixed_window, limit: 1, window: 1s }
  both: { kind: all, of: [r, { kind: concurrency, limit: 1 }] }
routes:
  - { match: /, bytes: both }
",
        says: "limits.yaml:5:24: routes[0].bytes: `both` (all) is a resource limiter: expected a rate or basic one, because bytes are counted and not held",
    },
    Bad {
        what: "a resource where nothing is held",
        file: "limits.yaml",
        text: "limiters:
  disk: { kind: concurrency, limit: 4 }
middleware: { m: [disk] }
routes:
  - { match: /, middleware: m, holds: false }
",
        says: "limits.yaml:5:29: routes[0].middleware: `disk` (concurrency) is a resource limiter: expected a rate or basic one, because this route holds no permits",
    },
    Bad {
        what: "a resource in a provider where nothing is held",
        file: "limits.yaml",
        text: "limiters:
  disk: { kind: concurrency, limit: 4 }
providers: { p: { request_count: disk } }
routes:
  - { match: /, middleware: [p], holds: false }
",
        says: "limits.yaml:5:29: routes[0].middleware: `disk` (concurrency) is a resource limiter: expected a rate or basic one, because this route holds no permits",
    },
    Bad {
        what: "no file",
        file: "limits.yaml",
        text: "
",
        says: "limits.yaml:1:1: expected a configuration file: a map with `limiters`, found nothing",
    },
    Bad {
        what: "no map",
        file: "limits.yaml",
        text: "hello
",
        says: r#"limits.yaml:1:1: expected a configuration file: a map with `limiters`, found "hello""#,
    },
    Bad {
        what: "not YAML",
        file: "limits.yaml",
        text: "limiters: { api: [
",
        says: "limits.yaml:1:18: not YAML: unclosed bracket '['",
    },
    Bad {
        what: "two documents",
        file: "limits.yaml",
        text: "limiters: {}
---
limiters: {}
",
        says: "limits.yaml:2:1: a file holds one document: a second one begins here",
    },
    Bad {
        what: "an unknown field",
        file: "limits.toml",
        text: r#"[limiters.api]
kind = "token_bucket"
brust = 20
"#,
        says: "limits.toml:1:1: limiters.api.refill: this field is missing; limits.toml:1:1: limiters.api.every: this field is missing; limits.toml:3:1: limiters.api.brust: unknown field of the limiter `token_bucket`, did you mean `burst`?",
    },
    Bad {
        what: "a wrong unit",
        file: "limits.toml",
        text: r#"[limiters.api]
kind = "fixed_window"
limit = 5
window = "5 s"
"#,
        says: r#"limits.toml:4:10: limiters.api.window: expected a duration with its unit such as 250ms, 1s, 5m, 1h or 1d, found the text "5 s", did you mean `5s`?"#,
    },
    Bad {
        what: "a missing field",
        file: "limits.toml",
        text: r#"# limits

[limiters.api]
kind = "concurrency"
"#,
        says: "limits.toml:3:1: limiters.api.limit: this field is missing",
    },
    Bad {
        what: "a limit of 0 in another base",
        file: "limits.toml",
        text: r#"[limiters]
api = { kind = "concurrency", limit = 0x0 }
"#,
        says: r#"limits.toml:2:39: limiters.api.limit: expected a whole number from 1 to 4294967295, found "0""#,
    },
    Bad {
        what: "a date",
        file: "limits.toml",
        text: r#"[limiters]
api = { kind = "fixed_window", limit = 1, window = 2020-01-01 }
"#,
        says: r#"limits.toml:2:52: limiters.api.window: expected a duration with its unit such as 250ms, 1s, 5m, 1h or 1d, found "2020-01-01""#,
    },
    Bad {
        what: "a member that does not exist",
        file: "limits.toml",
        text: r#"[limiters.disk]
kind = "concurrency"
limit = 1

[limiters.both]
kind = "all"
of = [
  "disk",
  "dsk",
]
"#,
        says: "limits.toml:9:3: limiters.both.of[1]: there is no limiter `dsk`, did you mean `disk`?",
    },
    Bad {
        what: "the same name twice",
        file: "limits.toml",
        text: r#"[limiters.a]
kind = "concurrency"
limit = 1
[limiters.a]
kind = "concurrency"
"#,
        says: "limits.toml:4:11: a: not TOML: duplicate key",
    },
    Bad {
        what: "a resource where nothing is held",
        file: "limits.toml",
        text: r#"[limiters.a]
kind = "concurrency"
limit = 1

[[routes]]
match = "/"
middleware = "a"
holds = false
"#,
        says: "limits.toml:7:14: routes[0].middleware: `a` (concurrency) is a resource limiter: expected a rate or basic one, because this route holds no permits",
    },
    Bad {
        what: "not TOML",
        file: "limits.toml",
        text: "[limiters
",
        says: "limits.toml:1:10: not TOML: unclosed table, expected `]`",
    },
    Bad {
        what: "characters of several bytes",
        file: "limits.toml",
        text: r#"# für
[limiters]
"größe" = { kind = "concurrency", limit = 1 }
"#,
        says: r#"limits.toml:3:1: limiters.größe: expected a name of at most 64 letters, digits, `_`, `-` and `.`, found "größe""#,
    },
    Bad {
        what: "an unknown field",
        file: "limits.json",
        text: r#"{
  "limiters": {
    "api": { "kind": "concurrency", "limt": 1 }
  }
}
"#,
        says: "limits.json:3:37: limiters.api.limt: unknown field of the limiter `concurrency`, did you mean `limit`?",
    },
    Bad {
        what: "a number in quotes",
        file: "limits.json",
        text: r#"{ "limiters": { "api": { "kind": "concurrency", "limit": "1" } } }
"#,
        says: r#"limits.json:1:58: limiters.api.limit: expected a whole number from 1 to 4294967295, found the text "1""#,
    },
    Bad {
        what: "a null",
        file: "limits.json",
        text: r#"{ "limiters": { "api": { "kind": "concurrency", "limit": null } } }
"#,
        says: "limits.json:1:58: limiters.api.limit: expected a whole number from 1 to 4294967295, found nothing",
    },
    Bad {
        what: "a cycle",
        file: "limits.json",
        text: r#"{ "limiters": { "a": { "kind": "all", "of": ["b"] }, "b": { "kind": "all", "of": ["a"] } } }
"#,
        says: "limits.json:1:83: limiters.b.of[0]: a cycle: a -> b -> a",
    },
    Bad {
        what: "the same name twice",
        file: "limits.json",
        text: r#"{ "limiters": { "a": { "kind": "cpu", "threshold": "1%" }, "a": {} } }
"#,
        says: "limits.json:1:60: limiters.a: this field is here twice: first in line 1",
    },
    Bad {
        what: "YAML that is not JSON",
        file: "limits.json",
        text: r#"{ "limiters": {}, }
"#,
        says: "limits.json:1:19: not JSON: key must be a string",
    },
    Bad {
        what: "a comment",
        file: "limits.json",
        text: "{}
// no
",
        says: "limits.json:2:1: not JSON: trailing characters",
    },
];

/// What can be wrong with stores, and with limiters in them.
#[cfg(feature = "redis")]
const STORES: [Bad; 27] = [
    Bad {
        what: "a store that does not exist",
        file: "limits.yaml",
        text: "stores:
  main: { url: redis://127.0.0.1 }
limiters:
  api: { kind: concurrency, limit: 1, store: mian }
",
        says: "limits.yaml:4:46: limiters.api.store: there is no store `mian`, did you mean `main`?",
    },
    Bad {
        what: "a store that does not exist, of a member",
        file: "limits.toml",
        text: r#"[limiters.both]
kind = "all"
of = [{ kind = "concurrency", limit = 1, store = "main" }]
"#,
        says: "limits.toml:3:50: limiters.both.of[0].store: there is no store `main`",
    },
    Bad {
        what: "a kind that cannot be kept",
        file: "limits.yaml",
        text: "stores: { main: { url: redis://127.0.0.1 } }
limiters:
  api: { kind: smooth_bursty, rate: 1, store: main }
",
        says: "limits.yaml:3:40: limiters.api.store: `smooth_bursty` cannot be kept in a store: expected one of fixed_window, sliding_window, sliding_log, sliding_counter, token_bucket, bandwidths, concurrency",
    },
    Bad {
        what: "a kind that cannot be kept",
        file: "limits.json",
        text: r#"{ "stores": { "main": { "url": "redis://127.0.0.1" } },
  "limiters": { "a": { "kind": "concurrency", "limit": 1 }, "b": { "kind": "all", "of": ["a"], "store": "main" } } }
"#,
        says: "limits.json:2:96: limiters.b.store: `all` cannot be kept in a store: expected one of fixed_window, sliding_window, sliding_log, sliding_counter, token_bucket, bandwidths, concurrency",
    },
    Bad {
        what: "a queue beside a store",
        file: "limits.yaml",
        text: "stores: { main: { url: redis://127.0.0.1 } }
limiters:
  api: { kind: concurrency, limit: 1, store: main, queue: { bound: 3 } }
",
        says: "limits.yaml:3:52: limiters.api.queue: a limiter in a store has no queue: it says yes or no at once",
    },
    Bad {
        what: "a bound on keys beside a store",
        file: "limits.toml",
        text: r#"[stores.main]
url = "redis://127.0.0.1"
[limiters.api]
kind = "concurrency"
limit = 1
store = "main"
keyed = true
max_keys = 10
"#,
        says: "limits.toml:8:1: limiters.api.max_keys: a store has no bound on keys: expected no `max_keys` beside `store`",
    },
    Bad {
        what: "an outage without a store",
        file: "limits.yaml",
        text: "limiters:
  api: { kind: concurrency, limit: 1, outage: deny }
",
        says: "limits.yaml:2:39: limiters.api.outage: only a limiter with a `store` can be cut off from it",
    },
    Bad {
        what: "borrowing without a store",
        file: "limits.json",
        text: r#"{ "limiters": { "api": { "kind": "fixed_window", "limit": 1, "window": "1s", "borrow": { "most": 5 } } } }
"#,
        says: "limits.json:1:78: limiters.api.borrow: only a limiter with a `store` can borrow from it",
    },
    Bad {
        what: "a lease without a store",
        file: "limits.toml",
        text: r#"[limiters.api]
kind = "concurrency"
limit = 1
lease = "30s"
"#,
        says: "limits.toml:4:1: limiters.api.lease: only a limiter with a `store` has leases",
    },
    Bad {
        what: "a lease of a rate",
        file: "limits.yaml",
        text: "stores: { main: { url: redis://127.0.0.1 } }
limiters:
  api: { kind: sliding_counter, limit: 1, window: 1s, store: main, lease: 5s }
",
        says: "limits.yaml:3:68: limiters.api.lease: unknown field of the limiter `sliding_counter`, known are limit, window, queue, keyed, max_keys, name, store, outage, borrow, kind",
    },
    Bad {
        what: "a lease that is too short",
        file: "limits.yaml",
        text: "stores: { main: { url: redis://127.0.0.1 } }
limiters:
  api: { kind: concurrency, limit: 1, store: main, lease: 5ns }
",
        says: "limits.yaml:3:59: limiters.api.lease: expected 1ms to 146 years, found 5ns",
    },
    Bad {
        what: "borrowing what is given back",
        file: "limits.yaml",
        text: "stores: { main: { url: redis://127.0.0.1 } }
limiters:
  api: { kind: concurrency, limit: 1, store: main, borrow: {} }
",
        says: "limits.yaml:3:52: limiters.api.borrow: `concurrency` cannot borrow, because it is given back: expected a rate",
    },
    Bad {
        what: "borrowing from a log with gaps",
        file: "limits.yaml",
        text: "stores: { main: { url: redis://127.0.0.1 } }
limiters:
  api: { kind: sliding_log, limit: 1, window: 1s, min_gap: 1ms, store: main, borrow: {} }
",
        says: "limits.yaml:3:86: limiters.api.borrow: expected a rate without gaps, found a log with gaps",
    },
    Bad {
        what: "too many segments for a store",
        file: "limits.yaml",
        text: "stores: { main: { url: redis://127.0.0.1 } }
limiters:
  api: { kind: sliding_window, limit: 1, window: 1h, segments: 2000, store: main }
",
        says: "limits.yaml:3:64: limiters.api.segments: expected at most 1024 in Redis, found 2000",
    },
    Bad {
        what: "an unknown outage",
        file: "limits.yaml",
        text: "stores: { main: { url: redis://127.0.0.1 } }
limiters:
  api: { kind: concurrency, limit: 1, store: main, outage: admti }
",
        says: r#"limits.yaml:3:60: limiters.api.outage: unknown word "admti", did you mean `admit`?"#,
    },
    Bad {
        what: "more than the whole share",
        file: "limits.json",
        text: r#"{ "stores": { "main": { "url": "redis://127.0.0.1" } },
  "limiters": { "api": { "kind": "concurrency", "limit": 1, "store": "main", "outage": { "local": 1.5 } } } }
"#,
        says: "limits.json:2:99: limiters.api.outage.local: expected above 0 and at most 1, found 1.5",
    },
    Bad {
        what: "a list of outages",
        file: "limits.yaml",
        text: "stores: { main: { url: redis://127.0.0.1 } }
limiters:
  api: { kind: concurrency, limit: 1, store: main, outage: [deny] }
",
        says: "limits.yaml:3:60: limiters.api.outage: expected `admit`, `deny` or a share such as { local: 0.25 }, found a list",
    },
    Bad {
        what: "an address of something else",
        file: "limits.yaml",
        text: "stores:
  main: { url: postgres://anna:secret@localhost }
",
        says: r#"limits.yaml:2:16: stores.main.url: expected the address of a Redis such as redis://127.0.0.1:6379, or rediss://127.0.0.1:6379 with TLS, found "…@localhost""#,
    },
    Bad {
        what: "an address that cannot be understood",
        file: "limits.toml",
        text: r#"[stores.main]
url = "redis://127.0.0.1:port"
"#,
        says: r#"limits.toml:2:7: stores.main.url: expected the address of a Redis such as redis://127.0.0.1:6379, or rediss://127.0.0.1:6379 with TLS, found "redis://127.0.0.1:port""#,
    },
    Bad {
        what: "a node whose address cannot be understood",
        file: "limits.yaml",
        text: "stores:
  main: { cluster: [redis://127.0.0.1, 'redis://:secret@127.0.0.1:x'] }
",
        says: r#"limits.yaml:2:40: stores.main.cluster[1]: expected the address of a Redis such as redis://127.0.0.1:6379, or rediss://127.0.0.1:6379 with TLS, found "…@127.0.0.1:x""#,
    },
    Bad {
        what: "nodes of different clusters",
        file: "limits.toml",
        text: r#"[stores.main]
cluster = ["redis://127.0.0.1:7001", "rediss://127.0.0.1:7002"]
"#,
        says: "limits.toml:2:11: stores.main.cluster: these are not the nodes of one cluster: expected TLS with all or with none, and the same user, password and database",
    },
    Bad {
        what: "a cluster without nodes",
        file: "limits.json",
        text: r#"{ "stores": { "main": { "cluster": [] } } }
"#,
        says: "limits.json:1:36: stores.main.cluster: expected the addresses of some nodes, found an empty list",
    },
    Bad {
        what: "a server and a cluster",
        file: "limits.yaml",
        text: "stores:
  main: { url: redis://127.0.0.1, cluster: [redis://127.0.0.1] }
",
        says: "limits.yaml:2:35: stores.main.cluster: a store is one server or a cluster: expected no `url` beside it",
    },
    Bad {
        what: "neither",
        file: "limits.toml",
        text: r#"[stores.main]
namespace = "shop"
"#,
        says: "limits.toml:1:1: stores.main: expected a `url`, or a `cluster`, found neither",
    },
    Bad {
        what: "an unknown field of a store",
        file: "limits.yaml",
        text: "stores:
  main: { ulr: redis://127.0.0.1 }
",
        says: "limits.yaml:2:11: stores.main.ulr: unknown field of a store, did you mean `url`?",
    },
    Bad {
        what: "a store in a provider",
        file: "limits.yaml",
        text: "stores: { main: { url: redis://127.0.0.1 } }
limiters:
  api: { kind: concurrency, limit: 1, store: main }
  more: { kind: all, of: [api] }
providers:
  p: { request_count: more }
",
        says: "limits.yaml:6:23: providers.p.request_count: `more` is kept in a store, and all weights are taken at once: expected a limiter in memory",
    },
    Bad {
        what: "a store with a strange name",
        file: "limits.json",
        text: r#"{ "stores": { "a b": { "url": "redis://127.0.0.1" } } }
"#,
        says: r#"limits.json:1:15: stores."a b": expected a name of at most 64 letters, digits, `_`, `-` and `.`, found "a b""#,
    },
];
