//! The tools of a hub as a conversation has them.

use std::sync::Arc;

use orchestra_hub::{
    Answers, Attachment, Content, Cx, Hub, Outcome as Answered, Request, Target, ToolDescriptor,
    ToolResult, Toolset,
};
use orchestra_wire::RawJson;
use serde_json::Value;

use crate::{
    backend::BoxFuture,
    chat::{Due, Outcome},
    driver::Toolbox,
    message::Image,
    tool::{Described, Nature, Tools},
    untrusted::capped,
};

/// Characters of an answer that are looked at: a model is given fewer.
const MAX_CHARS: usize = 1_000_000;

/// How a rule that wants a person to agree is told from a result, and how it is told that one does.
#[derive(Debug, Clone)]
pub struct Consent {
    /// The rule, where the result says that the call was not made for want of somebody who agrees.
    pub asked: fn(&ToolResult) -> Option<String>,
    /// What says that somebody agrees.
    pub agreed: Answers,
}

/// Calls the tools of a hub.
#[derive(Clone)]
pub struct HubTools {
    attachment: Arc<Attachment>,
    consent: Consent,
}

impl std::fmt::Debug for HubTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HubTools").finish_non_exhaustive()
    }
}

impl HubTools {
    /// Calls tools as an attachment may.
    #[must_use]
    pub const fn new(attachment: Arc<Attachment>, consent: Consent) -> Self {
        Self {
            attachment,
            consent,
        }
    }
}

/// The tools of a hub that a toolset shows, those that `wants` says. What a server of others says of its tools is
/// believed where `trusts` says so.
#[must_use]
pub fn tools_of(
    hub: &Hub,
    toolset: &Toolset,
    wants: impl Fn(&ToolDescriptor) -> bool,
    trusts: impl Fn(&str) -> bool,
) -> Tools {
    let all = hub.tools(toolset).into_iter().filter(|tool| wants(tool));
    Tools::new(all.map(|tool| described(tool, &trusts)))
}

fn described(tool: ToolDescriptor, trusts: &impl Fn(&str) -> bool) -> Described {
    let server = tool.server().map(str::to_owned);
    let is_believed = server.as_deref().is_none_or(trusts);
    let only_reads = tool.annotations.read_only == Some(true);
    let value = |schema: &RawJson| schema.parse::<Value>().unwrap_or_default();
    Described {
        schema: value(&tool.input_schema),
        lean: tool.lean_schema.as_ref().map(value),
        nature: match only_reads && is_believed {
            true => Nature::Reads,
            false => Nature::Changes,
        },
        description: tool.description.or(tool.title).unwrap_or_default(),
        name: tool.name,
        server,
    }
}

impl Toolbox for HubTools {
    fn call(&self, due: Due) -> BoxFuture<Outcome> {
        let tools = self.clone();
        Box::pin(async move { tools.called(due).await })
    }
}

impl HubTools {
    async fn called(self, due: Due) -> Outcome {
        let arguments = match RawJson::of(&due.call.arguments) {
            Ok(arguments) => arguments,
            Err(error) => return Outcome::Broken(error.to_string()),
        };
        // A rule of a server is about people who agree; tools of our own know no rules.
        let answers = (due.is_agreed && due.server.is_some()).then(|| self.consent.agreed.clone());
        let request = Request {
            target: Target::Tool {
                name: due.call.tool,
                arguments,
            },
            cx: Cx {
                caller: self.attachment.caller().clone(),
                answers,
                ..Cx::default()
            },
        };
        match self.attachment.call(request).await {
            Ok(Answered::Tool(result)) => match (self.consent.asked)(&result) {
                Some(rule) => Outcome::WantsConsent(rule),
                None => outcome(&result),
            },
            Ok(Answered::Verbatim {
                result, is_error, ..
                // What a server says of rules is not ours.
            }) => outcome(&ToolResult::of_verbatim(&result, is_error)),
            Ok(Answered::InputRequired(_)) => Outcome::Broken(
                "it asks for input that cannot be given in a conversation".to_owned(),
            ),
            Ok(_) => {
                Outcome::Broken("it answered something that is no result of a tool".to_owned())
            }
            Err(error) => Outcome::Broken(error.to_string()),
        }
    }
}

/// What a result says.
fn outcome(result: &ToolResult) -> Outcome {
    let (mut texts, mut images) = (Vec::new(), Vec::new());
    for content in &result.content {
        match content {
            Content::Text(text) => texts.push(capped(text, MAX_CHARS)),
            Content::Raw(raw) => other(raw, &mut texts, &mut images),
        }
    }
    if texts.is_empty()
        && let Some(structured) = &result.structured
    {
        texts.push(capped(structured.as_str(), MAX_CHARS));
    }
    if texts.is_empty() && images.is_empty() {
        texts.push("(nothing)".to_owned());
    }
    Outcome::Answered {
        text: capped(&texts.join("\n"), MAX_CHARS),
        images,
        is_error: result.is_error,
    }
}

/// Whether servers of models take it: one that they refuse would be refused with all that is said later.
fn is_image(mime: &str, data: &str) -> bool {
    let kinds = ["image/png", "image/jpeg", "image/gif", "image/webp"];
    let digits = data.trim_end_matches('=');
    let is_digit = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/');
    kinds.contains(&mime)
        && !digits.is_empty()
        && data.len().is_multiple_of(4)
        && data.len() - digits.len() <= 2
        && digits.bytes().all(is_digit)
}

/// Content that is no plain text: as an image, or in words.
fn other(raw: &RawJson, texts: &mut Vec<String>, images: &mut Vec<Image>) {
    let content: Value = raw.parse().unwrap_or_default();
    let text = |member: &Value| member.as_str().unwrap_or_default().to_owned();
    match content["type"].as_str().unwrap_or_default() {
        "text" => texts.push(capped(&text(&content["text"]), MAX_CHARS)),
        "image" => {
            let (mime, data) = (text(&content["mimeType"]), text(&content["data"]));
            texts.push(format!(
                "[an image, {mime}, {} bytes in base64]",
                data.len()
            ));
            if is_image(&mime, &data) {
                images.push(Image { mime, data });
            }
        }
        "audio" => texts.push(format!(
            "[sound, {}, which cannot be heard here]",
            text(&content["mimeType"])
        )),
        "resource_link" => {
            let (name, uri) = (text(&content["name"]), text(&content["uri"]));
            texts.push(format!("[{name}: {uri}]"));
        }
        "resource" => {
            let resource = &content["resource"];
            let uri = text(&resource["uri"]);
            match resource["text"].as_str() {
                Some(inner) => texts.push(format!("[{uri}]\n{}", capped(inner, MAX_CHARS))),
                None => texts.push(format!("[{uri}: {}, no text]", text(&resource["mimeType"]))),
            }
        }
        other => texts.push(format!("[content of the kind `{}`]", capped(other, 40))),
    }
}
