//! What the attribute makes of a function.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{Error, FnArg, Ident, ItemFn, Result, parse_quote};

use crate::numbers::Numbers;

pub(crate) fn expand(numbers: &Numbers, item: TokenStream) -> Result<TokenStream> {
    let whole = item.clone();
    let mut handler: ItemFn = syn::parse2(item).map_err(|_| {
        let message = "`#[limit]` belongs to a handler: expected an `async fn`";
        Error::new_spanned(whole, message)
    })?;
    let signature = &mut handler.sig;
    if signature.asyncness.is_none() {
        let message = "`#[limit]` belongs to a handler: expected `async`";
        return Err(Error::new_spanned(signature.fn_token, message));
    }
    if let Some(FnArg::Receiver(receiver)) = signature.inputs.first() {
        let message = "`#[limit]` belongs to a handler: expected a function, not a method";
        return Err(Error::new_spanned(receiver, message));
    }

    let declares = declares(&signature.ident);
    signature.inputs.insert(
        0,
        parse_quote!(_: ::plimsoll_tower::declare::Within<#declares>),
    );

    let Numbers { rps, burst, name } = numbers;
    let name = match name {
        Some(name) => name.value(),
        None => signature.ident.unraw().to_string(),
    };
    let (doc, visibility) = (
        format!("What `{}` declares.", signature.ident),
        &handler.vis,
    );
    Ok(quote! {
        #handler

        #[doc(hidden)]
        #[doc = #doc]
        #[derive(Debug)]
        #visibility enum #declares {}

        impl ::plimsoll_tower::declare::Declares for #declares {
            fn declaration() -> &'static ::plimsoll_tower::declare::Declaration {
                static DECLARATION: ::plimsoll_tower::declare::Declaration =
                    ::plimsoll_tower::declare::Declaration::per_second(#name, #rps, #burst);
                &DECLARATION
            }
        }
    })
}

/// A type for the declaration of this function, as types are written: `SearchLimit` for `search`.
fn declares(handler: &Ident) -> Ident {
    let words = handler.unraw().to_string();
    let camel: String = words
        .split('_')
        .flat_map(|word| {
            let mut letters = word.chars();
            let first = letters.next().into_iter().flat_map(char::to_uppercase);
            first.chain(letters).collect::<Vec<_>>()
        })
        .collect();
    format_ident!("{camel}DeclaresItsLimit", span = handler.span())
}
