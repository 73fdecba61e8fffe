//! Calls of session-era servers that wait for answers to a question of the server: the caller was
//! told that input is required, and comes back with the answers.

use std::{
    borrow::Cow,
    collections::HashMap,
    iter,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use orchestra_hub::{Answers, Cx, InputRequired};
use orchestra_wire::{ErrorCode, RawJson, RpcError};

use super::{
    open::Asked,
    session::{Session, Waiting, spawn},
};
use crate::hex::hex;
use crate::translation::{object, refused_with};

/// Calls that may wait at once.
const MOST: usize = 1_024;

/// The calls that wait.
#[derive(Default)]
pub(super) struct Parking(Mutex<HashMap<String, Parked>>);

/// A call that waits.
pub(super) struct Parked {
    pub(super) session: Arc<Session>,
    pub(super) waiting: Waiting,
    pub(super) asked: Vec<Asked>,
}

/// The state that a caller brings back.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum State<'a> {
    /// The server's own, as it gave it.
    Server(&'a str),
    /// The name of a call that waits here.
    Parked(&'a str),
    /// The name of a task of the server.
    Task(&'a str),
    /// The caller was asked for its roots.
    Roots,
}

impl<'a> State<'a> {
    /// Understands a state that was given out by [`Display`](std::fmt::Display).
    pub(super) fn parse(text: &'a str) -> Self {
        match text.split_at_checked(1) {
            Some(("p", name)) => Self::Parked(name),
            Some(("t", id)) => Self::Task(id),
            Some(("s", state)) => Self::Server(state),
            Some(("r", "")) => Self::Roots,
            _ => Self::Server(text),
        }
    }
}

impl std::fmt::Display for State<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Server(state) => write!(f, "s{state}"),
            Self::Parked(name) => write!(f, "p{name}"),
            Self::Task(id) => write!(f, "t{id}"),
            Self::Roots => f.write_str("r"),
        }
    }
}

impl Parking {
    /// Puts a call aside; what its caller is told.
    pub(super) fn park(self: &Arc<Self>, parked: Parked, cx: &Cx, most: Duration) -> InputRequired {
        let mut name = [0; 16];
        let random = getrandom::fill(&mut name).is_ok();
        let name = hex(&name);
        let requests = questions(&parked.asked);
        let mut waiting = self.waiting();
        if !random || waiting.len() >= MOST {
            drop(waiting);
            parked.give_up();
        } else {
            waiting.insert(name.clone(), parked);
            drop(waiting);
            let (parking, name, mut cancel) =
                (Arc::downgrade(self), name.clone(), cx.cancel.clone());
            spawn(async move {
                tokio::select! {
                    () = cancel.cancelled() => {}
                    () = tokio::time::sleep(most) => {}
                }
                let gone = parking.upgrade().and_then(|parking| parking.take(&name));
                gone.into_iter().for_each(Parked::give_up);
            });
        }
        InputRequired {
            requests,
            state: Some(State::Parked(&name).to_string()),
            takes_errors: true,
        }
    }

    /// Takes a call up again.
    pub(super) fn take(&self, name: &str) -> Option<Parked> {
        self.waiting().remove(name)
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<String, Parked>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Parked {
    /// Hands the answers of the caller to the server.
    pub(super) fn answer(&mut self, answers: &Answers, cx: &Cx) {
        let keys = keys(&self.asked);
        for (key, asked) in keys.iter().zip(self.asked.drain(..)) {
            let given = answers.responses.member(key);
            if asked.gives_roots {
                let answer = given.as_ref().map(|given| (cx, given));
                self.session.roots_answered(answer);
            }
            let answer = match given {
                Some(given) => refused_with(&given).map_or(Ok(given), Err),
                None => Err(refusal("the client did not answer")),
            };
            spawn(self.session.link.respond(asked.id, answer));
        }
    }

    /// Nobody answers any more.
    fn give_up(self) {
        refuse(&self.session, self.asked);
    }
}

/// Answers questions of a server that its client does not answer.
pub(super) fn refuse(session: &Session, asked: Vec<Asked>) {
    for asked in asked {
        if asked.gives_roots {
            session.roots_answered(None);
        }
        let answer = Err(refusal("the client does not answer"));
        spawn(session.link.respond(asked.id, answer));
    }
}

fn refusal(text: &'static str) -> RpcError {
    RpcError::new(ErrorCode::INTERNAL_ERROR, text)
}

/// The keys of the answers: those that the server has told, else numbered ones.
fn keys(asked: &[Asked]) -> Vec<String> {
    let mut keys: Vec<String> = Vec::with_capacity(asked.len());
    for (place, asked) in asked.iter().enumerate() {
        let told = asked.input.as_ref().map(|input| input.key.clone());
        let numbered = (place + 1..).map(|number| format!("q{number}"));
        let key = told
            .into_iter()
            .chain(numbered)
            .find(|key| !keys.contains(key));
        keys.extend(key);
    }
    keys
}

/// `inputRequests`.
fn questions(asked: &[Asked]) -> RawJson {
    let requests = keys(asked).into_iter().zip(asked).map(|(key, asked)| {
        let method = RawJson::of(&asked.method).expect("a text has a JSON form");
        let params = asked.params.clone();
        let params = params.map(|params| (Cow::Borrowed("params"), params));
        let members = iter::once((Cow::Borrowed("method"), method)).chain(params);
        (Cow::Owned(key), object(members))
    });
    object(requests)
}

#[cfg(test)]
mod tests {
    use orchestra_wire::RequestId;

    use super::*;
    use crate::translation::Input;

    #[test]
    fn keys_are_those_that_were_told_and_come_once() {
        let told = [None, Some("q2"), Some("name"), None, Some("name")];
        let asked = told.map(|key| Asked {
            id: RequestId::from_number(1),
            method: "roots/list".to_owned(),
            params: None,
            input: key.map(|key| Input {
                key: key.to_owned(),
                count: 1,
                call: 1,
            }),
            gives_roots: false,
        });
        assert_eq!(keys(&asked), ["q1", "q2", "name", "q4", "q5"]);
    }

    #[test]
    fn states_come_back_as_what_they_were() {
        for state in [
            State::Server(""),
            State::Server("pa"),
            State::Parked("ab"),
            State::Task("t"),
            State::Server("r"),
            State::Roots,
        ] {
            assert_eq!(State::parse(&state.to_string()), state);
        }
    }
}
