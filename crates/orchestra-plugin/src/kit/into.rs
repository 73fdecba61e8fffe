//! What functions may return: whatever can become an answer, or the messages of a prompt.

use serde::Serialize;

use super::{
    answer::{Answer, ToolError},
    prompt::Messages,
};

/// A value that becomes the JSON of an answer: see [`Answer::json`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Json<T>(pub T);

/// Becomes the answer of a tool. What a tool says is for a model or for a program to read, so a bare
/// number is none:
///
/// ```compile_fail
/// # use orchestra_plugin::kit::tool;
/// /// Counts something.
/// #[tool]
/// async fn count() -> u32 {
///     7
/// }
/// ```
///
/// `Json(7)` of it is.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no answer of a tool",
    label = "this is what the function returns",
    note = "return a `String`, `Json` of a value that serializes, an `Answer`, nothing, or a \
            `Result` of one of them whose error is an error or a `ToolError`"
)]
pub trait IntoAnswer {
    /// The answer.
    ///
    /// # Errors
    /// What went wrong instead, or that a value has no form in JSON.
    fn into_answer(self) -> Result<Answer, ToolError>;
}

impl IntoAnswer for Answer {
    fn into_answer(self) -> Result<Answer, ToolError> {
        Ok(self)
    }
}

impl IntoAnswer for String {
    fn into_answer(self) -> Result<Answer, ToolError> {
        Ok(Answer::text(self))
    }
}

impl IntoAnswer for &str {
    fn into_answer(self) -> Result<Answer, ToolError> {
        Ok(Answer::text(self))
    }
}

/// A tool that has nothing to say.
impl IntoAnswer for () {
    fn into_answer(self) -> Result<Answer, ToolError> {
        Ok(Answer::text("done"))
    }
}

impl<T: Serialize> IntoAnswer for Json<T> {
    fn into_answer(self) -> Result<Answer, ToolError> {
        Answer::json(self.0)
    }
}

impl<T: IntoAnswer, E: Into<ToolError>> IntoAnswer for Result<T, E> {
    fn into_answer(self) -> Result<Answer, ToolError> {
        self.map_err(Into::into)?.into_answer()
    }
}

/// Becomes the messages of a prompt.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a prompt",
    label = "this is what the function returns",
    note = "return `Messages`, a `String` for a message of the user, or a `Result` of one of them \
            whose error is an error or a `ToolError`"
)]
pub trait IntoMessages {
    /// The messages.
    ///
    /// # Errors
    /// What went wrong instead.
    fn into_messages(self) -> Result<Messages, ToolError>;
}

impl IntoMessages for Messages {
    fn into_messages(self) -> Result<Messages, ToolError> {
        Ok(self)
    }
}

/// The user says it.
impl IntoMessages for String {
    fn into_messages(self) -> Result<Messages, ToolError> {
        Ok(Messages::new("").user(self))
    }
}

impl<T: IntoMessages, E: Into<ToolError>> IntoMessages for Result<T, E> {
    fn into_messages(self) -> Result<Messages, ToolError> {
        self.map_err(Into::into)?.into_messages()
    }
}
