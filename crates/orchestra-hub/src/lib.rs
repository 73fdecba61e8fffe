//! Routes calls from protocol faces to providers.

mod catalog;
mod outcome;
mod provider;
mod request;

pub use catalog::{
    Annotations, Catalog, Cost, PromptArgument, PromptDescriptor, ResourceDescriptor,
    TemplateDescriptor, ToolDescriptor,
};
pub use outcome::{
    Completion, Content, InputRequired, Outcome, PromptResult, ProviderError, ResourceContents,
    ResourceResult, ToolResult,
};
pub use provider::{BoxFuture, LogLevel, Notice, Provider, ProviderId};
pub use request::{
    Answers, Caller, CancelSignal, CompletionRef, Cx, ProgressListener, ProgressSink, Request, Target,
};
