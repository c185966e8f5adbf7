//! What a replay says of limits, beside each other and alone.

use plimsoll_replay::{Logs, Replay, ReplayError};

use crate::support::{Dir, config, line, replay};

/// So many requests of a client from a moment on, so many milliseconds apart.
fn burst(client: &str, from_ms: u64, count: u64, apart_ms: u64, path: &str) -> String {
    (0..count)
        .map(|it| line(client, from_ms + it * apart_ms, path, 200, 0))
        .collect()
}

#[test]
fn who_was_refused_when_and_by_which_limit() {
    let dir = Dir::new("who");
    let text = [
        burst("192.0.2.1", 0, 3, 1000, "/a"),
        burst("192.0.2.77", 10_000, 20, 10, "/login?token=secret"),
        line("192.0.2.77", 11_000, "/login", 429, 0),
        line("192.0.2.1", 12_000, "/other", 200, 0),
    ];
    let limits = "
limits:
  per_client: { rate: 1/min, burst: 5, key: client }
routes:
  - { match: /login, limits: [per_client] }
  - { match: /a, limits: [per_client] }
";
    let report = replay(limits, dir.log(text.concat()));
    assert_eq!(
        (
            report.requests,
            report.admitted,
            report.refused,
            report.without_route
        ),
        (25, 9, 16, 1)
    );
    assert_eq!((report.refused_then, report.refused_again), (1, 1));
    let limit = &report.limits[0];
    assert_eq!(
        (limit.asked, limit.refused, limit.keys, limit.refused_keys),
        (24, 16, 2, 1)
    );
    assert_eq!(limit.is, "1/m, burst 5");
    assert_eq!(limit.reasons.get("exhausted"), Some(&16));
    let first = limit.first.as_ref().expect("a refusal");
    assert_eq!(
        (
            first.file.as_str(),
            first.line,
            first.request.as_str(),
            first.status
        ),
        ("access.log", 9, "GET /login", 200)
    );
    assert_eq!(
        (first.at.as_str(), first.key.as_str()),
        ("2026-11-15T12:00:10.050Z", "192… (10)")
    );
    assert_eq!(
        (limit.top[0].key.as_str(), limit.top[0].count),
        ("192… (10)", 16)
    );
    let login = &report.routes[0];
    assert_eq!(
        (
            login.route.as_str(),
            login.requests,
            login.refused,
            login.by["per_client"]
        ),
        ("/login", 21, 16, 16)
    );
    assert!(
        report
            .notes
            .iter()
            .any(|note| note.contains("might have come again")),
        "{:?}",
        report.notes
    );
    let shown = Replay::new(config(limits), dir.log(text.concat()))
        .reveal_keys(true)
        .run()
        .expect("a report");
    assert_eq!(shown.limits[0].top[0].key, "192.0.2.77");
    assert_eq!(report.series.refused.iter().sum::<u64>(), 16);
    assert_eq!(report.series.admitted.iter().sum::<u64>(), 9);
}

#[test]
fn permits_are_held_as_long_as_requests_took_and_queues_are_waited_in() {
    let dir = Dir::new("queues");
    // Three at once, each takes a second; one slot, and two may wait for at most 1.5 s.
    let text: String = (0..3)
        .map(|it| line("192.0.2.1", 1000 + it, "/", 200, 1000))
        .collect();
    let limits = "limits: { slots: { concurrency: 1, queue: { bound: 2, timeout: 1500ms } } }\nroutes: [{ match: /**, limits: [slots] }]";
    let report = replay(limits, dir.log(&text));
    // The second waits until the first has ended, and the third until its time is over.
    assert_eq!(
        (report.admitted, report.refused, report.waits.requests),
        (2, 1, 2)
    );
    assert!((report.waits.most - 1.5).abs() < 0.01, "{:?}", report.waits);
    assert_eq!(
        report.limits[0].reasons.keys().copied().collect::<Vec<_>>(),
        ["timed_out"]
    );
    // With more time all are served, one after the other: the third after two seconds.
    let patient = limits.replace("1500ms", "5s");
    let report = replay(&patient, dir.log(&text));
    assert_eq!((report.admitted, report.waits.requests), (3, 2));
    assert!(
        (report.waits.most - 1.998).abs() < 0.01,
        "{:?}",
        report.waits
    );
    // And clients that do not wait so long are gone.
    let hurried = Replay::new(config(&patient), dir.log(&text))
        .deadline(std::time::Duration::from_millis(1200));
    assert_eq!(hurried.run().expect("a report").admitted, 2);
    // A rate with a queue admits later, at its rate.
    let paced = "limits: { pace: { rate: 1/s, burst: 1, queue: { bound: 5 } } }\nroutes: [{ match: /**, limits: [pace] }]";
    let report = replay(paced, dir.log(&text));
    assert_eq!((report.admitted, report.waits.requests), (3, 2));
    assert!(
        (report.waits.most - 1.998).abs() < 0.01,
        "{:?}",
        report.waits
    );
}

#[test]
fn each_limit_alone_and_beside_the_others() {
    let dir = Dir::new("alone");
    let text = burst("192.0.2.1", 0, 10, 10, "/");
    let limits = "limits: { strict: 3/h, lax: 5/h, tomorrow: { rate: 1/h, mode: shadow } }\nroutes: [{ match: /**, limits: [strict, lax, tomorrow] }]";
    let report = replay(limits, dir.log(text));
    let of = |at: usize| {
        (
            report.limits[at].refused,
            report.limits[at].alone_refused,
            report.limits[at].shadow,
        )
    };
    assert_eq!(
        [of(0), of(1), of(2)],
        [(7, 7, false), (0, 5, false), (2, 9, true)]
    );
}

#[test]
fn charges_by_how_it_was_answered() {
    let dir = Dir::new("charges");
    let text: String = (0..20)
        .map(|it| {
            line(
                "192.0.2.1",
                it * 100,
                "/login",
                if it % 2 == 0 { 401 } else { 200 },
                50,
            )
        })
        .collect();
    let limits = "limits: { failed: { kind: fixed_window, limit: 4, window: 1h, cost: { status: [401] } }, bytes: { rate: 100/h, cost: response_bytes } }\nroutes: [{ match: /login, limits: [failed] }, { match: /b, limits: [bytes] }]";
    // Four failures among seven; what follows is refused, since it might fail.
    assert_eq!(replay(limits, dir.log(&text)).admitted, 7);
    // Ten bytes each: after a hundred nothing more is admitted.
    assert_eq!(
        replay(limits, dir.log(text.replace("/login", "/b"))).admitted,
        10
    );
}

#[test]
fn limits_whose_keys_are_not_in_the_log_are_left_out_and_that_is_said() {
    let dir = Dir::new("keys");
    let text = burst("192.0.2.1", 0, 5, 10, "/");
    let limits = "
stores: { shared: { url: 'redis://nowhere.invalid' } }
limits:
  user: { rate: 1/h, key: header:x-user, store: shared }
  form: { rate: 1/h, key: form:name }
  all: 3/h
routes: [{ match: /**, limits: [user, form, all] }]
";
    let config =
        plimsoll_config::Config::from_str("limits.yaml", limits, plimsoll_config::Format::Yaml);
    // Without the feature `redis` files with stores are refused.
    let Ok(config) = config else { return };
    let report = Replay::new(config, dir.log(text)).run().expect("a report");
    assert_eq!(
        (
            report.refused,
            report.limits[0].without_key,
            report.limits[1].without_key,
            report.limits[2].refused
        ),
        (2, 5, 5, 2)
    );
    let notes = report.notes.join("\n");
    assert!(
        notes.contains("user does not apply to 5 requests: their lines have no header:x-user."),
        "{notes}"
    );
    assert!(
        notes.contains("Limits in stores were replayed in memory"),
        "{notes}"
    );
}

#[test]
fn against_another_file_it_says_what_flips_both_ways() {
    let dir = Dir::new("against");
    let text = [
        burst("192.0.2.1", 0, 10, 10, "/a"),
        burst("192.0.2.2", 5000, 10, 10, "/b"),
    ]
    .concat();
    let old = "limits: { a: 8/h, b: { rate: 2/h, key: client } }\nroutes: [{ match: /a, limits: [a] }, { match: /b, limits: [b] }]";
    let new = "limits: { a: 3/h, b: { rate: 6/h, key: client } }\nroutes: [{ match: /a, limits: [a] }, { match: /b, limits: [b] }]";
    let report = Replay::new(config(new), dir.log(text))
        .against(config(old))
        .run()
        .expect("a report");
    let against = report.against.expect("a comparison");
    assert_eq!((against.both_admitted, against.both_refused), (5, 6));
    assert_eq!(
        (
            against.to_refused.requests,
            against.to_refused.limits["a"],
            against.to_refused.routes["/a"]
        ),
        (5, 5, 5)
    );
    assert_eq!(
        (
            against.to_admitted.requests,
            against.to_admitted.limits["b"]
        ),
        (4, 4)
    );
    assert_eq!(
        (
            against.to_admitted.top[0].key.as_str(),
            against.to_admitted.top[0].count
        ),
        ("192… (9)", 4)
    );
    assert!(
        against.to_refused.top.is_empty(),
        "a limit without keys has none to show"
    );
}

#[test]
fn the_smallest_limit_that_refuses_little_is_found_by_replaying() {
    let dir = Dir::new("suggest");
    // Forty clients; the one of number n sends n requests within a second.
    let text: String = (1..=40_u64)
        .map(|n| burst(&format!("10.0.0.{n}"), n * 2000, n, 5, "/"))
        .collect();
    let limits = "limits: { w: { kind: fixed_window, limit: 10, window: 1s, key: client }, slots: { concurrency: 7 } }\nroutes: [{ match: /**, limits: [w, slots] }]";
    let logs = dir.log(text);
    let report = Replay::new(config(limits), logs.clone())
        .suggest(0.0)
        .run()
        .expect("a report");
    let suggestions = report.suggestions.expect("suggestions");
    let w = &suggestions.limits[0];
    assert_eq!(
        (w.number, w.suggested.as_deref(), w.suggested_share),
        (Some(40), Some("40 per 1s"), Some(0.0))
    );
    assert_eq!(w.now, "10 per 1s");
    let one = &w.peaks[0];
    assert_eq!((one.seconds, one.p50, one.p90, one.most), (1, 20, 36, 40));
    // Nothing takes any time: one slot is enough.
    assert_eq!(suggestions.limits[1].number, Some(1));
    // A tenth of 820 requests may be refused: those above n are refused, n and n - 1 decide.
    let refused =
        |limit: u64| (1..=40_u64).map(|n| n.saturating_sub(limit)).sum::<u64>() as f64 / 820.0;
    let wanted = (1..=40)
        .find(|limit| refused(*limit) <= 0.1)
        .expect("a limit");
    let report = Replay::new(config(limits), logs)
        .suggest(0.1)
        .run()
        .expect("a report");
    let w = &report.suggestions.expect("suggestions").limits[0];
    assert_eq!(
        (w.number, w.suggested_share),
        (Some(wanted), Some(refused(wanted)))
    );
    let error = Replay::new(config(limits), Logs::of(["-"]))
        .suggest(0.1)
        .run()
        .expect_err("it is read once");
    assert!(matches!(error, ReplayError::ReadOnce), "{error}");
}

#[test]
fn a_suggested_limit_keeps_its_queue() {
    // Requests that would have waited counted as refused: nine slots were suggested where three are enough.
    let dir = Dir::new("suggest-queue");
    let text: String = (0..9)
        .map(|it| line("192.0.2.1", 1000 + it, "/", 200, 1000))
        .collect();
    let limits = "limits: { slots: { concurrency: 5, queue: { bound: 9, timeout: 2500ms } } }\nroutes: [{ match: /**, limits: [slots] }]";
    let suggested = |replay: Replay| {
        let report = replay.suggest(0.0).run().expect("a report");
        report.suggestions.expect("suggestions").limits[0].number
    };
    let replay = Replay::new(config(limits), dir.log(text));
    assert_eq!(suggested(replay.clone()), Some(3));
    // Clients that are gone after a second and a half can wait for one request only.
    let hurried = replay.deadline(std::time::Duration::from_millis(1500));
    assert_eq!(suggested(hurried), Some(5));
}

#[test]
fn peaks_are_those_of_the_demand_even_if_it_waits() {
    // A decision that came after later ones began its second again: three instead of five.
    let dir = Dir::new("peak-queue");
    let text = burst("192.0.2.1", 10, 100, 200, "/");
    let limits = "limits: { pace: { rate: 2/s, burst: 1, key: client, queue: { bound: 3 } } }\nroutes: [{ match: /**, limits: [pace] }]";
    let replay = Replay::new(config(limits), dir.log(text)).suggest(0.0);
    let report = replay.run().expect("a report");
    assert_eq!((report.limits[0].asked, report.requests), (100, 100));
    let suggestions = report.suggestions.expect("suggestions");
    let most: Vec<u64> = suggestions.limits[0]
        .peaks
        .iter()
        .map(|it| it.most)
        .collect();
    assert_eq!(most, [5, 50, 100]);
}

#[test]
fn how_far_it_is_is_told_for_each_pass() {
    let dir = Dir::new("progress");
    let logs = dir.log(burst("192.0.2.1", 0, 17_000, 1, "/"));
    let size = logs.size().expect("a file");
    let limits = "limits: { a: 3/s }\nroutes: [{ match: /**, limits: [a] }]";
    let mut told = Vec::new();
    let replay = Replay::new(config(limits), logs).suggest(0.0);
    let report = replay
        .run_watched(&mut |progress| told.push((progress.pass, progress.bytes)))
        .expect("a report");
    assert_eq!(report.requests, 17_000);
    assert!(told.is_sorted(), "{told:?}");
    let passes = told.last().expect("the end").0;
    assert!(passes > 1, "it was searched for: {told:?}");
    // Each pass is told of while it runs, and ends with all that there is.
    for pass in 1..=passes {
        let of: Vec<u64> = told
            .iter()
            .filter(|it| it.0 == pass)
            .map(|it| it.1)
            .collect();
        assert!(
            of.len() >= 2 && of.last() == Some(&size),
            "{of:?} of {size}"
        );
    }
}
