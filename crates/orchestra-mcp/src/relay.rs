//! Messages of MCP that another protocol carries one by one, each with the way back for its answer:
//! answered as an HTTP POST of the stateless era is, by the same code.

use std::sync::Arc;

use bytes::Bytes;
use orchestra_hub::Along;
use orchestra_wire::{Inbound, Message, Method};

use crate::{
    connection::{Asker, Lifetime, Received},
    http::{Identity, budget::Budget},
    post::{Answering, Post},
    server::Server,
    stream::Listening,
};

/// Bounds the replies that wait for those who do not read them, of all relays that share it.
#[derive(Debug, Clone)]
pub struct RelayBudget(Budget);

impl RelayBudget {
    /// At most so many bytes; one reply is always taken, however large.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self(Budget::new(most))
    }

    /// Counts a reply for as long as anybody holds a part of it. `None` when there is no room for
    /// it; a short one needs none.
    #[must_use]
    pub fn hold(&self, reply: Bytes) -> Option<Bytes> {
        self.0.try_hold(reply).ok()
    }

    /// Whether there is room for a reply of so many bytes at this moment.
    #[must_use]
    pub fn has_room(&self, length: usize) -> bool {
        self.0.has_room(length)
    }
}

/// Whoever sends messages, as far as the face has proven it.
#[derive(Debug, Clone)]
pub struct Asking {
    /// Whose tasks and states of calls they are: nobody else finds these.
    pub owner: Identity,
    /// The name that calls are recorded under, whatever the messages say; `None` believes them.
    pub name: Option<Arc<str>>,
}

/// Answers the messages of one peer.
pub struct Relay {
    server: Server,
    face: &'static str,
    post: Post,
    asking: Asking,
    budget: Budget,
}

/// One message that is being answered. Dropping it cancels its call, and ends its subscription.
pub struct Relayed(Inner);

enum Inner {
    Alone(Box<Answering>),
    Listens(Box<Listening>),
}

/// What is said to a message; whole messages of JSON-RPC without a line end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// A notification before the answer.
    Before(Bytes),
    /// The answer.
    Answer(Bytes),
}

impl Relay {
    /// A peer of the face `face`.
    #[must_use]
    pub fn new(server: &Server, face: &'static str, asking: Asking, budget: &RelayBudget) -> Self {
        let budget = budget.0.clone();
        Self {
            server: server.clone(),
            face,
            post: Post::new(server, face).within(budget.clone()),
            asking,
            budget,
        }
    }

    /// Takes one message, which is part of the trace `trace` unless it names one itself. `along` goes
    /// with its calls. It must run inside a tokio runtime.
    #[must_use]
    pub fn ask(&self, message: &Bytes, trace: Option<&str>, along: Along) -> Relayed {
        let received = Received::of(message);
        let owner = self.asking.owner;
        if listens(&received) {
            let (server, face, message) = (&self.server, self.face, message.clone());
            let listening = Listening::begin(server, face, owner, message, &self.budget);
            return Relayed(Inner::Listens(Box::new(listening)));
        }
        let asker = Asker {
            name: self.asking.name.clone(),
            trace: trace.map(str::to_owned),
            along,
        };
        let whose = (owner, asker);
        let answering = Answering::begin_for(&self.post, whose, &received, Lifetime::Posted);
        Relayed(Inner::Alone(Box::new(answering)))
    }
}

impl Relayed {
    /// What is said next; `None` after the answer, or when there is none to be given. May be
    /// cancelled without losing anything.
    pub async fn next(&mut self) -> Option<Said> {
        let (said, is_over) = match &mut self.0 {
            Inner::Alone(answering) => (answering.next().await, answering.is_over()),
            Inner::Listens(listening) => (listening.next().await, listening.is_over()),
        };
        said.map(|said| match is_over {
            true => Said::Answer(said),
            false => Said::Before(said),
        })
    }

    /// Ends a subscription in good order: its answer follows. Calls go on.
    pub async fn end(&mut self) {
        if let Inner::Listens(listening) = &mut self.0 {
            listening.end().await;
        }
    }
}

fn listens(received: &Received<'_>) -> bool {
    match &received.inbound {
        Ok(Inbound::One(Message::Request(request))) => {
            request.method == Method::SubscriptionsListen.name()
        }
        _ => false,
    }
}
