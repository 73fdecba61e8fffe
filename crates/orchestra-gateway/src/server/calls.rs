//! What a caller asks of a server, from its rules to its answer.

use std::{sync::Arc, time::Duration};

use orchestra_hub::{
    CallEnd, Completion, CompletionRef, Cx, Outcome, ProviderError, Request, ResultKind, Target,
};
use orchestra_mcp::client::{
    ClientError, ClientStatus, Reply, ServerCall, ToolCheck, URL_ELICITATION_REQUIRED, attribute,
    attribute_error, attribute_result,
};
use orchestra_wire::{INTERNAL, RawJson, RpcError};

use super::{
    Running, Server,
    ask::{self, MAX_QUESTION_CHARS, Mind, TooLong},
    offered::{Offered, Tool},
    params::{params, text},
    relay,
    results::{not_understood, verbatim},
};
use crate::{
    cache::{Cache, Key},
    config::{Effect, Pins, ServerConfig},
    definitions, explain,
    policy::{By, Decision},
};

/// Code of a call of a tool that is hidden until the user approves its change.
const NEEDS_APPROVAL: &str = "needs_approval";

pub(super) type Answer = Result<Outcome, ProviderError>;

/// What became of a tool's call.
pub(super) struct Done {
    pub(super) answer: Answer,
    /// How it is counted, where its answer does not show that.
    end: Option<CallEnd>,
    /// For the record.
    note: Option<String>,
}

impl Server {
    /// What may be behind an error of a start, or behind the last start, which that error tells of.
    fn hint_of_start(&self, error: &ClientError) -> Option<String> {
        self.hints.about_start(error).or_else(|| {
            let status = self.client.status();
            match &*status.borrow() {
                ClientStatus::Restarting { reason, .. } | ClientStatus::Offline { reason, .. } => {
                    self.hints.about_start(reason)
                }
                _ => None,
            }
        })
    }

    /// An error as this program may tell it.
    fn told(&self, error: ClientError) -> ClientError {
        match error {
            ClientError::NotYet { last, .. } if self.once => ClientError::NotYet {
                next_at: None,
                last,
            },
            error => error,
        }
    }

    /// Answers a request that was routed here, and was counted.
    pub(crate) async fn serve(self: Arc<Self>, request: Request, _running: Running) -> Answer {
        if self.is_relay() {
            return self.relay(request).await;
        }
        let Request { target, mut cx } = request;
        match target {
            Target::Tool { name, arguments } => {
                let offered = match self.seen(cx.deadline).await {
                    Ok(offered) => offered,
                    Err(error) => {
                        cx.remark
                            .set(Some(CallEnd::Unreachable), error.code().to_owned());
                        let hint = self.hint_of_start(&error);
                        return explain::tool(self.name(), self.told(error), false, hint);
                    }
                };
                let offered = offered.for_client(cx.connection);
                let Some(tool) = offered.tool(&name).cloned() else {
                    return not_there(&self.config, &offered, name, &cx);
                };
                let remark = cx.remark.clone();
                let decision = self.policy.decide(&tool.theirs, tool.nature(), &arguments);
                let mind = ask::unwrap(&mut cx, &self.consents);
                let done = match self.refused(&tool, &arguments, &decision, mind, &cx) {
                    Some(done) => done,
                    None => self.call_tool(&tool, arguments, mind, cx).await,
                };
                let mut notes = decision.rule;
                if let Some(note) = done.note {
                    notes.push_str("; ");
                    notes.push_str(&note);
                }
                remark.set(done.end, notes);
                done.answer
            }
            Target::Prompt { name, arguments } => {
                let offered = self.seen(cx.deadline).await;
                let offered = offered.map_err(|error| explain::other(self.name(), error))?;
                let offered = offered.for_client(cx.connection);
                let theirs = offered
                    .prompt(&name)
                    .ok_or_else(|| unknown("prompt", name.clone()))?;
                let arguments = RawJson::of(&arguments).unwrap_or_else(|_| RawJson::empty_object());
                let own = [("name", text(theirs)), ("arguments", arguments)];
                self.pass(
                    "prompts/get",
                    &own,
                    theirs.to_owned(),
                    cx,
                    ResultKind::Prompt,
                )
                .await
            }
            other => self.pass_on(other, cx).await,
        }
    }

    /// Asks what has no name of ours in it, as it is.
    pub(super) async fn pass_on(&self, target: Target, cx: Cx) -> Answer {
        match target {
            Target::Resource { uri } => {
                let own = [("uri", text(&uri))];
                self.pass("resources/read", &own, uri, cx, ResultKind::Resource)
                    .await
            }
            Target::Complete {
                reference,
                argument,
                value,
                context,
            } => {
                let named = serde_json::json!({"name": argument, "value": value});
                let context = serde_json::json!({ "arguments": context });
                self.complete(reference, &named, &context, cx).await
            }
            Target::Raw { method, params } => self.pass_raw(method, params, cx).await,
            // These are asked for before, by their names of ours.
            Target::Tool { name, .. } => Err(unknown("tool", name)),
            Target::Prompt { name, .. } => Err(unknown("prompt", name)),
            Target::Skills(_) | Target::List { .. } => Err(unknown("method", "list".to_owned())),
        }
    }

    /// Asks something on behalf of this program. It counts as a call of a tool does.
    ///
    /// # Errors
    /// Why there is no answer; what the limits of the server refuse was not sent.
    pub(crate) async fn ask(&self, call: ServerCall) -> Result<RawJson, ClientError> {
        let place = self.policy.take().await;
        let _place = place.map_err(|exhausted| ClientError::Busy {
            what: format!(
                "{}; try again in {}",
                exhausted.what,
                explain::wait(exhausted.again)
            ),
        })?;
        match self.reply(call).await? {
            Reply::Result(result) => Ok(result),
            Reply::InputRequired(_) => Err(ClientError::InvalidMessage {
                what: "it asks a question, and no client is there to answer it".to_owned(),
            }),
        }
    }

    /// Asks something that nobody here knows.
    pub(super) async fn pass_raw(&self, method: String, params: Option<RawJson>, cx: Cx) -> Answer {
        if method.starts_with(INTERNAL) {
            let RpcError {
                code,
                message,
                data,
            } = RpcError::method_not_found(&method);
            return Err(ProviderError::Rpc {
                code: code.0,
                message: message.into_owned(),
                data,
            });
        }
        let call = ServerCall::new(method.clone(), params, cx);
        match self.reply(call).await {
            Ok(Reply::Result(result)) => Ok(Outcome::Raw(result)),
            Ok(Reply::InputRequired(input)) => Ok(Outcome::InputRequired(input)),
            Err(error) => Err(self.failed(&method, error)),
        }
    }

    /// Makes a call. A question of the server names it; what an orchestrator asks is passed on as it is: the server was
    /// named there.
    pub(super) async fn reply(&self, call: ServerCall) -> Result<Reply, ClientError> {
        let reply = self.client.call(call).await;
        if self.is_relay() {
            return reply;
        }
        match reply {
            Ok(Reply::InputRequired(mut input)) => {
                input.requests = attribute(&input.requests, self.name());
                Ok(Reply::InputRequired(input))
            }
            Err(ClientError::Rpc(error)) if error.code == URL_ELICITATION_REQUIRED => {
                if !self.config.features.elicitation {
                    return Err(ClientError::InvalidMessage {
                        what: "it asks for elicitation, which its `features` do not allow"
                            .to_owned(),
                    });
                }
                Err(ClientError::Rpc(attribute_error(error, self.name())))
            }
            Ok(Reply::Result(result)) if self.config.transport.is_mcp() => {
                Ok(Reply::Result(attribute_result(result)))
            }
            reply => reply,
        }
    }

    /// What stands against a call, before anything is sent.
    fn refused(
        &self,
        tool: &Tool,
        arguments: &RawJson,
        decision: &Decision,
        mind: Mind,
        cx: &Cx,
    ) -> Option<Done> {
        let (name, server) = (&tool.shown, self.name());
        let rule = &*decision.rule;
        let denied = |why: &str| {
            let text = format!("{name} was not called, and nothing ran: {why}.");
            Some(refusal(text, explain::DENIED, CallEnd::Denied, None))
        };
        match (decision.effect, mind) {
            (Effect::Deny, _) => {
                let why = self.policy.why_default(decision.by);
                return denied(&match decision.by {
                    By::Rule => format!("a rule of the configuration denies it ({rule})"),
                    By::Default => format!("no rule of the configuration allows it, and {why}"),
                    By::Bound => why,
                });
            }
            (Effect::Ask, Mind::No) => return denied("the user did not agree"),
            (Effect::Ask, Mind::Unasked) if !cx.features.elicitation => {
                let why = match decision.by {
                    By::Default => {
                        "no rule of the configuration allows it, so the user is to be asked"
                    }
                    By::Bound => "the user's own files require consent",
                    By::Rule => "a rule requires consent",
                };
                let text = format!(
                    "{name} was not called, and nothing ran: {why}, which this client cannot do \
                     ({rule})."
                );
                return Some(Done {
                    answer: Ok(explain::unasked(text, rule)),
                    end: Some(CallEnd::Denied),
                    note: Some(explain::DENIED.to_owned()),
                });
            }
            (Effect::Ask, Mind::Unasked) => {
                let question = ask::question(server, &tool.theirs, arguments, &self.consents);
                return match question {
                    Ok(question) => Some(Done {
                        answer: Ok(Outcome::InputRequired(question)),
                        end: None,
                        note: None,
                    }),
                    Err(TooLong { chars }) => denied(&format!(
                        "the user is to be asked ({rule}), and a question that shows the whole \
                         call would have {chars} characters, more than the \
                         {MAX_QUESTION_CHARS} that a client is asked. The user can review and \
                         approve the call at a terminal, with `orchestra mcp call {server}`"
                    )),
                };
            }
            (Effect::Allow, _) | (Effect::Ask, Mind::Yes) => {}
        }
        let mistakes = tool.input.mistakes(arguments, name)?;
        let text =
            format!("The arguments of {name} do not match its schema, and nothing ran: {mistakes}");
        Some(refusal(
            text,
            explain::INVALID_ARGUMENTS,
            CallEnd::InvalidParams,
            None,
        ))
    }

    pub(super) async fn call_tool(
        self: &Arc<Self>,
        tool: &Tool,
        arguments: RawJson,
        mind: Mind,
        cx: Cx,
    ) -> Done {
        let cache = self
            .cache
            .as_ref()
            // What nobody here knows of a call may make its result another.
            .filter(|_| tool.is_read_only && cx.answers.is_none() && cx.along.carried.is_none());
        let offered = self.offered();
        let version = offered.facts().map_or("", |facts| &facts.info);
        let key = cache.and_then(|_| Key::of(version, &tool.theirs, &arguments, &cx));
        if let (Some(cache), Some(key)) = (cache, &key)
            && let Some(result) = cache.find(key)
        {
            return Done {
                answer: Ok(verbatim(result, false)),
                end: None,
                note: Some("cached".to_owned()),
            };
        }
        let _place = match self.policy.take().await {
            Ok(place) => place,
            Err(exhausted) => {
                let text = format!(
                    "{} was not called, and nothing ran: {}. Try again in {}.",
                    tool.shown,
                    exhausted.what,
                    explain::wait(exhausted.again)
                );
                return refusal(text, exhausted.code, CallEnd::Denied, Some(exhausted.again));
            }
        };
        let age = cache.map(Cache::age).unwrap_or_default();
        let changes = self.cache.as_ref().filter(|_| !tool.is_read_only);
        let _change = changes.map(Cache::change);
        let own = [
            ("name", text(&tool.theirs)),
            ("arguments", arguments.clone()),
        ];
        let own = match self.is_relay() && relay::is_bare(&cx) {
            true => &own[..1],
            false => &own,
        };
        let mut call = tool.call(params(own, cx.params.as_ref()), &arguments, cx);
        call.check = self.check(&offered, tool);
        match self.call_mirrored(tool, &arguments, call).await {
            Err(done) => *done,
            Ok(Err(ClientError::ToolChanged)) => {
                let text = needs_approval(&self.config, &tool.shown);
                refusal(text, NEEDS_APPROVAL, CallEnd::Denied, None)
            }
            Ok(Ok(Reply::Result(result))) => {
                let keep = cache.zip(key).map(|(cache, key)| (cache, key, age));
                let answer = self.tool_answer(tool, result, keep).await;
                Done {
                    answer,
                    end: None,
                    note: None,
                }
            }
            Ok(Ok(Reply::InputRequired(mut input))) => {
                ask::wrap(mind, &mut input, &self.consents);
                Done {
                    answer: Ok(Outcome::InputRequired(input)),
                    end: None,
                    note: None,
                }
            }
            Ok(Err(error)) => {
                let (end, note) = match &error {
                    ClientError::Rpc(_) | ClientError::Cancelled => (None, None),
                    ClientError::Timeout { .. } => {
                        (Some(CallEnd::DeadlineExceeded), Some(error.code()))
                    }
                    error => (Some(CallEnd::Unreachable), Some(error.code())),
                };
                Done {
                    answer: match self.is_relay() {
                        true => Err(self.failed("tools/call", error)),
                        false => {
                            let hint = self.hints.about(&error);
                            explain::tool(self.name(), self.told(error), tool.is_safe, hint)
                        }
                    },
                    end,
                    note: note.map(str::to_owned),
                }
            }
        }
    }

    /// Checks a tool against its pin on the connection that calls it: a server that was started for the call may
    /// define the tool otherwise than before.
    fn check(&self, offered: &Arc<Offered>, tool: &Tool) -> Option<ToolCheck> {
        if self.is_relay() || self.config.pins != Pins::Ask || offered.known.is_none() {
            return None;
        }
        let (offered, name) = (Arc::clone(offered), tool.theirs.clone());
        Some(ToolCheck::new(move |definition| {
            let known = offered.known.as_ref();
            known.is_none_or(|known| known.approves(&name, definition))
        }))
    }

    pub(super) async fn complete(
        &self,
        reference: CompletionRef,
        argument: &serde_json::Value,
        context: &serde_json::Value,
        cx: Cx,
    ) -> Answer {
        let offered = self.offered().for_client(cx.connection);
        let completes = offered.facts().map(|facts| facts.completions);
        if !completes.unwrap_or(self.is_relay()) {
            return Ok(Outcome::Completion(Completion::default()));
        }
        let reference = match reference {
            CompletionRef::Prompt(shown) => {
                let name = match offered.prompt(&shown) {
                    Some(name) => name,
                    None if self.is_relay() => &shown,
                    None => return Err(unknown("prompt", shown)),
                };
                serde_json::json!({"type": "ref/prompt", "name": name})
            }
            CompletionRef::Resource(uri) => serde_json::json!({"type": "ref/resource", "uri": uri}),
        };
        let own = |value| RawJson::of(value).unwrap_or_else(|_| RawJson::empty_object());
        let mut members = vec![("ref", own(&reference)), ("argument", own(argument))];
        let is_empty = context["arguments"]
            .as_object()
            .is_none_or(serde_json::Map::is_empty);
        if !is_empty {
            members.push(("context", own(context)));
        }
        self.pass(
            "completion/complete",
            &members,
            String::new(),
            cx,
            ResultKind::Completion,
        )
        .await
    }

    /// Asks something that changes nothing.
    pub(super) async fn pass(
        &self,
        method: &'static str,
        own: &[(&str, RawJson)],
        name: String,
        cx: Cx,
        kind: ResultKind,
    ) -> Answer {
        let mut call = ServerCall::new(method, Some(params(own, cx.params.as_ref())), cx);
        let uri = Some(name.clone()).filter(|_| kind == ResultKind::Resource);
        call.name = (!name.is_empty()).then_some(name);
        call.safe = true;
        let error = match self.reply(call).await {
            Ok(Reply::Result(result)) => {
                match self.repaired(kind, result, uri, &self.is_repaired).await {
                    Some(result) => {
                        return Ok(Outcome::Verbatim {
                            kind,
                            result,
                            is_error: false,
                        });
                    }
                    None => not_understood(),
                }
            }
            Ok(Reply::InputRequired(input)) => return Ok(Outcome::InputRequired(input)),
            Err(error) => error,
        };
        Err(match kind {
            ResultKind::Resource => explain::absent(self.failed(method, error)),
            _ => self.failed(method, error),
        })
    }

    /// What is told of a request that brought no answer.
    pub(super) fn failed(&self, method: &str, error: ClientError) -> ProviderError {
        match self.is_relay() {
            true => relay::failure(method, error),
            false => explain::other(self.name(), error),
        }
    }
}

/// The call of a tool as its server defines it, for a person who calls without a hub.
///
/// # Errors
/// Why the tool cannot be called.
pub(crate) fn call_of(
    config: &ServerConfig,
    definition: &RawJson,
    arguments: &RawJson,
) -> Result<ServerCall, String> {
    let definition = definitions::tool(definition, config.name.as_str())?.item;
    let tool = Tool::of(config, &definition, &definition.name)?;
    let own = [
        ("name", text(&tool.theirs)),
        ("arguments", arguments.clone()),
    ];
    Ok(tool.call(params(&own, None), arguments, Cx::default()))
}

/// What is told of a tool that is not shown.
fn not_there(config: &ServerConfig, offered: &Offered, name: String, cx: &Cx) -> Answer {
    if !offered.hides(&name) {
        return Err(unknown("tool", name));
    }
    let text = needs_approval(config, &name);
    cx.remark.set(Some(CallEnd::Denied), NEEDS_APPROVAL);
    Ok(explain::failure(text, NEEDS_APPROVAL, false, None))
}

fn needs_approval(config: &ServerConfig, name: &str) -> String {
    let server = &config.name;
    format!(
        "{name} was not called, and nothing ran: it changed since it was approved. The user can review and approve the change with `orchestra mcp approve {server}`. {}.",
        config.follow_advice()
    )
}

pub(super) fn refusal(
    text: String,
    code: &'static str,
    end: CallEnd,
    again: Option<Duration>,
) -> Done {
    Done {
        answer: Ok(explain::failure(text, code, false, again)),
        end: Some(end),
        note: Some(code.to_owned()),
    }
}

fn unknown(kind: &'static str, name: String) -> ProviderError {
    ProviderError::Unknown { kind, name }
}
