//! The macros of `mosb_types`: `#[derive(Diagnostic)]` implements `mosb_types::Diagnostic` for an
//! error; [`macro@null_is_empty`] reads null in the fields of a struct.
//!
//! Input of the derive is an enum or struct with attributes on its variants, or on itself for all variants that
//! say nothing else:
//!
//! - `code = "denied"`, `class = Rejected`: the code, and a variant of `ErrorClass`.
//! - `transparent`: what the variant doesn't declare comes from its source, which is the field with
//!   `#[from]` or `#[source]`, the field `source`, or the only field.
//! - `code = …`, `class = …`, `findings = …`, `remedy = …` with an expression, in which the fields of the
//!   variant are variables: by their names, or `_0`, `_1`.
//!
//! The remedy of a variant that declares none is what follows the last `; ` of its `#[error("…")]`. The
//! attribute is split, never a formatted text, so a `; ` in a field doesn't count. A message that ends with
//! the text of another error, which has the remedy, declares it: `remedy = source.remedy()`.
//!
//! A variant without a code or class doesn't compile. miette's derive is not used, as its codes are
//! optional and it has no place for a class.

mod remedy;

use std::collections::HashMap;

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens as _, format_ident, quote};
use syn::{
    Attribute, Data, DeriveInput, Error, Expr, Field, Fields, Ident, Member, Result, Type,
    parse_quote,
};

/// Implements `mosb_types::Diagnostic`; the attributes are described in the crate's documentation.
#[proc_macro_derive(Diagnostic, attributes(diagnostic))]
pub fn derive_diagnostic(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// Reads null in a field of a struct as its empty value, as Go does. Goes above `#[derive]`. An
/// `Option` has null for `None` already.
#[proc_macro_attribute]
pub fn null_is_empty(
    _: proc_macro::TokenStream,
    input: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    with_reader(input).map_or_else(Error::into_compile_error, DeriveInput::into_token_stream).into()
}

fn with_reader(mut input: DeriveInput) -> Result<DeriveInput> {
    let derives = input.attrs.iter().any(|attribute| attribute.path().is_ident("derive"));
    let Data::Struct(data) = &mut input.data else {
        return Err(Error::new(input.ident.span(), "null_is_empty is for structs"));
    };
    if !derives {
        return Err(Error::new(input.ident.span(), "write null_is_empty above #[derive]"));
    }
    for field in data.fields.iter_mut().filter(|field| !is_option(&field.ty)) {
        let reader = parse_quote!(#[serde(deserialize_with = "::mosb_types::null_is_empty")]);
        field.attrs.push(reader);
    }
    Ok(input)
}

fn is_option(of: &Type) -> bool {
    matches!(of, Type::Path(of) if of.path.segments.last().is_some_and(|it| it.ident == "Option"))
}

fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let name = &input.ident;
    let defaults = Declared::parse(&input.attrs)?;
    let variants = match &input.data {
        Data::Struct(data) => vec![Variant {
            path: quote!(Self),
            span: name.span(),
            fields: &data.fields,
            attributes: &input.attrs,
            declared: defaults,
        }],
        Data::Enum(data) => {
            let variants = data.variants.iter().map(|variant| {
                let ident = &variant.ident;
                Ok(Variant {
                    path: quote!(Self::#ident),
                    span: ident.span(),
                    fields: &variant.fields,
                    attributes: &variant.attrs,
                    declared: Declared::parse(&variant.attrs)?.or(&defaults),
                })
            });
            variants.collect::<Result<_>>()?
        }
        Data::Union(_) => return Err(Error::new(name.span(), "a union is not an error")),
    };
    let arms = |method| variants.iter().map(|it| it.arm(method)).collect::<Result<Vec<_>>>();
    let (class, code) = (arms("class")?, arms("code")?);
    let (findings, remedy) = (arms("findings")?, arms("remedy")?);
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

            fn remedy(&self) -> ::std::option::Option<::std::string::String> {
                match self { #(#remedy)* }
            }
        }
    })
}

/// What the attributes of an enum or variant declare.
struct Declared {
    /// By method.
    values: HashMap<String, Expr>,
    transparent: bool,
}

impl Declared {
    fn parse(attributes: &[Attribute]) -> Result<Self> {
        let mut declared = Self { values: HashMap::new(), transparent: false };
        for attribute in attributes.iter().filter(|it| it.path().is_ident("diagnostic")) {
            attribute.parse_nested_meta(|meta| {
                let word = meta.path.require_ident()?.to_string();
                match word.as_str() {
                    "transparent" => declared.transparent = true,
                    "class" | "code" | "findings" | "remedy" => {
                        declared.values.insert(word, meta.value()?.parse()?);
                    }
                    _ => {
                        return Err(meta.error("want code, class, findings, remedy or transparent"));
                    }
                }
                Ok(())
            })?;
        }
        Ok(declared)
    }

    /// Takes what is not declared from the enum, unless it comes from the source.
    fn or(mut self, defaults: &Self) -> Self {
        if !self.transparent {
            for (method, value) in &defaults.values {
                self.values.entry(method.clone()).or_insert_with(|| value.clone());
            }
        }
        self
    }
}

struct Variant<'a> {
    path: TokenStream,
    /// Of its name, for errors.
    span: Span,
    fields: &'a Fields,
    attributes: &'a [Attribute],
    declared: Declared,
}

impl Variant<'_> {
    /// The arm of this variant in a method.
    fn arm(&self, method: &str) -> Result<TokenStream> {
        let value = match self.declared.values.get(method) {
            Some(Expr::Path(class)) if method == "class" => {
                quote!(::mosb_types::ErrorClass::#class)
            }
            Some(value) => value.to_token_stream(),
            None if self.declared.transparent => {
                let (method, source) = (format_ident!("{method}"), self.source()?);
                quote!(::mosb_types::Diagnostic::#method(#source))
            }
            None if method == "findings" => quote!(::std::vec::Vec::new()),
            None if method == "remedy" => remedy::of_message(self.attributes)?,
            None => {
                let message = format!("no {method}: write #[diagnostic({method} = …)]");
                return Err(Error::new(self.span, message));
            }
        };
        let path = &self.path;
        let bindings = self.fields.members().map(|member| match &member {
            Member::Named(name) => quote!(#name),
            Member::Unnamed(_) => {
                let variable = variable(&member);
                quote!(#member: #variable)
            }
        });
        Ok(quote!(#path { #(#bindings),* } => #value,))
    }

    /// The variable of the field that a transparent variant delegates to.
    fn source(&self) -> Result<Ident> {
        let is_source = |field: &Field| {
            let marked =
                |it: &Attribute| it.path().is_ident("from") || it.path().is_ident("source");
            field.attrs.iter().any(marked) || field.ident.as_ref().is_some_and(|it| it == "source")
        };
        let mut fields = self.fields.members().zip(self.fields);
        let source = fields.find(|(_, field)| self.fields.len() == 1 || is_source(field));
        let (member, _) =
            source.ok_or_else(|| Error::new(self.span, "transparent, but without a source"))?;
        Ok(variable(&member))
    }
}

/// The variable that a field is bound to.
fn variable(member: &Member) -> Ident {
    match member {
        Member::Named(name) => name.clone(),
        Member::Unnamed(index) => format_ident!("_{}", index.index),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_empty_needs_a_derived_struct() {
        let error = |input: DeriveInput| with_reader(input).map(drop).map_err(|it| it.to_string());
        for (input, want) in [
            (
                parse_quote!(
                    enum E {
                        A,
                    }
                ),
                Err("null_is_empty is for structs"),
            ),
            (
                parse_quote!(
                    struct S {
                        a: String,
                    }
                ),
                Err("write null_is_empty above #[derive]"),
            ),
            (
                parse_quote!(
                    #[derive(Deserialize)]
                    struct S {
                        a: String,
                    }
                ),
                Ok(()),
            ),
        ] {
            assert_eq!(error(input), want.map_err(str::to_owned));
        }
    }

    #[test]
    fn incomplete_variant_does_not_compile() {
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
                Err("want code, class, findings, remedy or transparent"),
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
