//! A function as its author wrote it, and what it says of a tool or a prompt.

use proc_macro2::{Span, TokenStream};
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, Ident, ItemFn, Lit, Meta, Pat, PatType, Result,
    ReturnType, Type, ext::IdentExt as _, spanned::Spanned as _,
};

/// What marks a parameter that is a struct of all arguments.
const WHOLE: &str = "arguments";

/// A function that can be a tool or a prompt.
pub(crate) struct Function {
    /// The function without what was said of its parameters.
    pub(crate) item: ItemFn,
    /// Its name, as others see it.
    pub(crate) name: String,
    /// Its doc comment.
    pub(crate) description: String,
    pub(crate) parameters: Vec<Parameter>,
}

/// A parameter, in its place.
pub(crate) enum Parameter {
    /// One of the arguments.
    Argument(Box<Argument>),
    /// All of them.
    Whole(Box<Type>),
    /// The view of the call.
    Cx,
    /// Where chunks are sent.
    Chunks(Span),
}

/// An argument.
pub(crate) struct Argument {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) name: Ident,
    pub(crate) of: Type,
}

impl Function {
    /// Reads a function that is to be a `what`.
    pub(crate) fn parse(item: TokenStream, what: &str) -> Result<Self> {
        let mut item: ItemFn = syn::parse2(item).map_err(|error| {
            let text = format!("a {what} must be an `async fn`: {error}");
            Error::new(error.span(), text)
        })?;
        let signature = &item.sig;
        if signature.asyncness.is_none() {
            let text =
                format!("a {what} must be an `async fn`, because many calls run at the same time");
            return Err(Error::new(signature.fn_token.span(), text));
        }
        if !signature.generics.params.is_empty() {
            let text = format!("a {what} cannot be generic: its arguments need concrete types");
            return Err(Error::new(signature.generics.span(), text));
        }
        if let ReturnType::Default = signature.output
            && what == "prompt"
        {
            let text = "a prompt must return `Messages`, or a `Result` of them";
            return Err(Error::new(signature.span(), text));
        }
        let description = documentation(&item.attrs);
        if description.is_empty() {
            let text = format!("describe this {what} in a doc comment (`///`), which models read");
            return Err(Error::new(item.sig.ident.span(), text));
        }
        let parameters = item.sig.inputs.iter_mut();
        let parameters: Vec<Parameter> = parameters.map(Parameter::take).collect::<Result<_>>()?;
        alone(&parameters)?;
        Ok(Self {
            name: item.sig.ident.unraw().to_string(),
            description,
            parameters,
            item,
        })
    }
}

impl Parameter {
    /// Reads a parameter, and takes away what is said of it, which a function may not keep.
    fn take(input: &mut FnArg) -> Result<Self> {
        let PatType { attrs, pat, ty, .. } = match input {
            FnArg::Typed(typed) => typed,
            FnArg::Receiver(receiver) => {
                let text = "a function of its own has no `self`: what calls share is `Cx::state`";
                return Err(Error::new(receiver.span(), text));
            }
        };
        let attributes = std::mem::take(attrs);
        match last_word(ty).as_deref() {
            Some("Cx") => return Ok(Self::Cx),
            Some("Chunks") => return Ok(Self::Chunks(ty.span())),
            _ => {}
        }
        if let Type::Reference(reference) = &**ty {
            let text = "an argument cannot be a reference: take an owned type, such as `String` \
                        instead of `&str`";
            return Err(Error::new(reference.span(), text));
        }
        if let Type::ImplTrait(of) = &**ty {
            let text = "an argument needs a concrete type, not `impl Trait`";
            return Err(Error::new(of.span(), text));
        }
        if attributes.iter().any(|one| one.path().is_ident(WHOLE)) {
            return Ok(Self::Whole(ty.clone()));
        }
        let Pat::Ident(pattern) = &**pat else {
            let text = "an argument needs a name; a struct of all arguments is marked \
                        `#[arguments]`";
            return Err(Error::new(pat.span(), text));
        };
        Ok(Self::Argument(Box::new(Argument {
            attributes,
            name: pattern.ident.clone(),
            of: Type::clone(ty),
        })))
    }
}

/// A struct of all arguments leaves no room for others.
fn alone(parameters: &[Parameter]) -> Result<()> {
    let mut whole = parameters.iter().filter_map(|parameter| match parameter {
        Parameter::Whole(of) => Some(of),
        _ => None,
    });
    let others = |parameter: &Parameter| matches!(parameter, Parameter::Argument(_));
    let Some(first) = whole.next() else {
        return Ok(());
    };
    if whole.next().is_some() || parameters.iter().any(others) {
        let text = "a struct marked `#[arguments]` holds all arguments: there can be no other";
        return Err(Error::new(first.span(), text));
    }
    Ok(())
}

/// The text of doc comments, with its lines.
fn documentation(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| {
        let Meta::NameValue(pair) = &attribute.meta else {
            return None;
        };
        let Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) = &pair.value
        else {
            return None;
        };
        pair.path.is_ident("doc").then(|| text.value())
    });
    let mut said: Vec<String> = Vec::new();
    for text in lines {
        said.extend(text.split('\n').map(|line| line.trim().to_owned()));
    }
    said.join("\n").trim().to_owned()
}

/// The last word of a type that is a path, like `Cx` of `kit::Cx`.
fn last_word(of: &Type) -> Option<String> {
    match of {
        Type::Path(path) => {
            let last = path.path.segments.last()?;
            last.arguments.is_none().then(|| last.ident.to_string())
        }
        _ => None,
    }
}
