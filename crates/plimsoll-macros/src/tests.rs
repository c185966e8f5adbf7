//! The messages about mistakes, and the tokens they point at.

use proc_macro2::TokenStream;

use crate::expand::expand;
use crate::numbers::Numbers;

fn numbers(arguments: &str) -> syn::Result<Numbers> {
    syn::parse_str(arguments)
}

fn limited(item: &str) -> syn::Result<TokenStream> {
    expand(&numbers("rps = 1")?, item.parse()?)
}

/// The message, and what it points at.
fn complaint<T>(result: syn::Result<T>) -> (String, String) {
    let error = result.err().expect("a mistake");
    let place = error.span().source_text().unwrap_or_default();
    (error.to_string(), place)
}

#[test]
fn numbers_are_whole_or_not() {
    for (arguments, expected) in [
        ("rps = 5, burst = 2.5", (5.0, 2.5)),
        ("burst = 3, rps = 0.5,", (0.5, 3.0)),
        ("rps = 1_000", (1000.0, 1.0)),
        ("rps = 0, burst = 0", (0.0, 0.0)),
    ] {
        let numbers = numbers(arguments).unwrap();
        assert_eq!((numbers.rps, numbers.burst), expected, "{arguments}");
    }
    let named = numbers("rps = 1, name = \"find\"").unwrap();
    assert_eq!(named.name.unwrap().value(), "find");
}

#[test]
fn a_mistake_in_the_arguments_is_pointed_at() {
    for (arguments, place, message) in [
        (
            "rps = 5, brust = 2",
            "brust",
            "`brust` is not known: expected `rps`, `burst` or `name`",
        ),
        (
            "rps = 5, rps = 6",
            "rps",
            "`rps` is given twice: expected it once",
        ),
        ("rps = -5", "-5", "`rps` is negative: expected 0 or more"),
        (
            "rps = 5, burst = -0.5",
            "-0.5",
            "`burst` is negative: expected 0 or more",
        ),
        (
            "rps = \"5\"",
            "\"5\"",
            "`rps`: expected a number, such as 5 or 2.5",
        ),
        (
            "rps = RATE",
            "RATE",
            "`rps`: expected a number, such as 5 or 2.5",
        ),
        (
            "rps = 1e999",
            "1e999",
            "`rps`: expected a number, such as 5 or 2.5",
        ),
    ] {
        let complaint = complaint(numbers(arguments));
        assert_eq!(complaint, (message.to_owned(), place.to_owned()));
    }
    let (message, _) = complaint(numbers("burst = 2"));
    assert_eq!(
        message,
        "`rps` is missing: expected `#[limit(rps = 5)]` or `#[limit(rps = 5, burst = 2.5)]`"
    );
    assert!(numbers("rps").is_err());
    assert!(numbers("rps = 5 burst = 2").is_err());
    assert!(numbers("5, 2.5").is_err());
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
    ] {
        let complaint = complaint(limited(item));
        assert_eq!(complaint, (message.to_owned(), place.to_owned()));
    }
}

#[test]
fn the_declaration_has_a_type_of_its_own() {
    let tokens = limited("pub async fn find_all<T>(of: Of<T>) {}").unwrap();
    let file: syn::File = syn::parse2(tokens).unwrap();
    let [
        syn::Item::Fn(handler),
        syn::Item::Enum(declares),
        syn::Item::Impl(_),
    ] = &file.items[..]
    else {
        panic!("a function, a type and its declaration");
    };
    assert_eq!(handler.sig.inputs.len(), 2);
    assert_eq!(declares.ident, "FindAllDeclaresItsLimit");
    assert!(matches!(declares.vis, syn::Visibility::Public(_)));
}
