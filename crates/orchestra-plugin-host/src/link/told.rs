//! Who a peer is told that a call is made by, and for which session.

use orchestra_hub::Along;
use orchestra_mcp::client::Outgoing;

use crate::translate::{Peer, Terms, session, session_named};

/// The terms of one call. A call that is of no session, and nobody's but ours, has those of all.
pub(super) fn terms_of(terms: &Terms, along: &Along) -> Terms {
    let mut terms = terms.clone();
    if let Some(session) = &along.session {
        session.as_str().clone_into(&mut terms.session);
    }
    // An orchestrator is told who we are there, which our certificate says as well.
    if let (Some(by), Peer::Plugin(_)) = (&along.by, &terms.peer) {
        (**by).clone_into(&mut terms.caller);
    }
    terms
}

/// A call that names no other session than the one that it is made for: which one that is, the face
/// says and not its client. Peers that are given the JSON are told there as well.
pub(super) fn of_its_session(terms: &Terms, mut request: Outgoing) -> Outgoing {
    let Some(name) = request.along.session.clone() else {
        return request;
    };
    let tells = |params: &_| terms.revision > 0 || session_named(params).is_some();
    request.params = request.params.map(|params| match tells(&params) {
        true => session::named(params, &name),
        false => params,
    });
    request
}
