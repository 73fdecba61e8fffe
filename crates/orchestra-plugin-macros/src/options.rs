//! What stands in the brackets of an attribute.

use proc_macro2::TokenStream;
use syn::{LitBool, LitStr, Result, Token, Type, meta::ParseNestedMeta, parse::Parser as _};

/// The options of a tool.
#[derive(Default)]
pub(crate) struct ToolOptions {
    pub(crate) name: Option<LitStr>,
    pub(crate) title: Option<LitStr>,
    pub(crate) read_only: bool,
    pub(crate) idempotent: bool,
    pub(crate) destructive: Option<bool>,
    pub(crate) open_world: Option<bool>,
    pub(crate) output: Option<Box<Type>>,
}

/// The options of a prompt.
#[derive(Default)]
pub(crate) struct PromptOptions {
    pub(crate) name: Option<LitStr>,
    pub(crate) title: Option<LitStr>,
}

impl ToolOptions {
    pub(crate) fn parse(tokens: TokenStream) -> Result<Self> {
        let mut options = Self::default();
        let read = |meta: ParseNestedMeta<'_>| {
            let word = meta.path.get_ident().map(ToString::to_string);
            match word.as_deref() {
                Some("name") => options.name = Some(name(&meta)?),
                Some("title") => options.title = Some(meta.value()?.parse()?),
                Some("read_only") => options.read_only = switch(&meta)?,
                Some("idempotent") => options.idempotent = switch(&meta)?,
                Some("destructive") => options.destructive = Some(switch(&meta)?),
                Some("open_world") => options.open_world = Some(switch(&meta)?),
                Some("output") => options.output = Some(meta.value()?.parse()?),
                _ => {
                    return Err(meta.error(
                        "a tool has the options name, title, read_only, idempotent, destructive, \
                         open_world and output",
                    ));
                }
            }
            Ok(())
        };
        syn::meta::parser(read).parse2(tokens)?;
        Ok(options)
    }
}

impl PromptOptions {
    pub(crate) fn parse(tokens: TokenStream) -> Result<Self> {
        let mut options = Self::default();
        let read = |meta: ParseNestedMeta<'_>| {
            let word = meta.path.get_ident().map(ToString::to_string);
            match word.as_deref() {
                Some("name") => options.name = Some(name(&meta)?),
                Some("title") => options.title = Some(meta.value()?.parse()?),
                _ => return Err(meta.error("a prompt has the options name and title")),
            }
            Ok(())
        };
        syn::meta::parser(read).parse2(tokens)?;
        Ok(options)
    }
}

/// A name, which is not empty.
fn name(meta: &ParseNestedMeta<'_>) -> Result<LitStr> {
    let name: LitStr = meta.value()?.parse()?;
    match name.value().is_empty() {
        true => Err(syn::Error::new(name.span(), "a name is not empty")),
        false => Ok(name),
    }
}

/// A word alone is true.
fn switch(meta: &ParseNestedMeta<'_>) -> Result<bool> {
    if !meta.input.peek(Token![=]) {
        return Ok(true);
    }
    let value: LitBool = meta.value()?.parse()?;
    Ok(value.value)
}
