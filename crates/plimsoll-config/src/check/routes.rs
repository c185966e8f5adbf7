//! Checks routes, and the settings for the address of a client.

use std::collections::HashMap;

use plimsoll_kinds::LimiterKind as Class;
use plimsoll_spec::{Path, Problem, Read, Step, below, keys, quote};

use super::shadowed::Shadowed;
use super::{Checker, uses};
use crate::check::Context;
use crate::route::{HeaderMatch, HostPattern, Pattern, RouteSpec};
use crate::spec::{Paths, RouteEntry, Words};

impl<'a> Checker<'a> {
    /// The valid routes of the file, with their limiters and providers.
    pub(super) fn routes(&mut self) -> Vec<RouteSpec> {
        let (context, file) = (self.context, self.context.file);
        let mut specs = Vec::new();
        let mut names = HashMap::new();
        let mut shadowed = Shadowed::default();
        let at = context.broken.places("routes");
        for (index, route) in at.zip(&file.routes) {
            let path = vec![Step::Key("routes"), Step::Index(index)];
            let field = |name| below(&path, Step::Key(name));
            if let Some(name) = &route.name
                && let Some(first) = names.insert(name, index)
            {
                let message = format!("the name `{name}` is here twice: first at routes[{first}]");
                context.note(context.places.value(&field("name"), message));
            }
            let limits = self.asked(route, &path);
            let spec = RouteSpec {
                name: route.name.as_ref().map(|name| name.0.clone()),
                patterns: patterns(&route.paths, &field("match"), context),
                methods: methods(route, &field("methods"), context),
                hosts: hosts(route, &field("hosts"), context),
                headers: headers(route, &field("headers"), context),
                limits,
                to: route.to.as_ref().map(|name| name.0.clone()),
                bytes: route.bytes.as_ref().map(|name| name.0.clone()),
                holds: route.holds,
                priority: route.priority.clone(),
                answer: route.answer.clone(),
            };
            if let Some(answer) = &route.answer {
                uses::answer(answer, &field("answer"), context);
            }
            shadowed.add(&spec, index, &path, context);
            specs.push(spec);
        }
        specs
    }

    /// The names of the limits and providers of a route.
    fn asked(&mut self, route: &'a RouteEntry, path: &[Step<'a>]) -> Vec<String> {
        let context = self.context;
        let field = |name| below(path, Step::Key(name));
        let hangs = route.middleware.is_some() || route.limits.is_some() || route.bytes.is_some();
        if !hangs && route.to.is_none() {
            let message = "nothing hangs here: expected `limits`, `middleware` or `bytes`";
            context.note(context.places.value(path, message));
        }
        if let Some(bytes) = &route.bytes
            && let Some(limiter) = self.limiter(bytes, &field("bytes"))
            && limiter.class == Class::Resource
        {
            let wanted = "a rate or basic one, because bytes are counted and not held";
            context.note(self.wrong_class(limiter, wanted, &field("bytes")));
        }
        let mut parts: Vec<String> = Vec::new();
        for (name, words) in [("middleware", &route.middleware), ("limits", &route.limits)] {
            let Some(words) = words else { continue };
            // An empty list of limits is explicit: the route has none.
            let none = name == "limits" && words.as_slice().is_empty();
            let (path, several) = (field(name), matches!(words, Words::Many(_)));
            if none {
                continue;
            }
            let more = self.parts(words.as_slice(), &path, several, &mut Vec::new());
            if let Some(twice) = more.iter().find(|part| parts.contains(part)) {
                let message = format!("`{twice}` would be applied twice");
                context.note(context.places.value(&path, message));
            }
            if name == "limits" {
                self.have_keys(&more, &path);
            }
            if !route.holds {
                self.holds_nothing(&more, &path);
            }
            parts.extend(more);
        }
        parts
    }

    /// Checks the limits of a route. A limit with keys needs a `key`, because no program passes one.
    fn have_keys(&self, parts: &[String], path: &[Step<'_>]) {
        for part in parts {
            let limit = self.context.file.limit(part);
            if limit.is_some_and(|it| it.limiter.common.keyed && it.uses.key.is_none()) {
                let message = format!(
                    "`{part}` has keys, and nothing says which: expected `key` beside its kind"
                );
                self.context.note(self.context.places.value(path, message));
            }
        }
    }

    /// Checks a route that cannot hold permits: it may have rate and basic limiters only.
    fn holds_nothing(&self, parts: &[String], path: &[Step<'_>]) {
        for part in parts {
            let limiters: Vec<&str> = match self.context.file.providers.get(part) {
                Some(provider) => {
                    let words = provider.0.iter().flat_map(|(_, words)| words.as_slice());
                    words.map(|name| name.0.as_str()).collect()
                }
                None => vec![part],
            };
            for limiter in limiters {
                let limiter = self.limiters.get(limiter);
                if let Some(limiter) = limiter.filter(|it| it.class == Class::Resource) {
                    let wanted = "a rate or basic one, because this route holds no permits";
                    self.context.note(self.wrong_class(limiter, wanted, path));
                    return;
                }
            }
        }
    }
}

/// Each of several texts, with its path.
fn each<'a>(
    texts: &'a [String],
    several: bool,
    path: &[Step<'a>],
) -> impl Iterator<Item = (Path<'a>, &'a String)> {
    let path = path.to_vec();
    texts
        .iter()
        .enumerate()
        .map(move |(index, text)| match several {
            true => (below(&path, Step::Index(index)), text),
            false => (path.clone(), text),
        })
}

/// Parses a text, or reports the problem.
fn parsed<T>(
    text: &str,
    parse: impl FnOnce(&str) -> Result<T, &'static str>,
    path: &[Step<'_>],
    context: &Context<'_>,
) -> Option<T> {
    let read: Read<T> = parse(text).map_err(|wanted| {
        let message = format!("expected {wanted}, found {}", quote(text));
        context.places.value(path, message)
    });
    context.check(read)
}

fn empty(path: &[Step<'_>], what: &str, context: &Context<'_>) -> Problem {
    let message = format!("expected {what}, found an empty list");
    context.places.value(path, message)
}

fn patterns(paths: &Paths, path: &[Step<'_>], context: &Context<'_>) -> Vec<Pattern> {
    let texts = paths.as_slice();
    if texts.is_empty() {
        context.note(empty(path, "some paths", context));
    }
    let patterns = each(texts, matches!(paths, Paths::Many(_)), path);
    let pattern = |(path, text): (Path<'_>, &String)| parsed(text, Pattern::parse, &path, context);
    patterns.filter_map(pattern).collect()
}

fn methods(route: &RouteEntry, path: &[Step<'_>], context: &Context<'_>) -> Vec<String> {
    let Some(methods) = &route.methods else {
        return Vec::new();
    };
    if methods.is_empty() {
        context.note(empty(path, "some methods such as [GET, HEAD]", context));
    }
    let method = |text: &str| {
        let plain = !text.is_empty()
            && text
                .bytes()
                .all(|c| c.is_ascii_uppercase() || b"-_".contains(&c));
        let wanted = "a method in capitals such as GET or POST";
        plain.then(|| text.to_owned()).ok_or(wanted)
    };
    let methods = each(methods, true, path);
    methods
        .filter_map(|(path, text)| parsed(text, method, &path, context))
        .collect()
}

fn hosts(route: &RouteEntry, path: &[Step<'_>], context: &Context<'_>) -> Vec<HostPattern> {
    let Some(hosts) = &route.hosts else {
        return Vec::new();
    };
    if hosts.is_empty() {
        context.note(empty(path, "some hosts such as [example.com]", context));
    }
    let hosts = each(hosts, true, path);
    hosts
        .filter_map(|(path, text)| parsed(text, HostPattern::parse, &path, context))
        .collect()
}

fn headers(
    route: &RouteEntry,
    path: &[Step<'_>],
    context: &Context<'_>,
) -> Vec<(String, HeaderMatch)> {
    let header = |(name, text): (&str, &String)| {
        uses::header(name, &below(path, Step::Key(name)), context);
        (name.to_ascii_lowercase(), HeaderMatch::parse(text))
    };
    route.headers.iter().map(header).collect()
}

/// Checks the settings for the address of a client.
pub(super) fn client(context: &Context<'_>) {
    let (file, places) = (context.file, context.places);
    if file
        .ipv6_prefix
        .is_some_and(|bits| !(1..=128).contains(&bits))
    {
        let message = "expected a number of bits from 1 to 128";
        context.note(places.value(&keys(&["ipv6_prefix"]), message));
    }
    if let Some(client) = &file.client {
        let path = keys(&["client", "header"]);
        uses::header(&client.header, &path, context);
        if file.proxies.is_empty() && !context.broken.has("proxies") {
            let message =
                "no proxy is trusted, so this field is ignored: did you forget `proxies`?";
            context.warn(places.value(&path, message));
        }
    }
}
