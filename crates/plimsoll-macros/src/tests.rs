//! The messages about mistakes, and the tokens they point at.

use proc_macro2::TokenStream;

use crate::arguments::{By, Limit, Priority};
use crate::expand::{Declared, expand};
use crate::quota::Quota;

fn limit(arguments: &str) -> syn::Result<Limit> {
    syn::parse_str(arguments)
}

fn limited(item: &str) -> syn::Result<TokenStream> {
    expand("limit", Declared::limit(limit("rps = 1")?), item.parse()?)
}

/// The message, and what it points at.
fn complaint<T>(result: syn::Result<T>) -> (String, String) {
    let error = result.err().expect("a mistake");
    let place = error.span().source_text().unwrap_or_default();
    (error.to_string(), place)
}

#[test]
fn numbers_are_whole_or_not_and_may_be_at_or_below_zero() {
    for (arguments, expected) in [
        ("rps = 5, burst = 2.5", (5.0, 2.5)),
        ("burst = 3, rps = 0.5,", (0.5, 3.0)),
        ("rps = 1_000", (1000.0, 1.0)),
        ("rps = 0, burst = 0", (0.0, 0.0)),
        ("rps = -5, burst = -0.5", (-5.0, -0.5)),
    ] {
        let By::Policy { rps, burst } = limit(arguments).unwrap().by else {
            panic!("a policy");
        };
        assert_eq!((rps, burst), expected, "{arguments}");
    }
    let named = limit("rps = 1, name = \"find\"").unwrap();
    assert_eq!(named.name.unwrap().value(), "find");
}

#[test]
fn each_kind_of_limit_has_its_argument() {
    let quota = Quota {
        units: 100,
        nanos: 1_000_000_000,
    };
    let Limit { by, key, cost, .. } =
        limit("rate = \"100/s\", burst = 20, key = Peer::new(), cost = |head| 2").unwrap();
    assert!(matches!(by, By::Rate { quota: read, burst: Some(20) } if read == quota));
    assert!(key.is_some() && cost.is_some());
    let by = limit("window = \"100/s\"").unwrap().by;
    assert!(matches!(by, By::Window(read) if read == quota));
    let Limit {
        by,
        queue,
        priority,
        ..
    } = limit("concurrency = 10, queue = 50, priority = non_critical").unwrap();
    assert!(matches!(by, By::Concurrency(10)));
    assert_eq!((queue, priority), (Some(50), Some(Priority::NonCritical)));
    assert!(matches!(
        limit("limiter = SLOTS.clone()").unwrap().by,
        By::Limiter(_)
    ));
}

const ONE_OF: &str = "expected one of `rps = 5`, `rate = \"100/s\"`, `window = \"1000/h\"`, \
                      `concurrency = 10` or `limiter = SLOTS.clone()`";

#[test]
fn a_mistake_in_the_arguments_is_pointed_at() {
    const QUOTA: &str = "`rate`: expected at least 1 in some time, such as \"100/s\", \"5000/hour\", \
                         \"100k/min\" or \"5/10min\"";
    const NUMBER: &str = "`rps`: expected a number, such as 5 or 2.5";
    let two = format!("`rate` and `concurrency` do not go together: {ONE_OF}, or two attributes");
    for (arguments, place, message) in [
        (
            "rps = 5, brust = 2",
            "brust",
            "`brust` is not known: expected `rps`, `rate`, `window`, `concurrency` or `limiter`, and with it \
             `burst`, `key`, `cost`, `queue`, `name` or `priority`",
        ),
        (
            "rps = 5, rps = 6",
            "rps",
            "`rps` is given twice: expected it once",
        ),
        ("rps = \"5\"", "\"5\"", NUMBER),
        ("rps = RATE", "RATE", NUMBER),
        ("rps = 1e999", "1e999", NUMBER),
        ("rate = \"fast\"", "\"fast\"", QUOTA),
        ("rate = \"0/s\"", "\"0/s\"", QUOTA),
        ("rate = 100", "100", "`rate`: expected a text in quotes"),
        ("rate = \"1/s\", concurrency = 1", "concurrency", &two),
        (
            "rate = \"1/s\", burst = 0",
            "0",
            "`burst`: expected a whole number of at least 1; only with `rps` it is a tier that may be a fraction, or 0",
        ),
        (
            "concurrency = 0",
            "0",
            "`concurrency`: expected a whole number of at least 1",
        ),
        (
            "concurrency = 5, burst = 2",
            "burst",
            "`burst` does not go with `concurrency`: a limit on what is under way has none; what may wait is `queue = 50`",
        ),
        (
            "rps = 5, key = Peer::new()",
            "key",
            "`key` does not go with `rps`: it counts requests from each address by tiers; for an exact rate write \
             `rate = \"5/s\"`",
        ),
        (
            "limiter = SLOTS, name = \"slots\"",
            "name",
            "`name` does not go with `limiter`: the limiter has its own",
        ),
        (
            "rps = 5, priority = high",
            "high",
            "expected `critical`, `normal` or `non_critical`",
        ),
    ] {
        let complaint = complaint(limit(arguments));
        assert_eq!(complaint, (message.to_owned(), place.to_owned()));
    }
    let (message, _) = complaint(limit("burst = 2"));
    assert_eq!(message, format!("what limits it is missing: {ONE_OF}"));
    assert!(limit("rps").is_err());
    assert!(limit("rps = 5 burst = 2").is_err());
    assert!(limit("5, 2.5").is_err());
}

#[test]
fn only_a_handler_can_declare() {
    for (item, place, message) in [
        (
            "struct Search;",
            "struct Search;",
            "`#[limit]` belongs to a handler: expected an `async fn`",
        ),
        (
            "fn search() {}",
            "fn",
            "`#[limit]` belongs to a handler: expected `async`",
        ),
        (
            "async fn search(&self) {}",
            "&self",
            "`#[limit]` belongs to a handler: expected a function, not a method",
        ),
        (
            "async fn search<T>(_: State<T>) {}",
            "<T>",
            "a handler with `#[limit]` is not generic: say it on the route, with `.limited_with(..)`",
        ),
        (
            "async fn search(_: impl FromRequest) {}",
            "impl FromRequest",
            "a handler with `#[limit]` is not generic: say it on the route, with `.limited_with(..)`",
        ),
        (
            "#[limit(rate = \"1/s\")] async fn search() {}",
            "",
            "`rps` is the only limit of a handler: for several write `rate = \"5/s\"`",
        ),
    ] {
        let (message_given, place_given) = complaint(limited(item));
        assert_eq!(message_given, message);
        assert!(place.is_empty() || place_given == place, "{place_given}");
    }
}

#[test]
fn a_handler_is_a_value_of_its_own_type() {
    let item = "/// Finds.\n #[inline] pub async fn find_all(of: Of, rest: Rest) {}";
    let file: syn::File = syn::parse2(limited(item).unwrap()).unwrap();
    let [syn::Item::Struct(handler), syn::Item::Const(_)] = &file.items[..] else {
        panic!("a type, and how it is called");
    };
    assert_eq!(handler.ident, "find_all");
    assert!(matches!(handler.vis, syn::Visibility::Public(_)));
    assert!(
        handler
            .attrs
            .iter()
            .any(|attribute| attribute.path().is_ident("doc"))
    );
    assert!(
        !handler
            .attrs
            .iter()
            .any(|attribute| attribute.path().is_ident("inline"))
    );
}
