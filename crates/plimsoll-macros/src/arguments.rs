//! The arguments of the attributes.

use proc_macro2::Span;
use syn::parse::{Parse, ParseStream};
use syn::{Error, Expr, Ident, Lit, LitStr, Result, Token};

use crate::quota::Quota;

/// The parsed arguments of `#[limit(..)]`.
pub(crate) struct Limit {
    pub(crate) by: By,
    pub(crate) key: Option<Expr>,
    pub(crate) cost: Option<Expr>,
    pub(crate) queue: Option<u64>,
    pub(crate) name: Option<LitStr>,
    pub(crate) priority: Option<Priority>,
}

/// The limit of a handler.
pub(crate) enum By {
    /// A tier for each address.
    Policy { rps: f64, burst: f64 },
    /// An exact rate.
    Rate { quota: Quota, burst: Option<u64> },
    /// A fixed window.
    Window(Quota),
    /// A concurrency limit.
    Concurrency(u64),
    /// An existing limiter.
    Limiter(Box<Expr>),
}

/// A class of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Priority {
    Critical,
    Normal,
    NonCritical,
}

const ONE_OF: &str = "expected one of `rps = 5`, `rate = \"100/s\"`, `window = \"1000/h\"`, \
                      `concurrency = 10` or `limiter = SLOTS.clone()`";
const KNOWN: &str = "expected `rps`, `rate`, `window`, `concurrency` or `limiter`, and with it `burst`, `key`, \
                     `cost`, `queue`, `name` or `priority`";

/// The arguments as written, before they are checked against each other.
#[derive(Default)]
struct Given {
    /// In the order in which they are written.
    words: Vec<Ident>,
    by: Option<(Ident, By)>,
    burst: Option<(Span, f64)>,
    rest: Rest,
}

#[derive(Default)]
struct Rest {
    key: Option<Expr>,
    cost: Option<Expr>,
    queue: Option<u64>,
    name: Option<LitStr>,
    priority: Option<Priority>,
}

impl Parse for Limit {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut given = Given::default();
        while !input.is_empty() {
            given.argument(input)?;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        given.checked()
    }
}

impl Given {
    fn argument(&mut self, input: ParseStream<'_>) -> Result<()> {
        let word: Ident = input.parse()?;
        let text = word.to_string();
        if self.words.contains(&word) {
            return Err(Error::new(
                word.span(),
                format!("`{text}` is given twice: expected it once"),
            ));
        }
        if !matches!(
            text.as_str(),
            "rps"
                | "rate"
                | "window"
                | "concurrency"
                | "limiter"
                | "burst"
                | "key"
                | "cost"
                | "queue"
                | "name"
                | "priority"
        ) {
            return Err(Error::new(
                word.span(),
                format!("`{text}` is not known: {KNOWN}"),
            ));
        }
        input.parse::<Token![=]>()?;
        let by = match text.as_str() {
            "rps" => By::Policy {
                rps: number(&text, input)?,
                burst: 1.0,
            },
            "rate" => By::Rate {
                quota: Quota::parse(&text, &literal(&text, input)?)?,
                burst: None,
            },
            "window" => By::Window(Quota::parse(&text, &literal(&text, input)?)?),
            "concurrency" => By::Concurrency(at_least_one(&text, input)?),
            "limiter" => By::Limiter(Box::new(input.parse()?)),
            other => {
                self.option(other, input)?;
                self.words.push(word);
                return Ok(());
            }
        };
        if let Some((first, _)) = &self.by {
            let message =
                format!("`{first}` and `{text}` do not go together: {ONE_OF}, or two attributes");
            return Err(Error::new(word.span(), message));
        }
        self.by = Some((word.clone(), by));
        self.words.push(word);
        Ok(())
    }

    fn option(&mut self, word: &str, input: ParseStream<'_>) -> Result<()> {
        match word {
            "burst" => self.burst = Some((input.span(), number(word, input)?)),
            "key" => self.rest.key = Some(input.parse()?),
            "cost" => self.rest.cost = Some(input.parse()?),
            "queue" => self.rest.queue = Some(at_least_one(word, input)?),
            "name" => self.rest.name = Some(literal(word, input)?),
            _ => self.rest.priority = Some(input.parse()?),
        }
        Ok(())
    }

    /// Checks that the arguments go together.
    fn checked(self) -> Result<Limit> {
        let Some((word, mut by)) = self.by else {
            let message = format!("what limits it is missing: {ONE_OF}");
            return Err(Error::new(Span::call_site(), message));
        };
        let (unfit, remedy): (&[&str], _) = match &mut by {
            By::Policy { burst, .. } => {
                *burst = self.burst.map_or(*burst, |(_, number)| number);
                (
                    &["key", "cost", "queue"],
                    "it counts requests from each address by tiers; for an exact rate write `rate = \"5/s\"`",
                )
            }
            By::Rate { burst, .. } => {
                *burst = self.burst.map(whole).transpose()?;
                (&[], "")
            }
            By::Window(_) => (
                &["burst"],
                "a window has none: its limit is what may come at once",
            ),
            By::Concurrency(_) => (
                &["burst"],
                "a limit on what is under way has none; what may wait is `queue = 50`",
            ),
            By::Limiter(_) => (&["burst", "queue", "name"], "the limiter has its own"),
        };
        if let Some(other) = self
            .words
            .iter()
            .find(|other| unfit.contains(&other.to_string().as_str()))
        {
            let message = format!("`{other}` does not go with `{word}`: {remedy}");
            return Err(Error::new(other.span(), message));
        }
        let Rest {
            key,
            cost,
            queue,
            name,
            priority,
        } = self.rest;
        Ok(Limit {
            by,
            key,
            cost,
            queue,
            name,
            priority,
        })
    }
}

impl Parse for Priority {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let at = input.span();
        let word = match input.peek(LitStr) {
            true => input.parse::<LitStr>()?.value(),
            false => input
                .parse::<Ident>()
                .map(|word| word.to_string())
                .unwrap_or_default(),
        };
        match word.as_str() {
            "critical" => Ok(Self::Critical),
            "normal" => Ok(Self::Normal),
            "non_critical" | "non-critical" | "noncritical" => Ok(Self::NonCritical),
            _ => Err(Error::new(
                at,
                "expected `critical`, `normal` or `non_critical`",
            )),
        }
    }
}

fn literal(word: &str, input: ParseStream<'_>) -> Result<LitStr> {
    let at = input.span();
    let wrong = |_| Error::new(at, format!("`{word}`: expected a text in quotes"));
    input.parse().map_err(wrong)
}

/// A numeric literal. A value of 0 or below has the meaning that it has in a policy.
fn number(word: &str, input: ParseStream<'_>) -> Result<f64> {
    let wrong = |span| {
        Error::new(
            span,
            format!("`{word}`: expected a number, such as 5 or 2.5"),
        )
    };
    let minus = input.parse::<Option<Token![-]>>()?;
    let at = input.span();
    let value: Lit = input.parse().map_err(|_| wrong(at))?;
    let parsed = match &value {
        Lit::Int(whole) => whole.base10_parse::<f64>(),
        Lit::Float(number) => number.base10_parse::<f64>(),
        _ => return Err(wrong(value.span())),
    };
    match parsed {
        Ok(number) if number.is_finite() => Ok(if minus.is_some() { -number } else { number }),
        _ => Err(wrong(value.span())),
    }
}

fn at_least_one(word: &str, input: ParseStream<'_>) -> Result<u64> {
    let at = input.span();
    let wrong = || {
        Error::new(
            at,
            format!("`{word}`: expected a whole number of at least 1"),
        )
    };
    match input.parse::<Lit>() {
        Ok(Lit::Int(number)) => match number.base10_parse() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(wrong()),
        },
        _ => Err(wrong()),
    }
}

/// The burst of an exact rate.
fn whole((at, number): (Span, f64)) -> Result<u64> {
    if number >= 1.0 && number.fract() == 0.0 && number <= 9_007_199_254_740_992.0 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked above"
        )]
        return Ok(number as u64);
    }
    let message = "`burst`: expected a whole number of at least 1; only with `rps` it is a tier that may be a fraction, or 0";
    Err(Error::new(at, message))
}
