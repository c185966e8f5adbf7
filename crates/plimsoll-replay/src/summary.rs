//! Makes a report from the counters.

use std::collections::{BTreeMap, HashMap};

use plimsoll_config::Config;
use plimsoll_config::uses::Mode;
use plimsoll_engine::{TopKey, mask};

use crate::described::{document, words};
use crate::done::Done;
use crate::flips::Side;
use crate::notes::notes;
use crate::report::{
    AgainstReport, FirstRefusal, FlipReport, KeyReport, LimitReport, Report, RouteReport,
    SeriesReport, Shown, SuggestReport, WaitReport, share,
};
use crate::suggest::Search;
use crate::tally::{First, LimitTally, Tally};
use crate::time::{SECOND, timestamp};

pub(crate) fn report(
    shown: Shown,
    (config, old): (&Config, Option<&Config>),
    mut done: Done,
    searches: Option<(f64, Vec<Search>)>,
) -> Report {
    let limits = limit_reports(shown, config, &done);
    let suggestions = searches.map(|(share, searches)| suggestions(share, &searches, &mut done));
    let tally = &done.tally;
    let names = &tally.names;
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    let logs = done.read.summaries();
    Report {
        config: name_of(config),
        bad_lines: done.read.bad_lines(),
        late_lines: done.read.late(),
        from: timestamp(done.first),
        until: timestamp(done.last),
        seconds: (done.last - done.first) as f64 / 1e9,
        requests: done.requests,
        without_route: done.without_route,
        admitted: tally.admitted + done.without_route,
        refused: tally.refused,
        refused_share: share(tally.refused, done.requests),
        refused_then: done.refused_then,
        refused_again: tally.refused_again,
        waits: WaitReport {
            requests: tally.waits.requests,
            p50: seconds(tally.waits.percentile(50)),
            p99: seconds(tally.waits.percentile(99)),
            most: seconds(tally.waits.most),
        },
        routes: route_reports(config, tally),
        series: SeriesReport {
            from: timestamp(tally.series.start),
            from_epoch: tally.series.start / SECOND,
            seconds: tally.series.width,
            admitted: tally.series.admitted.clone(),
            refused: tally.series.refused.clone(),
            by_limit: (tally.series.by_limit.iter())
                .map(|(limit, counts)| (names[*limit].clone(), counts.clone()))
                .collect(),
        },
        against: old.and_then(|old| against_report(shown, (config, old), tally)),
        suggestions,
        notes: notes(config, &done, &limits),
        limits,
        logs,
    }
}

fn name_of(config: &Config) -> String {
    let file = config.files().first();
    file.map_or_else(String::new, |file| file.display().to_string())
}

fn limit_reports(shown: Shown, config: &Config, done: &Done) -> Vec<LimitReport> {
    let document = document(config);
    let without = without_key(config, done);
    let report = |(number, tally): (usize, &LimitTally)| {
        let name = &done.tally.names[number];
        let refused = tally.refused + tally.would_refuse;
        let (asked_alone, alone) = done.alone(number);
        let top = done.limits.top(name, shown.top, shown.reveal);
        let top = top.map_or_else(Vec::new, |top| top.refused);
        let key = |key: TopKey| KeyReport {
            limit: name.clone(),
            key: key.key,
            count: key.count,
            error: key.error,
        };
        LimitReport {
            limit: name.clone(),
            is: document
                .get("limits")
                .and_then(|it| it.get(name))
                .map_or_else(String::new, words),
            shadow: config
                .use_of(name)
                .is_some_and(|it| it.mode == Mode::Shadow),
            asked: tally.asked,
            refused,
            refused_share: share(refused, tally.asked),
            refused_again: tally.refused_again,
            reasons: tally.reasons.clone(),
            alone_refused: alone,
            alone_share: share(alone, asked_alone),
            without_key: without[number],
            keys: tally.keys.count(),
            refused_keys: tally.refused_keys.count().min(tally.keys.count()),
            keys_exact: tally.keys.is_exact() && tally.refused_keys.is_exact(),
            first: tally
                .first
                .as_ref()
                .map(|first| first_refusal(shown, done, first)),
            top: top.into_iter().map(key).collect(),
        }
    };
    done.tally.limits.iter().enumerate().map(report).collect()
}

fn first_refusal(shown: Shown, done: &Done, first: &First) -> FirstRefusal {
    FirstRefusal {
        at: timestamp(first.of.at),
        file: done.read.name(first.of.file).to_owned(),
        line: first.of.line,
        request: first.what.clone(),
        status: first.of.served.status,
        key: match shown.reveal || first.key.is_empty() {
            true => first.key.clone(),
            false => mask(&first.key),
        },
    }
}

/// For each limit, the number of requests of its routes to which it does not apply.
fn without_key(config: &Config, done: &Done) -> Vec<u64> {
    let numbers: HashMap<&str, usize> = done
        .tally
        .names
        .iter()
        .enumerate()
        .map(|(at, name)| (&**name, at))
        .collect();
    let mut expected = vec![0_u64; numbers.len()];
    for (spec, tally) in config.route_specs().iter().zip(&done.tally.routes) {
        let provided = spec
            .limits
            .iter()
            .flat_map(|name| config.provided(name).map(|(_, limit)| limit));
        let named = spec.limits.iter().chain(&spec.bytes).map(String::as_str);
        for name in named.chain(provided) {
            if let Some(number) = numbers.get(name) {
                expected[*number] += tally.requests;
            }
        }
    }
    let asked = expected.into_iter().zip(&done.tally.limits);
    asked
        .map(|(expected, limit)| expected.saturating_sub(limit.asked))
        .collect()
}

fn route_reports(config: &Config, tally: &Tally) -> Vec<RouteReport> {
    let report =
        |(spec, counts): (&plimsoll_config::RouteSpec, &crate::tally::RouteTally)| RouteReport {
            route: spec.label().to_owned(),
            requests: counts.requests,
            refused: counts.refused,
            refused_share: share(counts.refused, counts.requests),
            by: counts
                .by
                .iter()
                .map(|(limit, count)| (tally.names[*limit].clone(), *count))
                .collect(),
        };
    config
        .route_specs()
        .iter()
        .zip(&tally.routes)
        .map(report)
        .collect()
}

fn against_report(
    shown: Shown,
    (config, old): (&Config, &Config),
    tally: &Tally,
) -> Option<AgainstReport> {
    let flips = tally.flips.as_ref()?;
    let side = |side: &Side| {
        let route =
            |route: &Option<usize>| match route.and_then(|route| config.route_specs().get(route)) {
                Some(spec) => spec.label().to_owned(),
                None => "(no route)".to_owned(),
            };
        let key = |top: TopKey| {
            let (limit, key) = top.key.split_once('\0').unwrap_or(("", &top.key));
            let key = match shown.reveal {
                true => key.to_owned(),
                false => mask(key),
            };
            KeyReport {
                limit: limit.to_owned(),
                key,
                count: top.count,
                error: top.error,
            }
        };
        let mut routes = BTreeMap::new();
        for (number, count) in &side.routes {
            *routes.entry(route(number)).or_default() += count;
        }
        FlipReport {
            requests: side.requests,
            limits: side
                .limits
                .iter()
                .map(|(limit, count)| (limit.clone(), *count))
                .collect(),
            routes,
            top: side
                .keys
                .most(shown.top, true)
                .into_iter()
                .map(key)
                .collect(),
        }
    };
    Some(AgainstReport {
        config: name_of(old),
        both_admitted: flips.both_admitted,
        both_refused: flips.both_refused,
        to_refused: side(&flips.to_refused),
        to_admitted: side(&flips.to_admitted),
    })
}

fn suggestions(most: f64, searches: &[Search], done: &mut Done) -> SuggestReport {
    let mut limits = Vec::new();
    for search in searches {
        let (asked, refused) = done.alone(search.limit);
        if let Some(peaks) = done
            .tally
            .peaks
            .as_mut()
            .and_then(|peaks| peaks.get_mut(search.limit))
        {
            limits.push(search.report(peaks, share(refused, asked)));
        }
    }
    SuggestReport {
        share: most,
        limits,
    }
}
