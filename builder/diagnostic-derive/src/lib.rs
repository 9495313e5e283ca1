//! `#[derive(Diagnostic)]`: implements `mosb_types::Diagnostic` for an error.
//!
//! Input is an enum or struct with attributes on its variants, or on itself for all variants that
//! say nothing else:
//!
//! - `code = "denied"`, `class = Rejected`: the code, and a variant of `ErrorClass`.
//! - `transparent`: what the variant doesn't declare comes from its source, which is the field with
//!   `#[from]` or `#[source]`, the field `source`, or the only field.
//! - `code = …`, `class = …`, `findings = …` with an expression, in which the fields of the variant
//!   are variables: by their names, or `_0`, `_1`.
//!
//! A variant without a code or class doesn't compile. miette's derive is not used, as its codes are
//! optional and it has no place for a class.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens as _, format_ident, quote};
use syn::spanned::Spanned as _;
use syn::{Attribute, Data, DeriveInput, Error, Expr, Field, Fields, Member, Result};

/// Implements `mosb_types::Diagnostic`; the attributes are described in the crate's documentation.
#[proc_macro_derive(Diagnostic, attributes(diagnostic))]
pub fn derive_diagnostic(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(Error::into_compile_error).into()
}

fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let name = &input.ident;
    let defaults = Attributes::parse(&input.attrs)?;
    let arms = match &input.data {
        Data::Struct(data) => vec![Arms::new(quote!(Self), name.span(), &data.fields, &defaults)?],
        Data::Enum(data) => {
            let arms = data.variants.iter().map(|variant| {
                let attributes = Attributes::parse(&variant.attrs)?.or(&defaults);
                let ident = &variant.ident;
                Arms::new(quote!(Self::#ident), ident.span(), &variant.fields, &attributes)
            });
            arms.collect::<Result<_>>()?
        }
        Data::Union(_) => return Err(Error::new(name.span(), "a union is no error")),
    };
    let class = arms.iter().map(|arms| &arms.class);
    let code = arms.iter().map(|arms| &arms.code);
    let findings = arms.iter().map(|arms| &arms.findings);
    Ok(quote! {
        #[allow(unused_variables)]
        impl ::mosb_types::Diagnostic for #name {
            fn class(&self) -> ::mosb_types::ErrorClass {
                match self { #(#class)* }
            }

            fn code(&self) -> &'static str {
                match self { #(#code)* }
            }

            fn findings(&self) -> ::std::vec::Vec<::mosb_types::Finding> {
                match self { #(#findings)* }
            }
        }
    })
}

/// What the attributes of an enum or variant declare.
#[derive(Default)]
struct Attributes {
    code: Option<Expr>,
    class: Option<Expr>,
    findings: Option<Expr>,
    transparent: bool,
}

impl Attributes {
    fn parse(attributes: &[Attribute]) -> Result<Self> {
        let mut parsed = Self::default();
        for attribute in attributes.iter().filter(|it| it.path().is_ident("diagnostic")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("transparent") {
                    parsed.transparent = true;
                    return Ok(());
                }
                let field = if meta.path.is_ident("code") {
                    &mut parsed.code
                } else if meta.path.is_ident("class") {
                    &mut parsed.class
                } else if meta.path.is_ident("findings") {
                    &mut parsed.findings
                } else {
                    return Err(meta.error("want code, class, findings or transparent"));
                };
                *field = Some(meta.value()?.parse()?);
                Ok(())
            })?;
        }
        Ok(parsed)
    }

    /// Takes what is not declared from the enum, unless it comes from the source.
    fn or(mut self, defaults: &Self) -> Self {
        if !self.transparent {
            self.code = self.code.or_else(|| defaults.code.clone());
            self.class = self.class.or_else(|| defaults.class.clone());
        }
        self
    }
}

/// The arms of one variant in the three methods.
struct Arms {
    class: TokenStream,
    code: TokenStream,
    findings: TokenStream,
}

impl Arms {
    fn new(
        path: TokenStream,
        span: Span,
        fields: &Fields,
        attributes: &Attributes,
    ) -> Result<Self> {
        let source = if attributes.transparent { Some(source(fields, span)?) } else { None };
        let variables = fields.members().map(|member| match &member {
            Member::Named(name) => quote!(#name),
            Member::Unnamed(_) => {
                let variable = variable(&member);
                quote!(#member: #variable)
            }
        });
        let pattern = quote!(#path { #(#variables),* });
        let arm = |method: &str, declared: Option<TokenStream>| {
            let method = format_ident!("{method}");
            let value = match (declared, &source) {
                (Some(declared), _) => declared,
                (None, Some(source)) => quote!(::mosb_types::Diagnostic::#method(#source)),
                (None, None) if method == "findings" => quote!(::std::vec::Vec::new()),
                (None, None) => {
                    let message = format!("no {method}: write #[diagnostic({method} = …)]");
                    return Err(Error::new(span, message));
                }
            };
            Ok(quote!(#pattern => #value,))
        };
        let class = attributes.class.as_ref().map(|class| match class {
            Expr::Path(path) if path.path.get_ident().is_some() => {
                quote!(::mosb_types::ErrorClass::#class)
            }
            expression => expression.to_token_stream(),
        });
        Ok(Self {
            class: arm("class", class)?,
            code: arm("code", attributes.code.as_ref().map(|code| code.to_token_stream()))?,
            findings: arm("findings", attributes.findings.as_ref().map(|it| it.to_token_stream()))?,
        })
    }
}

/// The variable that a field is bound to.
fn variable(member: &Member) -> syn::Ident {
    match member {
        Member::Named(name) => name.clone(),
        Member::Unnamed(index) => format_ident!("_{}", index.index, span = index.span()),
    }
}

/// The variable of the field that a transparent variant delegates to.
fn source(fields: &Fields, span: Span) -> Result<syn::Ident> {
    let is_source = |field: &Field| {
        let marked = |it: &Attribute| it.path().is_ident("from") || it.path().is_ident("source");
        field.attrs.iter().any(marked) || field.ident.as_ref().is_some_and(|it| it == "source")
    };
    let mut all = fields.members().zip(fields);
    let member = if fields.len() == 1 { all.next() } else { all.find(|(_, it)| is_source(it)) };
    let (member, _) =
        member.ok_or_else(|| Error::new(span, "transparent, but without a source"))?;
    Ok(variable(&member))
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    #[test]
    fn a_variant_without_code_class_or_source_does_not_compile() {
        let error = |input: DeriveInput| expand(&input).map(drop).map_err(|it| it.to_string());
        for (what, input, want) in [
            (
                "nothing",
                parse_quote!(
                    enum E {
                        #[diagnostic(code = "a", class = Internal)]
                        A,
                        B,
                    }
                ),
                Err("no class: write #[diagnostic(class = …)]"),
            ),
            (
                "no code",
                parse_quote!(
                    #[diagnostic(class = Internal)]
                    enum E {
                        A,
                    }
                ),
                Err("no code: write #[diagnostic(code = …)]"),
            ),
            (
                "two fields, and none is the source",
                parse_quote!(
                    enum E {
                        #[diagnostic(transparent)]
                        A(String, Other),
                    }
                ),
                Err("transparent, but without a source"),
            ),
            (
                "a word that is none",
                parse_quote!(
                    enum E {
                        #[diagnostic(help = "a")]
                        A,
                    }
                ),
                Err("want code, class, findings or transparent"),
            ),
            (
                "all is declared",
                parse_quote!(
                    #[diagnostic(class = Internal)]
                    enum E {
                        #[diagnostic(code = "a")]
                        A { number: u32 },
                        #[diagnostic(transparent)]
                        B(String, #[source] Other),
                    }
                ),
                Ok(()),
            ),
        ] {
            assert_eq!(error(input), want.map_err(str::to_owned), "{what}");
        }
    }
}
