//! A model that the owner chats with, where nobody is there to agree.

use serde_json::Value;

use super::{How, Model, Stage, of};
use crate::{
    chat::lines,
    models::{Fake, OpenAi, Say},
};

/// How a model comes to a call.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form {
    Made,
    Printed,
    /// After it has read a result of a tool that tells it to.
    Ordered,
}
pub(super) const MADE: Form = Form::Made;
pub(super) const PRINTED: Form = Form::Printed;
pub(super) const ORDERED: Form = Form::Ordered;

pub(super) fn attempts(stage: &Stage) {
    for attempt in of(Model) {
        let How::Call(form, tool, arguments) = attempt.2 else {
            panic!("{attempt}: a model makes calls");
        };
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        let made = Say::Stream(OpenAi.calls(&[(tool, arguments.clone())]));
        let read = serde_json::json!({"project": "my-app", "epic_id": "MA-1"});
        let mut says = match form {
            Form::Made => vec![made],
            Form::Printed => {
                let call = serde_json::json!({"name": tool, "arguments": arguments});
                let text = format!("<tool_call>{call}</tool_call>");
                vec![Say::Stream(OpenAi.words(&[&text]))]
            }
            // The epic of the stage holds the order.
            Form::Ordered => vec![Say::Stream(OpenAi.calls(&[("get_epic", read)])), made],
        };
        says.push(Say::Stream(OpenAi.words(&["Done."])));
        let model = Fake::openai(says);
        let host = format!("{}/v1", model.address);
        let words = [
            "chat",
            "--backend",
            "openai",
            "--host",
            &host,
            "--model",
            "tiny",
        ];
        let said = stage.run_with_input(words, "Do as you like.");
        let answered = lines(&said).remove(0);
        let calls = answered["tool_calls"].as_array().unwrap();
        let last = calls.last().unwrap();
        assert_eq!(last["is_error"], true, "{attempt}: {answered}");
        assert!(last["ms"].is_null(), "{attempt}: it was made: {answered}");
        let told = model.chats().last().unwrap().body["messages"].to_string();
        assert!(
            told.contains("nobody is here to agree"),
            "{attempt}: {told}"
        );
        stage.is_untouched(&format!("a model: {attempt}"));
    }
}
