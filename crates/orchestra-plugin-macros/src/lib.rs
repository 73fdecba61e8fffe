//! The attributes by which functions become tools and prompts of a plugin.
//!
//! They are used through `orchestra_plugin::kit`, which has the types that they speak of; here is
//! only what turns one piece of source text into another.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod function;
mod options;
mod write;

use proc_macro::TokenStream;

use function::Function;
use options::{PromptOptions, ToolOptions};

/// Makes a tool of an `async fn`: `name::tool()` is the tool, for `Plugin::tool`.
///
/// The function stays what it is. Its name is that of the tool, its doc comment tells models what
/// the tool does, and its parameters are the arguments, with their doc comments. Attributes of a
/// parameter, such as `#[serde(default)]`, are those of the argument; one that is an `Option` may be
/// left out. Two kinds of parameters are no arguments: a `Cx` is the view of the call, and `Chunks`
/// make it a tool that answers in chunks. A parameter marked `#[arguments]` is a struct of all
/// arguments.
///
/// It returns what has `IntoAnswer`: a text, `Json` of a value, an `Answer`, or a `Result` of one of
/// them whose error is any error, or a `ToolError`.
///
/// | option | meaning |
/// |---|---|
/// | `name = "…"` | the name, instead of the function's |
/// | `title = "…"` | a name for people |
/// | `read_only` | it changes nothing |
/// | `idempotent` | a second call with the same arguments changes nothing more |
/// | `destructive`, `destructive = false` | whether it may remove or overwrite something |
/// | `open_world`, `open_world = false` | whether it deals with the world outside |
/// | `output = Type` | what its structured answers look like |
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    let made = ToolOptions::parse(options.into())
        .and_then(|options| Ok((options, Function::parse(item.into(), "tool")?)))
        .and_then(|(options, function)| write::tool(&options, &function));
    made.unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Makes a prompt of an `async fn`: `name::prompt()` is the prompt, for `Plugin::prompt`.
///
/// As with tools, the name, the doc comment and the parameters are those of the prompt. All
/// arguments are texts: `String`, or `Option<String>` for one that may be left out. It returns
/// `Messages`, or a `Result` of them. The options are `name = "…"` and `title = "…"`.
#[proc_macro_attribute]
pub fn prompt(options: TokenStream, item: TokenStream) -> TokenStream {
    let made = PromptOptions::parse(options.into())
        .and_then(|options| Ok((options, Function::parse(item.into(), "prompt")?)))
        .and_then(|(options, function)| write::prompt(&options, &function));
    made.unwrap_or_else(|error| error.to_compile_error()).into()
}
