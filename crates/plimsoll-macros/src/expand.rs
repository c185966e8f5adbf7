//! Expands the attributes of a function.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Error, FnArg, ItemFn, Lit, Result, Type};

use crate::arguments::{By, Limit, Priority};

/// The declaration for a handler.
#[derive(Default)]
pub(crate) struct Declared {
    pub(crate) limits: Vec<Limit>,
    pub(crate) priority: Option<Priority>,
}

impl Declared {
    pub(crate) fn limit(limit: Limit) -> Self {
        let mut declared = Self::default();
        declared.add(limit);
        declared
    }

    fn add(&mut self, limit: Limit) {
        self.priority = self.priority.or(limit.priority);
        self.limits.push(limit);
    }

    /// Removes our other attributes from the function, because one expansion handles all of them.
    fn gather(&mut self, attributes: &mut Vec<Attribute>) -> Result<()> {
        for attribute in std::mem::take(attributes) {
            let last = attribute.path().segments.last();
            match last.map(|last| last.ident.to_string()).as_deref() {
                Some("limit") => self.add(attribute.parse_args()?),
                Some("priority") => self.priority = Some(attribute.parse_args()?),
                _ => attributes.push(attribute),
            }
        }
        match self
            .limits
            .iter()
            .any(|limit| matches!(limit.by, By::Policy { .. }))
        {
            true if self.limits.len() > 1 => {
                let message =
                    "`rps` is the only limit of a handler: for several write `rate = \"5/s\"`";
                Err(Error::new(proc_macro2::Span::call_site(), message))
            }
            _ => Ok(()),
        }
    }
}

pub(crate) fn expand(
    attribute: &str,
    mut declared: Declared,
    item: TokenStream,
) -> Result<TokenStream> {
    let whole = item.clone();
    let mut handler: ItemFn = syn::parse2(item).map_err(|_| {
        let message = format!("`#[{attribute}]` belongs to a handler: expected an `async fn`");
        Error::new_spanned(whole, message)
    })?;
    declared.gather(&mut handler.attrs)?;
    let arguments = arguments(attribute, &handler)?;

    let name = handler.sig.ident.clone();
    // The arguments of the function, and their axum extractors.
    let (markers, called_with) = match arguments.split_last() {
        None => (quote!(), quote!(((),))),
        Some(_) => (quote!(__M: 'static,), quote!((__M, #(#arguments,)*))),
    };
    let bounds = arguments.split_last().map(|(last, others)| {
        quote! {
            #(#others: ::plimsoll_tower::declare::attribute::FromRequestParts<__S> + ::core::marker::Send,)*
            #last: ::plimsoll_tower::declare::attribute::FromRequest<__S, __M> + ::core::marker::Send,
        }
    });
    let call = call(&declared, &handler, &called_with);
    let is_limited = !declared.limits.is_empty();
    let priority = declared
        .priority
        .map(|priority| quote!(.priority(#priority)));

    let visibility = std::mem::replace(&mut handler.vis, syn::Visibility::Inherited);
    let is_of_type = |attribute: &Attribute| {
        ["doc", "cfg", "deprecated"]
            .iter()
            .any(|it| attribute.path().is_ident(it))
    };
    let (of_type, of_function) = handler.attrs.into_iter().partition(is_of_type);
    handler.attrs = of_function;
    let of_type: Vec<Attribute> = of_type;
    let cfg = of_type
        .iter()
        .filter(|attribute| attribute.path().is_ident("cfg"));
    Ok(quote! {
        #(#of_type)*
        #[allow(non_camel_case_types)]
        #[derive(Debug)]
        #visibility struct #name;

        #(#cfg)*
        const _: () = {
            #handler

            static __ATTRIBUTED: ::plimsoll_tower::declare::attribute::Attributed =
                ::plimsoll_tower::declare::attribute::Attributed::new(#is_limited) #priority;

            impl ::core::clone::Clone for #name {
                fn clone(&self) -> Self {
                    __ATTRIBUTED.show();
                    #name {}
                }
            }

            impl<#markers __S> ::plimsoll_tower::declare::attribute::Handler<#called_with, __S> for #name
            where
                #bounds
                __S: ::core::clone::Clone + ::core::marker::Send + ::core::marker::Sync + 'static,
            {
                type Future = ::plimsoll_tower::declare::attribute::HandlerFuture;

                fn call(
                    self,
                    request: ::plimsoll_tower::declare::attribute::Request,
                    state: __S,
                ) -> Self::Future {
                    #call
                }
            }
        };
    })
}

/// The types of the arguments of a handler.
fn arguments<'f>(attribute: &str, handler: &'f ItemFn) -> Result<Vec<&'f Type>> {
    let signature = &handler.sig;
    if signature.asyncness.is_none() {
        let message = format!("`#[{attribute}]` belongs to a handler: expected `async`");
        return Err(Error::new_spanned(signature.fn_token, message));
    }
    let route = match attribute {
        "priority" => "`.prioritized(..)`",
        _ => "`.limited_with(..)`",
    };
    let generic = |at: &dyn ToTokens| {
        let message = format!(
            "a handler with `#[{attribute}]` is not generic: say it on the route, with {route}"
        );
        Error::new_spanned(at.to_token_stream(), message)
    };
    if !signature.generics.params.is_empty() {
        return Err(generic(&signature.generics));
    }
    signature
        .inputs
        .iter()
        .map(|input| match input {
            FnArg::Receiver(receiver) => {
                let message = format!(
                    "`#[{attribute}]` belongs to a handler: expected a function, not a method"
                );
                Err(Error::new_spanned(receiver, message))
            }
            FnArg::Typed(typed) => match &*typed.ty {
                Type::ImplTrait(kind) => Err(generic(kind)),
                kind => Ok(kind),
            },
        })
        .collect()
}

/// The call of the function.
fn call(declared: &Declared, handler: &ItemFn, called_with: &TokenStream) -> TokenStream {
    let function = &handler.sig.ident;
    let name = function.unraw().to_string();
    // With the span of its name, so that errors point there.
    let function = quote_spanned!(function.span()=> #function);
    match &declared.limits[..] {
        [] => quote! {
            ::plimsoll_tower::declare::attribute::Handler::<#called_with, __S>::call(#function, request, state)
        },
        [
            Limit {
                by: By::Policy { rps, burst },
                name: given,
                ..
            },
        ] => {
            let name = given.as_ref().map_or(name, syn::LitStr::value);
            quote! {
                static DECLARATION: ::plimsoll_tower::declare::Declaration =
                    ::plimsoll_tower::declare::Declaration::per_second(#name, #rps, #burst);
                __ATTRIBUTED.by_policy::<_, #called_with, __S>(&DECLARATION, #function, request, state)
            }
        }
        [first, others @ ..] => {
            let first = limit(first, &name);
            let all = others.iter().fold(first, |all, next| {
                let next = limit(next, &name);
                quote!((#all, #next))
            });
            quote! {
                __ATTRIBUTED.by_limits::<_, _, #called_with, __S>(|| #all, #function, request, state)
            }
        }
    }
}

/// The limit of one attribute.
fn limit(limit: &Limit, function: &str) -> TokenStream {
    let attribute = quote!(::plimsoll_tower::declare::attribute);
    let quota = |quota: crate::quota::Quota| {
        let (units, nanos) = (
            proc_macro2::Literal::u64_unsuffixed(quota.units),
            quota.nanos,
        );
        quote!(#attribute::Quota::new(#units, ::core::time::Duration::from_nanos(#nanos)))
    };
    let unsuffixed = proc_macro2::Literal::u64_unsuffixed;
    let rule = match &limit.by {
        By::Rate { quota: of, burst } => {
            let quota = quota(*of);
            let burst = burst.map(unsuffixed).map(|burst| quote!(.burst(#burst)));
            Some(quote!(#attribute::TokenBucket::greedy(#quota) #burst))
        }
        By::Window(of) => {
            let quota = quota(*of);
            Some(quote!(#attribute::FixedWindow::new(#quota)))
        }
        By::Concurrency(limit) => {
            let limit = unsuffixed(*limit);
            Some(quote!(#attribute::Concurrency::new(#limit)))
        }
        By::Limiter(_) | By::Policy { .. } => None,
    };
    let name = limit
        .name
        .as_ref()
        .map_or_else(|| function.to_owned(), syn::LitStr::value);
    let queue = limit
        .queue
        .map(unsuffixed)
        .map(|bound| quote!(.queue(#attribute::Queue::fifo(#bound))));
    let request_limit = match (&limit.by, rule, &limit.key) {
        (By::Limiter(limiter), _, Some(key)) => {
            quote_spanned!(limiter.span()=> #attribute::RequestLimit::by_key(#limiter, #key))
        }
        (By::Limiter(limiter), _, None) => {
            quote_spanned!(limiter.span()=> #attribute::RequestLimit::new(#limiter))
        }
        (_, rule, Some(key)) => quote_spanned! {key.span()=>
            #attribute::by_key(#key, |keyed| keyed.name(#name) #queue, #rule)
        },
        (_, rule, None) => quote! {
            #attribute::RequestLimit::new(#attribute::Gate::builder(#rule).name(#name) #queue .build())
        },
    };
    let cost = limit.cost.as_ref().map(|cost| match cost {
        syn::Expr::Lit(syn::ExprLit {
            lit: Lit::Int(number),
            ..
        }) => quote!(.cost(|_| #number)),
        cost => quote!(.cost(#cost)),
    });
    quote!(#request_limit #cost)
}

impl ToTokens for Priority {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let class = match self {
            Self::Critical => quote!(Critical),
            Self::Normal => quote!(Normal),
            Self::NonCritical => quote!(NonCritical),
        };
        tokens.extend(quote!(::plimsoll_tower::declare::attribute::Priority::#class));
    }
}
