//! Tools: what is said of one, and the function behind it.

use std::{future::Future, sync::Arc};

use bytes::Bytes;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{
    answer::{Answer, ToolError},
    arguments::{self, Json},
    chunks::Chunks,
    cx::Cx,
};
use crate::{
    generated::ToolDefinition,
    quic::BoxFuture,
    structs::{self, Numbers},
};

/// Where the definition of a tool says that it can be called as a stream.
const STREAMING: &str = "orchestra/streaming";

type Plain = dyn Fn(Json, Cx) -> BoxFuture<'static, Result<Answer, ToolError>> + Send + Sync;
type Streaming =
    dyn Fn(Json, Cx, Chunks) -> BoxFuture<'static, Result<(), ToolError>> + Send + Sync;

/// The function behind a tool.
#[derive(Clone)]
pub(super) enum Function {
    Plain(Arc<Plain>),
    Streaming(Arc<Streaming>),
}

/// A tool that a plugin offers.
#[must_use]
pub struct Tool {
    pub(super) name: String,
    description: String,
    title: Option<String>,
    input: Value,
    output: Option<Value>,
    annotations: Map<String, Value>,
    pub(super) function: Function,
}

/// The arguments of a tool that takes none.
#[derive(Debug, Clone, Copy, Default, serde::Deserialize, JsonSchema)]
pub struct NoArguments {}

impl Tool {
    /// A tool by its name, what it does in a sentence for a model to read, and its function.
    ///
    /// The arguments are the function's: their schema is made from the struct, and they are checked
    /// before the function runs.
    pub fn new<A, F, Fut>(name: &str, description: &str, function: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        F: Fn(A, Cx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Answer, ToolError>> + Send + 'static,
    {
        let function = Arc::new(function);
        let plain = move |json: Json, cx: Cx| {
            let function = function.clone();
            Box::pin(async move { function(arguments::read::<A>(&json)?, cx).await })
                as BoxFuture<'static, _>
        };
        Self::of::<A>(name, description, Function::Plain(Arc::new(plain)))
    }

    /// A tool that answers in chunks, as they come to be. Who calls it like any other gets all of
    /// them as one text.
    pub fn streaming<A, F, Fut>(name: &str, description: &str, function: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        F: Fn(A, Cx, Chunks) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), ToolError>> + Send + 'static,
    {
        let function = Arc::new(function);
        let streaming = move |json: Json, cx: Cx, chunks: Chunks| {
            let function = function.clone();
            Box::pin(async move { function(arguments::read::<A>(&json)?, cx, chunks).await })
                as BoxFuture<'static, _>
        };
        Self::of::<A>(name, description, Function::Streaming(Arc::new(streaming)))
    }

    /// A name for people.
    pub fn title(mut self, title: &str) -> Self {
        self.title = Some(title.to_owned());
        self
    }

    /// It changes nothing.
    pub fn read_only(self) -> Self {
        self.annotated("readOnlyHint", true)
    }

    /// A second call with the same arguments changes nothing more, so it may be repeated.
    pub fn idempotent(self) -> Self {
        self.annotated("idempotentHint", true)
    }

    /// Whether it may remove or overwrite something. Without a word, it may.
    pub fn destructive(self, destructive: bool) -> Self {
        self.annotated("destructiveHint", destructive)
    }

    /// Whether it deals with the world outside. Without a word, it does.
    pub fn open_world(self, open: bool) -> Self {
        self.annotated("openWorldHint", open)
    }

    /// What its structured answers look like.
    pub fn output<T: JsonSchema>(mut self) -> Self {
        self.output = Some(arguments::output::<T>());
        self
    }

    /// The definition, for old peers and our own.
    ///
    /// # Errors
    /// The schema of its arguments fits into no `Struct`.
    pub(super) fn definition(&self) -> Result<ToolDefinition, structs::StructError> {
        let mut whole = json!({
            "name": self.name,
            "description": self.description,
            "inputSchema": self.input,
        });
        if let Value::Object(whole) = &mut whole {
            if let Some(title) = &self.title {
                whole.insert("title".to_owned(), title.as_str().into());
            }
            if let Some(output) = &self.output {
                whole.insert("outputSchema".to_owned(), output.clone());
            }
            if !self.annotations.is_empty() {
                let annotations = Value::Object(self.annotations.clone());
                whole.insert("annotations".to_owned(), annotations);
            }
            if matches!(self.function, Function::Streaming(_)) {
                whole.insert("_meta".to_owned(), json!({ STREAMING: true }));
            }
        }
        let schema = structs::encode(self.input.to_string().as_bytes(), Numbers::Nearest)?;
        Ok(ToolDefinition {
            name: self.name.clone(),
            description: self.description.clone(),
            input_schema: Some(schema),
            mcp_definition: Bytes::from(whole.to_string()),
        })
    }

    fn of<A: JsonSchema>(name: &str, description: &str, function: Function) -> Self {
        Self {
            name: name.to_owned(),
            description: description.to_owned(),
            title: None,
            input: arguments::input::<A>(),
            output: None,
            annotations: Map::new(),
            function,
        }
    }

    fn annotated(mut self, hint: &str, value: bool) -> Self {
        self.annotations.insert(hint.to_owned(), value.into());
        self
    }
}
