//! Checks partners.

use plimsoll_spec::{Name, Step, below, keys, quote};

use super::Context;

/// Checks the section `partners`.
pub(super) fn partners(context: &Context<'_>) {
    let places = context.places;
    for (name, partner) in context.file.partners.iter() {
        let path = keys(&["partners", name]);
        let at = |field: &'static str| below(&path, Step::Key(field));
        if !Name::is_valid(name) {
            let message = format!("expected {}, found {}", Name::WANTED, quote(name));
            context.note(places.name(&path, message));
        }
        match (&partner.rate, &partner.learn) {
            (Some(_), None) => {
                let bounds = [("min", &partner.min), ("max", &partner.max)];
                for (field, _) in bounds.into_iter().filter(|(_, it)| it.is_some()) {
                    let message = "bounds what is learned, and `rate` is known: expected `learn`";
                    context.note(places.name(&at(field), message));
                }
            }
            (None, Some(learn)) => {
                let min = partner.min.as_ref().unwrap_or(learn);
                let max = partner.max.as_ref().unwrap_or(learn);
                if learn.is_below(min) {
                    let message =
                        format!("expected at most `learn`, which is {learn}, found {min}");
                    context.note(places.value(&at("min"), message));
                }
                if max.is_below(learn) {
                    let message =
                        format!("expected at least `learn`, which is {learn}, found {max}");
                    context.note(places.value(&at("max"), message));
                }
            }
            (Some(_), Some(_)) => {
                let message =
                    "its rate is known or it is learned: expected `rate` or `learn`, found both";
                context.note(places.name(&at("learn"), message));
            }
            (None, None) => {
                let message = "expected `rate`, or `learn` if the rate is unknown, found neither";
                context.note(places.value(&path, message));
            }
        }
    }
}
