//! Which era a server speaks, and the greeting that its era asks for.

use std::{sync::Arc, time::Duration};

use orchestra_hub::BoxFuture;
use orchestra_secret::Masker;
use orchestra_wire::{Era, ErrorCode, RawJson, Revision, Rope, shown, text_of};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout, timeout_at};

use super::{
    Agreed, Answer, ClientError, HttpFailure, ProtocolChoice, ServerCan, ServerFacts, params,
    session::Session,
};
use crate::{attribution::in_a_line, translation};

type Response = BoxFuture<Result<Answer, ClientError>>;

/// What the first question of the newest era brought.
enum Probed {
    /// It speaks it.
    Stateless(ServerFacts),
    /// It speaks sessions, as it says or as its error shows.
    Session,
    /// It has not answered yet.
    Silent(Response),
}

/// Greets a server in the era that it speaks; where both are permitted, first in `first`.
///
/// # Errors
/// When it speaks none that is permitted, or the connection breaks.
pub(super) async fn greet(session: &Arc<Session>, first: Era) -> Result<ServerFacts, ClientError> {
    let choice = session.config.protocol;
    let facts = match (choice.permits(Era::Stateless), choice.permits(Era::Session)) {
        (true, false) => discover(session).await?,
        (false, true) => initialize(session).await?,
        _ if first == Era::Session => initialize_first(session).await?,
        _ => match probe(session).await? {
            Probed::Stateless(facts) => facts,
            Probed::Session => initialize(session).await?,
            Probed::Silent(late) => initialize_beside(session, late).await?,
        },
    };
    let listening = session.link.agreed(Agreed {
        revision: facts.revision,
    });
    if facts.revision.era() == Era::Session {
        let answered = session.link.notify("notifications/initialized", None).await;
        match answered {
            Err(error) if is_needless(&error) => {
                let (server, error) = (&session.config.name, error.explain());
                tracing::info!(%server, error, "the server refused notifications/initialized; continuing");
            }
            answered => answered?,
        }
    }
    // What a server asks in the first call would be lost if nobody listened yet.
    listening.await;
    Ok(facts)
}

/// Asks whether the server speaks the newest era. A server that is only starting is not waited for
/// longer than its silence may mean that it does not know the question.
async fn probe(session: &Arc<Session>) -> Result<Probed, ClientError> {
    let mut response = ask_discover(session, Revision::NEWEST);
    let within: Duration = session.config.probe_timeout;
    match timeout(within, &mut response).await {
        Err(_) => Ok(Probed::Silent(response)),
        Ok(Ok(Ok(result))) => {
            Ok(understood(session, &result).map_or(Probed::Session, Probed::Stateless))
        }
        Ok(Ok(Err(error))) => match supported(&error) {
            Some(revision) if session.config.protocol.permits_revision(revision) => {
                let answer = ask_discover(session, revision).await?;
                let result = answer.map_err(ClientError::Rpc)?;
                understood(session, &result)
                    .map(Probed::Stateless)
                    .ok_or_else(nothing_known)
            }
            _ => Ok(Probed::Session),
        },
        // Servers of the session era refuse what comes before `initialize`.
        Ok(Err(ClientError::Http(failure))) if refuses(&failure) => Ok(Probed::Session),
        Ok(Err(ClientError::InvalidMessage { .. })) => Ok(Probed::Session),
        Ok(Err(error)) => Err(error),
    }
}

/// A status that says nothing but that the request was not understood.
pub(super) fn refuses(failure: &HttpFailure) -> bool {
    matches!(failure.status, 400..=499) && !matches!(failure.status, 401 | 403 | 407 | 429)
}

/// Returns whether a server that refuses `notifications/initialized` so can be called all the same: it has
/// answered the greeting, still knows the session, and asks for no sign-in and no pause.
fn is_needless(error: &ClientError) -> bool {
    match error {
        ClientError::Http(failure) => {
            let is_refusal = refuses(failure) || matches!(failure.status, 500 | 501);
            is_refusal && !error.is_session_gone() && !error.is_session_denied()
        }
        _ => false,
    }
}

/// Greets in the session era while the answer to the earlier question may still come: whichever
/// comes first decides.
async fn initialize_beside(
    session: &Arc<Session>,
    late: Response,
) -> Result<ServerFacts, ClientError> {
    let greeted = initialize(session);
    tokio::pin!(greeted);
    tokio::select! {
        biased;
        Ok(Ok(result)) = late => match understood(session, &result) {
            Some(facts) => Ok(facts),
            None => greeted.await,
        },
        facts = &mut greeted => facts,
    }
}

/// Greets in the session era, and in the stateless one where the server knows no sessions: it refuses
/// the greeting, or does not answer it for so long that it may not know it.
async fn initialize_first(session: &Arc<Session>) -> Result<ServerFacts, ClientError> {
    let greeted = initialize(session);
    tokio::pin!(greeted);
    let refused = match timeout(session.config.probe_timeout, &mut greeted).await {
        Ok(Err(error @ (ClientError::Handshake { .. } | ClientError::InvalidMessage { .. }))) => {
            error
        }
        Ok(Err(ClientError::Http(failure))) if refuses(&failure) => ClientError::Http(failure),
        Ok(greeted) => return greeted,
        Err(_) => {
            return tokio::select! {
                biased;
                facts = &mut greeted => facts,
                Ok(facts) = discover(session) => Ok(facts),
            };
        }
    };
    match discover(session).await {
        // The server speaks sessions alone: its first error names the cause.
        Err(ClientError::Handshake { .. }) => Err(refused),
        discovered => discovered,
    }
}

async fn discover(session: &Arc<Session>) -> Result<ServerFacts, ClientError> {
    let revision = match session.config.protocol {
        ProtocolChoice::Only(revision) => revision,
        _ => Revision::NEWEST,
    };
    let answer = ask_discover(session, revision).await?;
    let result = answer.map_err(|error| ClientError::Handshake {
        what: format!("server/discover: {}", in_a_line(&error.message)),
    })?;
    understood(session, &result).ok_or_else(nothing_known)
}

fn nothing_known() -> ClientError {
    ClientError::Handshake {
        what: "the server supports no revision of MCP that is known here".to_owned(),
    }
}

fn ask_discover(session: &Arc<Session>, revision: Revision) -> Response {
    let mut rope = Rope::new();
    rope.push(b"{\"_meta\":{");
    let config = &session.config;
    params::stateless(
        &mut rope,
        revision,
        &config.client_info,
        session.features(),
        true,
    );
    rope.push(b"}}");
    session.ask("server/discover", params::raw(rope))
}

/// The answer to `server/discover`; `None` when it names no revision that both know.
fn understood(session: &Arc<Session>, result: &RawJson) -> Option<ServerFacts> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Discovered<'a> {
        #[serde(borrow)]
        supported_versions: Vec<&'a RawValue>,
        #[serde(borrow, default)]
        capabilities: Option<&'a RawValue>,
        #[serde(borrow, default)]
        instructions: Option<&'a RawValue>,
    }
    let told: Discovered<'_> = result.parse().ok()?;
    let versions = told.supported_versions.into_iter().filter_map(text_of);
    let versions: Vec<String> = versions.map(Into::into).collect();
    let revision = newest(&versions, session.config.protocol)?;
    let capabilities = object(told.capabilities).unwrap_or_else(RawJson::empty_object);
    let meta = result.member("_meta");
    let info = meta.and_then(|meta| meta.member("io.modelcontextprotocol/serverInfo"));
    Some(ServerFacts {
        revision,
        can: ServerCan::of(&capabilities),
        capabilities,
        info: info.filter(is_object),
        instructions: told.instructions.and_then(text_of).map(Into::into),
    })
}

fn is_object(value: &RawJson) -> bool {
    value.as_bytes().starts_with(b"{")
}

/// A member that is an object.
fn object(value: Option<&RawValue>) -> Option<RawJson> {
    value.map(RawJson::from_raw).filter(is_object)
}

/// The newest stateless revision that both know.
fn newest(supported: &[String], choice: ProtocolChoice) -> Option<Revision> {
    supported
        .iter()
        .filter_map(|text| Revision::parse(text))
        .filter(|revision| revision.era() == Era::Stateless && choice.permits_revision(*revision))
        .max()
}

/// The revision that an error of the newest era offers instead.
fn supported(error: &orchestra_wire::RpcError) -> Option<Revision> {
    #[derive(Deserialize)]
    struct Data {
        supported: Vec<String>,
    }
    if error.code != ErrorCode::UNSUPPORTED_REVISION {
        return None;
    }
    let data: Data = error.data.as_ref()?.parse().ok()?;
    newest(&data.supported, ProtocolChoice::Auto)
}

async fn initialize(session: &Arc<Session>) -> Result<ServerFacts, ClientError> {
    let config = &session.config;
    let offered = match config.protocol {
        ProtocolChoice::Only(revision) => revision,
        _ => Revision::NEWEST_SESSION,
    };
    let mut rope = Rope::new();
    rope.push(b"{\"protocolVersion\":\"");
    rope.push(offered.as_str().as_bytes());
    rope.push(b"\",\"capabilities\":");
    let capabilities = params::capabilities(session.features(), offered, false);
    rope.push_byte(b'{');
    rope.push(translation::EXPERIMENTAL.as_bytes());
    rope.push(if capabilities == "{}" { b"" } else { b"," });
    rope.push(&capabilities.as_bytes()[1..]);
    rope.push(b",\"clientInfo\":");
    params::client_info(&mut rope, &config.client_info);
    rope.push_byte(b'}');
    let until = Instant::now() + config.start_timeout;
    let response = session.ask("initialize", params::raw(rope));
    let answer = timeout_at(until, response)
        .await
        .map_err(|_| ClientError::Timeout {
            after: config.start_timeout,
        })??;
    let result = answer.map_err(|error| ClientError::Handshake {
        what: format!("initialize: {}", in_a_line(&error.message)),
    })?;
    initialized(&result, config.protocol, session.link.masker().as_ref())
}

/// The answer to `initialize`.
fn initialized(
    result: &RawJson,
    choice: ProtocolChoice,
    masker: Option<&Masker>,
) -> Result<ServerFacts, ClientError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Initialized<'a> {
        #[serde(borrow, default)]
        protocol_version: Option<&'a RawValue>,
        #[serde(borrow, default)]
        capabilities: Option<&'a RawValue>,
        #[serde(borrow, default)]
        server_info: Option<&'a RawValue>,
        #[serde(borrow, default)]
        instructions: Option<&'a RawValue>,
    }
    let told: Initialized<'_> = match is_object(result) {
        true => result.parse().map_err(|error| ClientError::Handshake {
            what: format!("the answer to initialize has no known form: {error}"),
        })?,
        false => {
            let what = "the answer to initialize is no object".to_owned();
            return Err(ClientError::Handshake { what });
        }
    };
    if told.protocol_version.is_none() && told.capabilities.is_none() && told.server_info.is_none()
    {
        let what =
            "the answer to initialize has no revision, capabilities or serverInfo".to_owned();
        return Err(ClientError::Handshake { what });
    }
    // One that names no revision is taken for one of the first.
    let version = match told.protocol_version {
        None => Revision::ALL[0].as_str().into(),
        Some(version) => text_of(version).unwrap_or_default(),
    };
    let revision = Revision::parse(&version)
        .filter(|revision| revision.era() == Era::Session && choice.permits_revision(*revision));
    let revision = revision.ok_or_else(|| {
        // Masked before it is cut.
        let version = match masker {
            Some(masker) => masker.text(&version).into_owned(),
            None => version.to_string(),
        };
        ClientError::Handshake {
            what: format!(
                "the server answers with revision {}, which is not spoken here",
                in_a_line(&shown(&version))
            ),
        }
    })?;
    let capabilities = object(told.capabilities).unwrap_or_else(RawJson::empty_object);
    Ok(ServerFacts {
        revision,
        can: ServerCan::of(&capabilities),
        capabilities,
        info: object(told.server_info),
        instructions: told.instructions.and_then(text_of).map(Into::into),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeted(text: &str) -> Result<ServerFacts, ClientError> {
        let result = RawJson::checked(text.to_owned().into()).unwrap();
        initialized(&result, ProtocolChoice::Auto, None)
    }

    #[test]
    fn one_odd_member_does_not_cost_the_greeting() {
        for odd in ["null", "[]", "true", "1", "{}"] {
            let text = format!(
                r#"{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}}}},"serverInfo":{odd},"instructions":{odd}}}"#
            );
            let facts = greeted(&text).unwrap();
            assert!(
                facts.can.tools.is_some() && facts.instructions.is_none(),
                "{odd}"
            );
            let text = format!(r#"{{"protocolVersion":"2025-06-18","capabilities":{odd}}}"#);
            assert_eq!(greeted(&text).unwrap().can, ServerCan::default(), "{odd}");
        }
        for greeting in [r#"{"capabilities":{}}"#, r#"{"serverInfo":{}}"#] {
            assert_eq!(greeted(greeting).unwrap().revision, Revision::ALL[0]);
        }
        for odd in [
            "{}",
            "null",
            "[]",
            r#"{"protocolVersion":"1"}"#,
            r#"{"protocolVersion":7}"#,
        ] {
            assert!(
                matches!(greeted(odd), Err(ClientError::Handshake { .. })),
                "{odd}"
            );
        }
    }
}
