//! The remedy in a message of thiserror: what follows the last `; ` of `#[error("…", …)]`.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens as _, format_ident, quote};
use syn::parse::ParseStream;
use syn::{Attribute, Ident, LitStr, Result, Token};

/// The expression for the remedy, an `Option<String>`. The fields of the variant are variables in it.
pub(crate) fn of_message(attributes: &[Attribute]) -> Result<TokenStream> {
    let attribute = attributes.iter().find(|it| it.path().is_ident("error"));
    let message = attribute.map(|it| it.parse_args_with(Message::parse)).transpose()?.flatten();
    Ok(match message.and_then(|message| message.remedy()) {
        Some(remedy) => quote!(::std::option::Option::Some(#remedy)),
        None => quote!(::std::option::Option::None),
    })
}

/// The arguments of `#[error(…)]`.
struct Message {
    format: LitStr,
    positional: Vec<TokenStream>,
    named: Vec<(Ident, TokenStream)>,
}

impl Message {
    /// `None` for `transparent` and `fmt = …`.
    fn parse(input: ParseStream<'_>) -> Result<Option<Self>> {
        if !input.peek(LitStr) {
            input.parse::<TokenStream>()?;
            return Ok(None);
        }
        let mut message = Self { format: input.parse()?, positional: vec![], named: vec![] };
        while !input.is_empty() {
            input.parse::<Token![,]>()?;
            if input.peek(Ident) && input.peek2(Token![=]) {
                let name = input.parse()?;
                input.parse::<Token![=]>()?;
                message.named.push((name, argument(input)?));
            } else if !input.is_empty() {
                message.positional.push(argument(input)?);
            }
        }
        Ok(Some(message))
    }

    fn remedy(&self) -> Option<TokenStream> {
        let text = self.format.value();
        let (before, remedy) = text.rsplit_once("; ")?;
        if !remedy.contains(['{', '}']) {
            return Some(quote!(::std::string::String::from(#remedy)));
        }
        let remedy_names = names(remedy);
        let of_cause = names(before).into_iter().filter(|name| name.is_empty()).count();
        let positional = self.positional.iter().skip(of_cause);
        let named = self.named.iter().filter(|(name, _)| remedy_names.iter().any(|it| name == it));
        let named = named.map(|(name, value)| quote!(#name = #value));
        let format = LitStr::new(&with_variables(remedy), self.format.span());
        Some(quote!(::std::format!(#format #(, #positional)* #(, #named)*)))
    }
}

/// One argument, in which `.field` is the variable of that field.
fn argument(input: ParseStream<'_>) -> Result<TokenStream> {
    let mut argument = TokenStream::new();
    if input.peek(Token![.]) {
        input.parse::<Token![.]>()?;
        match input.parse()? {
            TokenTree::Literal(index) => {
                format_ident!("_{}", index.to_string()).to_tokens(&mut argument)
            }
            field => field.to_tokens(&mut argument),
        }
    }
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<TokenTree>()?.to_tokens(&mut argument);
    }
    Ok(argument)
}

/// What the placeholders of a format name: a field, an argument, or nothing for the next argument.
fn names(format: &str) -> Vec<&str> {
    let mut names = vec![];
    let mut rest = format;
    while let Some((_, after)) = rest.split_once('{') {
        if let Some(after) = after.strip_prefix('{') {
            rest = after;
            continue;
        }
        let (placeholder, after) = after.split_once('}').unwrap_or((after, ""));
        names.push(placeholder.split(':').next().unwrap_or_default());
        rest = after;
    }
    names
}

/// The format with the variables of numbered fields.
fn with_variables(format: &str) -> String {
    let numbers = names(format).into_iter().filter(|name| name.parse::<u32>().is_ok());
    numbers.fold(format.to_owned(), |format, number| {
        let to_variable = |end: &str| (format!("{{{number}{end}"), format!("{{_{number}{end}"));
        [to_variable("}"), to_variable(":")]
            .iter()
            .fold(format, |format, (number, variable)| format.replace(number, variable))
    })
}

#[cfg(test)]
mod tests {
    use syn::{DeriveInput, parse_quote};

    use super::*;

    #[test]
    fn the_remedy_is_split_from_the_format() {
        let of = |item: DeriveInput| of_message(&item.attrs).unwrap().to_string().replace(' ', "");
        let some = |remedy: &str| format!("::std::option::Option::Some({remedy})");
        let none = "::std::option::Option::None".to_owned();
        let formatted = |rest: &str| some(&format!("::std::format!({rest})"));
        for (item, want) in [
            (
                parse_quote!(
                    #[error("{a}: wrong")]
                    struct E;
                ),
                none.clone(),
            ),
            (
                parse_quote!(
                    #[error(transparent)]
                    struct E;
                ),
                none.clone(),
            ),
            (
                parse_quote!(
                    struct E;
                ),
                none,
            ),
            (
                parse_quote!(
                    #[error("{}; {{no}}; retry", .0.join("; "))]
                    struct E;
                ),
                some("::std::string::String::from(\"retry\")"),
            ),
            (
                parse_quote!(
                    #[error("{0}; give {0:?} or {_x}")]
                    struct E;
                ),
                formatted("\"give{_0:?}or{_x}\""),
            ),
            (
                parse_quote!(
                    #[error("{{{}: {a}; {}, {all}", .path.display(), .0.b(c, d), all = .0, no = f())]
                    struct E;
                ),
                formatted("\"{},{all}\",_0.b(c,d),all=_0"),
            ),
        ] {
            assert_eq!(of(item), want);
        }
    }
}
