//! Checks the gateway, and the pools that routes name.

use plimsoll_spec::scalar::nearest;
use plimsoll_spec::{Name, Step, below, keys, quote};

use super::Context;
use crate::route::RouteSpec;

/// Checks the section `gateway`, and the pools of routes.
pub(super) fn gateway(routes: &[RouteSpec], context: &Context<'_>) {
    let (file, places) = (context.file, context.places);
    let at = context.broken.places("routes");
    let Some(gateway) = &file.gateway else {
        for (index, route) in at.zip(&file.routes) {
            if route.to.is_some() && !context.broken.has("gateway") {
                let path = [Step::Key("routes"), Step::Index(index), Step::Key("to")];
                let message = "there is no `gateway` in this file, so nothing leads there";
                context.note(places.value(&path, message));
            }
        }
        return;
    };
    let section = keys(&["gateway"]);
    let upstreams = below(&section, Step::Key("upstreams"));
    if gateway.upstreams.is_empty() && !context.broken.has("upstreams") {
        let message =
            "expected at least one pool such as app: { to: \"http://127.0.0.1:9000\" }, found none";
        context.note(places.value(&upstreams, message));
    }
    if gateway.listen.as_slice().is_empty() {
        let message = "expected some addresses such as [127.0.0.1:8080], found an empty list";
        context.note(places.value(&below(&section, Step::Key("listen")), message));
    }
    for (name, upstream) in gateway.upstreams.iter() {
        let path = below(&upstreams, Step::Key(name));
        if !Name::is_valid(name) {
            let message = format!("expected {}, found {}", Name::WANTED, quote(name));
            context.note(places.name(&path, message));
        }
        let to = below(&path, Step::Key("to"));
        let origins = upstream.to.as_slice();
        if origins.is_empty() {
            let message =
                "expected some servers such as [http://10.0.0.1:9000], found an empty list";
            context.note(places.value(&to, message));
        }
        for (index, origin) in origins.iter().enumerate() {
            if origins[..index].contains(origin) {
                let message = format!("`{origin}` is here twice");
                context.note(places.value(&below(&to, Step::Index(index)), message));
            }
        }
        if upstream.ca.is_some() && !origins.iter().any(|origin| origin.tls) {
            let message = "nothing is believed here: none of the servers begins with https://";
            context.warn(places.value(&below(&path, Step::Key("ca")), message));
        }
        let health = &upstream.health;
        if health.longest.0 < health.ejected.0 {
            let path = below(&below(&path, Step::Key("health")), Step::Key("longest"));
            let message = "expected at least as long as `ejected`";
            context.note(places.value(&path, message));
        }
    }
    for (index, route) in at.zip(&file.routes) {
        let Some(to) = &route.to else { continue };
        if gateway.upstream(Some(&to.0)).is_none() && !context.broken.has(&to.0) {
            let names: Vec<&str> = gateway.upstreams.iter().map(|(name, _)| name).collect();
            let hint = nearest(&to.0, names.iter().copied());
            let message = format!("there is no pool `{to}` in gateway.upstreams{hint}");
            let path = [Step::Key("routes"), Step::Index(index), Step::Key("to")];
            context.note(places.value(&path, message));
        }
    }
    let is_open = |route: &RouteSpec| {
        let all = |pattern: &crate::Pattern| pattern.is_open() && pattern.segments().is_empty();
        route.is_by_path() && route.patterns.iter().any(all)
    };
    if !routes.iter().any(is_open) {
        let message = "no route is for every request: what none is for passes to the first pool without a limit. \
                       Did you forget { match: /** } at the end?";
        context.warn(places.name(&section, message));
    }
}
