//! The arguments of the attribute.

use proc_macro2::Span;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Error, Ident, Lit, LitStr, Result, Token};

/// The declared numbers.
pub(crate) struct Numbers {
    pub(crate) rps: f64,
    pub(crate) burst: f64,
    pub(crate) name: Option<LitStr>,
}

const EXAMPLE: &str = "expected `#[limit(rps = 5)]` or `#[limit(rps = 5, burst = 2.5)]`";

impl Parse for Numbers {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let (mut rps, mut burst, mut name) = (None, None, None);
        while !input.is_empty() {
            let argument: Ident = input.parse()?;
            let word = argument.to_string();
            let twice = match word.as_str() {
                "rps" => rps.is_some(),
                "burst" => burst.is_some(),
                "name" => name.is_some(),
                _ => {
                    let message =
                        format!("`{word}` is not known: expected `rps`, `burst` or `name`");
                    return Err(Error::new(argument.span(), message));
                }
            };
            if twice {
                let message = format!("`{word}` is given twice: expected it once");
                return Err(Error::new(argument.span(), message));
            }
            input.parse::<Token![=]>()?;
            match word.as_str() {
                "rps" => rps = Some(number(&word, input)?),
                "burst" => burst = Some(number(&word, input)?),
                _ => name = Some(input.parse()?),
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        let missing = || Error::new(Span::call_site(), format!("`rps` is missing: {EXAMPLE}"));
        Ok(Self {
            rps: rps.ok_or_else(missing)?,
            burst: burst.unwrap_or(1.0),
            name,
        })
    }
}

/// A number that is not negative, written out.
fn number(word: &str, input: ParseStream<'_>) -> Result<f64> {
    if input.peek(Token![-]) {
        let minus: Token![-] = input.parse()?;
        let value: Lit = input.parse()?;
        let message = format!("`{word}` is negative: expected 0 or more");
        return Err(Error::new_spanned(quote!(#minus #value), message));
    }
    let wrong = |span| {
        Error::new(
            span,
            format!("`{word}`: expected a number, such as 5 or 2.5"),
        )
    };
    let at = input.span();
    let value: Lit = input.parse().map_err(|_| wrong(at))?;
    let parsed = match &value {
        Lit::Int(whole) => whole.base10_parse::<f64>(),
        Lit::Float(number) => number.base10_parse::<f64>(),
        _ => return Err(wrong(value.span())),
    };
    let number = parsed.map_err(|_| wrong(value.span()))?;
    if number.is_finite() {
        Ok(number)
    } else {
        Err(wrong(value.span()))
    }
}
