//! Roots of callers: a session of a server knows those of one list, and only callers with equal lists
//! share it.

use std::{
    collections::HashMap,
    hash::{Hash, Hasher},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use orchestra_hub::{Cx, InputRequired, ListKind};
use orchestra_wire::{Era, RawJson, text_of};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Root, ServerCall, events::Events, parking::State};

/// Key of the question for roots, and of its answer.
const KEY: &str = "roots";

/// Length of the longest list of roots, in bytes of JSON. A longer one counts as empty.
const MOST_BYTES: usize = 64 * 1024;

/// Number of clients whose roots are remembered. Beyond it all are asked again.
const MOST_CLIENTS: usize = 1_024;

/// A list of roots, as `roots/list` is answered with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Roots(RawJson);

/// Roots that a connection offers in its greeting.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum RootsOffer {
    /// No roots.
    Nothing,
    /// Roots for which the server has not asked.
    Unasked,
    /// The roots of one list.
    Of(Roots),
}

/// The client must be asked for its roots before its call is made.
#[derive(Debug)]
pub(super) struct RootsNeeded;

/// Roots of the clients of one server, as soon as the server has asked for roots.
pub(super) struct ClientRoots {
    events: Events,
    is_asked: AtomicBool,
    /// Roots of each client of a session, with their version.
    known: Mutex<HashMap<u64, (u64, Roots)>>,
}

/// Roots that a session was given.
pub(super) struct SessionRoots(Mutex<Ownership>);

enum Ownership {
    /// None yet.
    Free,
    /// A client is being asked for its roots.
    Asking,
    /// The server asked while no client could be asked, and is refused from now on.
    Refused,
    Of {
        roots: Roots,
        users: Users,
    },
}

/// Clients that have used a session with roots.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Users {
    None,
    One(u64),
    Several,
}

/// Relation of a session to a list of roots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// The session has other roots.
    Not,
    /// The session has these roots.
    Same,
    /// The session has these roots from now on: they are the new ones of its only client.
    Changed,
}

impl Roots {
    pub(super) fn of(roots: &[Root]) -> Self {
        Self(Root::answer(roots))
    }

    /// Reads the answer of a client. Entries without a URI are dropped.
    pub(super) fn of_answer(answer: &RawJson) -> Self {
        #[derive(Deserialize)]
        struct Listed<'a> {
            #[serde(borrow)]
            roots: Vec<&'a RawValue>,
        }
        #[derive(Deserialize)]
        struct Item<'a> {
            #[serde(borrow)]
            uri: &'a RawValue,
            #[serde(borrow, default)]
            name: Option<&'a RawValue>,
        }
        let root = |item: &RawValue| {
            let item: Item<'_> = serde_json::from_str(item.get()).ok()?;
            Some(Root {
                uri: text_of(item.uri)?.into_owned(),
                name: item.name.and_then(text_of).map(Into::into),
            })
        };
        let is_short = answer.as_bytes().len() <= MOST_BYTES;
        let listed: Option<Listed<'_>> = answer.parse().ok().filter(|_| is_short);
        let items = listed.map(|listed| listed.roots).unwrap_or_default();
        Self::of(&items.into_iter().filter_map(root).collect::<Vec<_>>())
    }

    /// The answer to `roots/list`.
    pub(super) fn answer(&self) -> RawJson {
        self.0.clone()
    }
}

impl Hash for Roots {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_bytes().hash(state);
    }
}

/// The question for the roots of a client, which then makes its call again.
pub(super) fn question() -> InputRequired {
    InputRequired {
        requests: RawJson::from_static(r#"{"roots":{"method":"roots/list"}}"#),
        state: Some(State::Roots.to_string()),
        takes_errors: false,
    }
}

/// Returns whether a call may have an input-required result (MCP 2026-07-28, multi round-trip
/// requests).
pub(super) fn may_be_asked(call: &ServerCall) -> bool {
    matches!(
        &*call.method,
        "tools/call" | "prompts/get" | "resources/read"
    )
}

/// The number of the connection, where it belongs to one client alone: that of a session.
pub(super) fn own_connection(cx: &Cx) -> Option<u64> {
    (cx.era == Some(Era::Session) && cx.connection != 0).then_some(cx.connection)
}

impl ClientRoots {
    pub(super) fn new(events: Events) -> Self {
        Self {
            events,
            is_asked: AtomicBool::new(false),
            known: Mutex::default(),
        }
    }

    /// Records that the server asks for roots.
    pub(super) fn note_asked(&self) {
        self.is_asked.store(true, Ordering::Release);
    }

    /// Returns whether the server asks for roots.
    pub(super) fn are_asked(&self) -> bool {
        self.is_asked.load(Ordering::Acquire)
    }

    /// The roots of a caller: the roots in the answers of its call, else its last answer to `roots/list`.
    pub(super) fn of(&self, cx: &Cx) -> Option<Roots> {
        let answers = cx.answers.as_ref().filter(|answers| {
            let state = answers.state.as_deref();
            state.is_some_and(|state| State::parse(state) == State::Roots)
        });
        if let Some(answers) = answers {
            let given = answers.responses.member(KEY);
            let roots = given.map_or_else(|| Roots::of(&[]), |given| Roots::of_answer(&given));
            self.learn(cx, &roots);
            return Some(roots);
        }
        let (version, roots) = self.known().get(&own_connection(cx)?)?.clone();
        (version >= cx.roots_version).then_some(roots)
    }

    /// Remembers the roots of the client of a call, where it is of a session.
    pub(super) fn learn(&self, cx: &Cx, roots: &Roots) {
        if let Some(connection) = own_connection(cx) {
            self.set(connection, cx.roots_version, roots);
        }
    }

    /// Remembers the roots of a client after a number of changes.
    pub(super) fn set(&self, client: u64, version: u64, roots: &Roots) {
        let mut known = self.known();
        if known.len() >= MOST_CLIENTS && !known.contains_key(&client) {
            known.clear();
        }
        let before = known.insert(client, (version, roots.clone()));
        drop(known);
        if before.is_none_or(|(_, before)| before != *roots) {
            // The client sees different lists.
            ListKind::ALL
                .into_iter()
                .for_each(|kind| self.events.list_changed(kind));
        }
    }

    /// Returns whether the roots of a client are known.
    pub(super) fn knows(&self, client: u64) -> bool {
        self.known().contains_key(&client)
    }

    /// The clients with these roots, in order.
    pub(super) fn clients(&self, roots: &Roots) -> Vec<u64> {
        let known = self.known();
        let with = known.iter().filter(|(_, (_, of))| of == roots);
        let mut clients: Vec<u64> = with.map(|(client, _)| *client).collect();
        clients.sort_unstable();
        clients
    }

    fn known(&self) -> MutexGuard<'_, HashMap<u64, (u64, Roots)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionRoots {
    pub(super) fn new(roots: Option<Roots>) -> Self {
        Self(Mutex::new(match roots {
            Some(roots) => Ownership::Of {
                roots,
                users: Users::None,
            },
            None => Ownership::Free,
        }))
    }

    fn ownership(&self) -> MutexGuard<'_, Ownership> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The roots that the session has.
    pub(super) fn roots(&self) -> Option<Roots> {
        match &*self.ownership() {
            Ownership::Of { roots, .. } => Some(roots.clone()),
            Ownership::Free | Ownership::Asking | Ownership::Refused => None,
        }
    }

    /// Returns whether the session has roots of a client, or is about to get them.
    pub(super) fn is_taken(&self) -> bool {
        matches!(&*self.ownership(), Ownership::Of { .. } | Ownership::Asking)
    }

    /// Returns whether the session neither has roots nor has asked for them.
    pub(super) fn is_free(&self) -> bool {
        matches!(&*self.ownership(), Ownership::Free)
    }

    /// Returns how the session fits the roots of a caller. A free one takes them.
    pub(super) fn fit(&self, wanted: &Roots, cx: &Cx) -> Fit {
        let user = own_connection(cx).map_or(Users::Several, Users::One);
        let mut ownership = self.ownership();
        match &mut *ownership {
            Ownership::Free => {
                *ownership = Ownership::Of {
                    roots: wanted.clone(),
                    users: user,
                };
                Fit::Same
            }
            Ownership::Asking | Ownership::Refused => Fit::Not,
            Ownership::Of { roots, users } if roots == wanted => {
                if *users == Users::None {
                    *users = user;
                } else if *users != user {
                    *users = Users::Several;
                }
                Fit::Same
            }
            Ownership::Of { roots, users } if *users == user && user != Users::Several => {
                roots.clone_from(wanted);
                Fit::Changed
            }
            Ownership::Of { .. } => Fit::Not,
        }
    }

    /// Returns whether a client alone uses the session.
    pub(super) fn is_of(&self, client: u64) -> bool {
        let is_theirs = |users: &Users| *users == Users::One(client);
        matches!(&*self.ownership(), Ownership::Of { users, .. } if is_theirs(users))
    }

    /// Returns whether the session has roots and no client uses it yet.
    pub(super) fn is_unused(&self) -> bool {
        let is_none = |users: &Users| *users == Users::None;
        matches!(&*self.ownership(), Ownership::Of { users, .. } if is_none(users))
    }

    /// Changes the roots of a session that a client alone uses. Returns whether they differ.
    pub(super) fn change(&self, client: u64, wanted: &Roots) -> bool {
        self.replace(Users::One(client), wanted)
    }

    /// Changes the roots of a session that no client uses yet. Returns whether they differ.
    pub(super) fn renew(&self, wanted: &Roots) -> bool {
        self.replace(Users::None, wanted)
    }

    fn replace(&self, of: Users, wanted: &Roots) -> bool {
        match &mut *self.ownership() {
            Ownership::Of { roots, users } if *users == of && roots != wanted => {
                roots.clone_from(wanted);
                true
            }
            _ => false,
        }
    }

    /// Begins to ask a client. Returns false where the session may belong to another client.
    pub(super) fn ask(&self) -> bool {
        let mut ownership = self.ownership();
        let is_free = matches!(&*ownership, Ownership::Free);
        if is_free {
            *ownership = Ownership::Asking;
        }
        is_free
    }

    /// Ends [`ask`](Self::ask) with the answer of the client, if it has given one.
    pub(super) fn answered(&self, answer: Option<(&Cx, &Roots)>) {
        let mut ownership = self.ownership();
        if !matches!(&*ownership, Ownership::Asking) {
            return;
        }
        *ownership = match answer {
            Some((cx, roots)) => Ownership::Of {
                roots: roots.clone(),
                users: own_connection(cx).map_or(Users::Several, Users::One),
            },
            None => Ownership::Refused,
        };
    }

    /// Gives the session roots that belong to no client. Returns false where it has different roots.
    pub(super) fn give(&self, roots: &Roots) -> bool {
        self.fit(roots, &Cx::default()) == Fit::Same
    }

    /// Records that the server was refused.
    pub(super) fn refuse(&self) {
        let mut ownership = self.ownership();
        if matches!(&*ownership, Ownership::Free) {
            *ownership = Ownership::Refused;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> RawJson {
        RawJson::checked(text.to_owned().into()).unwrap()
    }

    #[test]
    fn one_odd_root_does_not_cost_the_others() {
        let told = r#"{"_meta":{"x":1},"roots":[7,{"uri":"file:///a","name":3},{"name":"b"},
            {"uri":"file:///c","name":"c"}]}"#;
        let expected = r#"{"roots":[{"uri":"file:///a"},{"name":"c","uri":"file:///c"}]}"#;
        let found: serde_json::Value = Roots::of_answer(&raw(told)).answer().parse().unwrap();
        assert_eq!(found, raw(expected).parse::<serde_json::Value>().unwrap());
        for odd in ["null", "[]", r#"{"roots":null}"#, r#"{"roots":{}}"#] {
            assert_eq!(Roots::of_answer(&raw(odd)), Roots::of(&[]), "{odd}");
        }
    }

    #[test]
    fn session_belongs_to_the_roots_of_its_first_caller() {
        let cx = |connection| Cx {
            connection,
            era: Some(Era::Session),
            ..Cx::default()
        };
        let roots = ["a", "b"].map(|name| {
            Roots::of(&[Root {
                uri: format!("file:///{name}"),
                name: None,
            }])
        });
        let given = SessionRoots::new(None);
        assert_eq!(given.fit(&roots[0], &cx(1)), Fit::Same);
        assert_eq!(given.fit(&roots[1], &cx(2)), Fit::Not);
        assert_eq!(given.fit(&roots[1], &cx(1)), Fit::Changed);
        assert_eq!(given.fit(&roots[1], &cx(2)), Fit::Same);
        assert_eq!(given.fit(&roots[0], &cx(1)), Fit::Not, "another uses it");
        assert_eq!(given.roots().as_ref(), Some(&roots[1]));
        let given = SessionRoots::new(None);
        assert!(given.ask() && !given.ask());
        assert_eq!(given.fit(&roots[0], &cx(2)), Fit::Not);
        given.answered(None);
        assert_eq!(given.fit(&roots[0], &cx(1)), Fit::Not);
    }
}
