//! What is written in the place of an annotated function: the function itself, and beside it a type
//! of its name that makes the tool or the prompt.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, Result};

use crate::{
    function::{Argument, Function, Parameter},
    options::{PromptOptions, ToolOptions},
};

/// A tool.
pub(crate) fn tool(options: &ToolOptions, function: &Function) -> Result<TokenStream> {
    let chunks = function
        .parameters
        .iter()
        .find_map(|parameter| match parameter {
            Parameter::Chunks(span) => Some(*span),
            _ => None,
        });
    let (arguments, all) = arguments(function);
    let call = call(function);
    let description = &function.description;
    let name = name(options.name.as_ref(), function);
    let made = match chunks {
        None => quote! {
            ::orchestra_plugin::kit::Tool::new(#name, #description, |arguments: #all, cx| async move {
                let _ = (&arguments, &cx);
                ::orchestra_plugin::kit::IntoAnswer::into_answer(#call)
            })
        },
        Some(_) => quote! {
            ::orchestra_plugin::kit::Tool::streaming(
                #name,
                #description,
                |arguments: #all, cx, chunks| async move {
                    let _ = (&arguments, &cx);
                    #call.map_err(::orchestra_plugin::kit::ToolError::from)
                },
            )
        },
    };
    let title = options.title.iter();
    let read_only = options.read_only.then(|| quote!(.read_only()));
    let idempotent = options.idempotent.then(|| quote!(.idempotent()));
    let destructive = options.destructive.iter();
    let open_world = options.open_world.iter();
    let output = options.output.iter();
    let body = quote! {
        #arguments
        #made
            #(.title(#title))*
            #read_only
            #idempotent
            #(.destructive(#destructive))*
            #(.open_world(#open_world))*
            #(.output::<#output>())*
    };
    Ok(beside(function, &quote!(tool), &quote!(Tool), &body))
}

/// A prompt.
pub(crate) fn prompt(options: &PromptOptions, function: &Function) -> Result<TokenStream> {
    for parameter in &function.parameters {
        if let Parameter::Chunks(span) = parameter {
            return Err(Error::new(*span, "a prompt has no chunks"));
        }
    }
    let (arguments, all) = arguments(function);
    let call = call(function);
    let description = &function.description;
    let name = name(options.name.as_ref(), function);
    let title = options.title.iter();
    let body = quote! {
        #arguments
        ::orchestra_plugin::kit::Prompt::new(#name, #description, |arguments: #all, cx| async move {
            let _ = (&arguments, &cx);
            ::orchestra_plugin::kit::IntoMessages::into_messages(#call)
        })
        #(.title(#title))*
    };
    Ok(beside(function, &quote!(prompt), &quote!(Prompt), &body))
}

/// The function, and a type of its name: types and functions may be named alike.
fn beside(
    function: &Function,
    what: &TokenStream,
    kind: &TokenStream,
    body: &TokenStream,
) -> TokenStream {
    let item = &function.item;
    let (name, visibility) = (&item.sig.ident, &item.vis);
    let says = format!("Makes the {what} that the function is.");
    quote! {
        #item

        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code)]
        #visibility struct #name {}

        impl #name {
            #[doc = #says]
            #visibility fn #what() -> ::orchestra_plugin::kit::#kind {
                #body
            }
        }
    }
}

/// The struct of the arguments, unless the author has one, and its name.
fn arguments(function: &Function) -> (TokenStream, TokenStream) {
    let mut fields = Vec::new();
    for parameter in &function.parameters {
        match parameter {
            Parameter::Whole(of) => return (TokenStream::new(), quote!(#of)),
            Parameter::Argument(argument) => {
                let Argument {
                    attributes,
                    name,
                    of,
                } = &**argument;
                fields.push(quote!(#(#attributes)* #name: #of));
            }
            Parameter::Cx | Parameter::Chunks(_) => {}
        }
    }
    let arguments = quote! {
        #[derive(
            ::orchestra_plugin::kit::made::serde::Deserialize,
            ::orchestra_plugin::kit::made::schemars::JsonSchema,
        )]
        #[serde(crate = "::orchestra_plugin::kit::made::serde")]
        #[schemars(crate = "::orchestra_plugin::kit::made::schemars")]
        struct Arguments {
            #(#fields,)*
        }
    };
    (arguments, quote!(Arguments))
}

/// The call of the function, to its end.
fn call(function: &Function) -> TokenStream {
    let name = &function.item.sig.ident;
    let given = function.parameters.iter().map(|parameter| match parameter {
        Parameter::Argument(argument) => {
            let field = &argument.name;
            quote!(arguments.#field)
        }
        Parameter::Whole(_) => quote!(arguments),
        Parameter::Cx => quote!(::core::clone::Clone::clone(&cx)),
        Parameter::Chunks(_) => quote!(chunks),
    });
    quote!(#name(#(#given),*).await)
}

/// The name that was chosen, or that of the function.
fn name(chosen: Option<&syn::LitStr>, function: &Function) -> String {
    chosen.map_or_else(|| function.name.clone(), syn::LitStr::value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(options: &str, item: &str) -> String {
        let options = ToolOptions::parse(options.parse().unwrap());
        let made = options.and_then(|options| {
            let function = Function::parse(item.parse().unwrap(), "tool")?;
            tool(&options, &function)
        });
        match made {
            Ok(made) => made.to_string(),
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn mistakes_are_told() {
        let doc = "/// Does it.\n";
        for (options, item, wanted) in [
            ("", "struct A;".to_owned(), "a tool must be an `async fn`: "),
            (
                "",
                format!("{doc}fn a() {{}}"),
                "a tool must be an `async fn`, because",
            ),
            ("", "async fn a() {}".to_owned(), "in a doc comment"),
            ("", "///  \nasync fn a() {}".to_owned(), "in a doc comment"),
            (
                "",
                format!("{doc}async fn a<T>(a: T) {{}}"),
                "cannot be generic",
            ),
            ("", format!("{doc}async fn a(&self) {{}}"), "has no `self`"),
            (
                "",
                format!("{doc}async fn a(a: &str) {{}}"),
                "take an owned type",
            ),
            (
                "",
                format!("{doc}async fn a(a: impl Copy) {{}}"),
                "needs a concrete type",
            ),
            (
                "",
                format!("{doc}async fn a((a, b): (u8, u8)) {{}}"),
                "an argument needs a name",
            ),
            (
                "",
                format!("{doc}async fn a(#[arguments] a: A, b: u8) {{}}"),
                "there can be no other",
            ),
            (
                "idempotant",
                format!("{doc}async fn a() {{}}"),
                "a tool has the options name",
            ),
            (
                "name = \"\"",
                format!("{doc}async fn a() {{}}"),
                "a name is not empty",
            ),
            (
                "read_only = 1",
                format!("{doc}async fn a() {{}}"),
                "expected boolean",
            ),
        ] {
            let told = made(options, &item);
            assert!(told.starts_with("error: "), "{item}: {told}");
            assert!(told.contains(wanted), "{item}: {told}");
        }
        let function = "/// Writes.\nasync fn a(chunks: Chunks) -> Messages {}";
        let function = Function::parse(function.parse().unwrap(), "prompt").unwrap();
        assert!(prompt(&PromptOptions::default(), &function).is_err());
        assert!(PromptOptions::parse("read_only".parse().unwrap()).is_err());
        assert!(Function::parse("/// A.\nasync fn a() {}".parse().unwrap(), "prompt").is_err());
    }

    #[test]
    fn what_is_said_is_passed_on() {
        let options = "name = \"other\", title = \"A\", read_only, destructive = false";
        let item = "/// First line,\n/// and second.\n///\n/// More.\n\
                    async fn a(/// How much.\n#[serde(default)] r#type: u8, cx: kit::Cx) -> String {}";
        let made = made(options, item);
        for wanted in [
            "\"other\" , \"First line,\\nand second.\\n\\nMore.\"",
            ". title (\"A\") . read_only () . destructive (false)",
            "# [serde (default)] r#type : u8",
            "a (arguments . r#type , :: core :: clone :: Clone :: clone (& cx)) . await",
            "async fn a (r#type : u8 , cx : kit :: Cx)",
        ] {
            assert!(made.contains(wanted), "{wanted} is not in {made}");
        }
    }
}
