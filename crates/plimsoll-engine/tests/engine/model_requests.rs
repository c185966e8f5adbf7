//! Random files and random requests by their routes, with tiers and costs, against the model.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::Request;
use plimsoll_tower::Head;
use proptest::prelude::*;

use crate::limits;
use crate::model::{Held, Kind, Limit, Model, limit};

/// How many limits a file has. The tier of one is behind them all in the model.
const LIMITS: usize = 3;

const PATTERNS: [&str; 4] = ["/a", "/a/*", "/b/**", "/**"];
const PATHS: [&str; 6] = ["/a", "/a/x", "/a/x/y", "/b/x", "/b/x/y", "/c"];
const USERS: [&str; 3] = ["anna", "bert", "cleo"];

/// Whether a pattern is for a path, written down without a router.
fn fits(pattern: usize, path: &str) -> bool {
    match pattern {
        0 => path == "/a",
        1 => path.starts_with("/a/") && path.matches('/').count() == 2,
        2 => path.starts_with("/b/"),
        _ => true,
    }
}

#[derive(Clone, Debug)]
struct Route {
    pattern: usize,
    only_posts: bool,
    limits: Vec<usize>,
}

#[derive(Clone, Debug)]
enum Step {
    Advance(u64),
    Request {
        path: usize,
        post: bool,
        user: usize,
        pro: bool,
        cost: u64,
    },
    Finish(usize),
}

fn route() -> impl Strategy<Value = Route> {
    let all: Vec<usize> = (0..LIMITS).collect();
    let used = prop::sample::subsequence(all, 1..=LIMITS);
    (0..PATTERNS.len(), any::<bool>(), used).prop_map(|(pattern, only_posts, limits)| Route {
        pattern,
        only_posts,
        limits,
    })
}

/// Routes without those that others before them leave nothing: a file with such a one is refused.
fn reachable(routes: Vec<Route>) -> Vec<Route> {
    let mut kept: Vec<Route> = Vec::new();
    for route in routes {
        let covers = |it: &Route| {
            let path = it.pattern == route.pattern || it.pattern == PATTERNS.len() - 1;
            path && (!it.only_posts || route.only_posts)
        };
        if !kept.iter().any(covers) {
            kept.push(route);
        }
    }
    kept
}

fn step() -> impl Strategy<Value = Step> {
    let request = (
        0..PATHS.len(),
        any::<bool>(),
        0..USERS.len(),
        any::<bool>(),
        1_u64..4,
    );
    prop_oneof![
        2 => (0_u64..30).prop_map(Step::Advance),
        6 => request.prop_map(|(path, post, user, pro, cost)| Step::Request { path, post, user, pro, cost }),
        2 => (0_usize..8).prop_map(Step::Finish),
    ]
}

/// A bucket: the limit with a tier.
fn bucket() -> impl Strategy<Value = Kind> {
    (1_u64..6, 1_u64..4, 1_u64..50).prop_map(|(burst, refill, every)| Kind::Bucket {
        burst,
        refill,
        every,
    })
}

/// The model's word for a key that has come to other terms: what it used before counts there, in whole tokens.
fn carry(model: &mut Model, user: usize, from: usize, to: usize) {
    let used = |model: &mut Model, limit: usize| {
        let most = model.limits[limit].most();
        most - model.left((limit, user))
    };
    let (before, here) = (used(model, from), used(model, to));
    model.charge((to, user), before.saturating_sub(here));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn requests_are_decided_as_the_model_decides_them(
        mut of in prop::collection::vec(limit(), LIMITS - 1),
        (own, pro) in (bucket(), bucket()),
        routes in prop::collection::vec(route(), 1..5).prop_map(reachable),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let tiered = LIMITS - 1;
        let plain = |kind| Limit { kind, keyed: true, shadow: false, stored: false };
        of.extend([plain(own), plain(pro)]);
        let mut text = String::from("limits:\n");
        for (name, limit) in of.iter().take(LIMITS).enumerate() {
            let mut line = limit.text(name).replace(" }\n", ", cost: 'header:x-cost' }\n");
            if name == tiered {
                let tier = of[LIMITS].terms();
                line = line.replace(" }\n", &format!(", tiers: {{ by: 'header:x-plan', pro: {{ {tier} }} }} }}\n"));
            }
            text.push_str(&line);
        }
        text.push_str("routes:\n");
        for route in &routes {
            let methods = if route.only_posts { ", methods: [POST]" } else { "" };
            let names: Vec<String> = route.limits.iter().map(|it| format!("l{it}")).collect();
            text.push_str(&format!("  - {{ match: '{}'{methods}, limits: [{}] }}\n", PATTERNS[route.pattern], names.join(", ")));
        }
        let (limits, time) = limits(&text);
        let mut model = Model::new(of);
        let mut last: HashMap<usize, usize> = HashMap::new();
        let mut held: Vec<Held> = Vec::new();
        for step in steps {
            match step {
                Step::Advance(by) => {
                    model.now += by;
                    time.advance(Duration::from_millis(by));
                }
                Step::Request { path, post, user, pro, cost } => {
                    let plan = if pro { "pro" } else { "free" };
                    let request = Request::builder()
                        .method(if post { "POST" } else { "GET" })
                        .uri(PATHS[path])
                        .header("x-user", USERS[user])
                        .header("x-plan", plan)
                        .header("x-cost", cost)
                        .body(())
                        .expect("a request");
                    let route = routes.iter().find(|it| fits(it.pattern, PATHS[path]) && (post || !it.only_posts));
                    let decide = limits.decide_request(&Head::of(&request), 1);
                    prop_assert_eq!(decide.is_some(), route.is_some(), "{}", text);
                    let (Some(decide), Some(route)) = (decide, route) else { continue };
                    let mut asks = Vec::new();
                    for &limit in &route.limits {
                        let terms = if limit == tiered && pro { LIMITS } else { limit };
                        if limit == tiered {
                            let before = last.insert(user, terms).unwrap_or(tiered);
                            if before != terms {
                                carry(&mut model, user, before, terms);
                            }
                        }
                        asks.push((terms, user, cost));
                    }
                    let (said, taken) = model.decide(&asks, true);
                    let Poll::Ready(decided) = pin!(decide).poll(&mut Context::from_waker(Waker::noop())) else {
                        panic!("nothing is waited for")
                    };
                    prop_assert_eq!(decided.is_err(), said.0.is_some(), "{}", text);
                    let would: Vec<bool> = match &decided {
                        Ok(hold) => hold.answers().map(|it| !it.is_granted()).collect(),
                        Err(refusal) => refusal.answers().map(|it| !it.is_granted()).collect(),
                    };
                    prop_assert_eq!(would, said.1, "{}", text);
                    if let Ok(hold) = decided {
                        held.push((hold, asks, taken));
                    }
                }
                Step::Finish(index) => {
                    if index < held.len() {
                        let (hold, asks, taken) = held.swap_remove(index);
                        drop(hold);
                        model.finish(&asks, &taken);
                    }
                }
            }
        }
    }
}
