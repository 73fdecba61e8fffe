//! Whoever comes with a certificate of the authority that plugins share: only such plugins are let
//! in by it.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use orchestra_plugin::{
    envelope::{Request, Response},
    generated::ToolResponse,
    quic::{Handler, Peer, Reply},
};
use orchestra_plugin_host::face::Face;

use super::known::Plugins;

/// The hub for plugins that were written for an orchestrator of the past, and for nobody else: each
/// of them can make certificates of any name.
pub(super) struct Admitted {
    pub(super) face: Face,
    pub(super) plugins: Plugins,
}

impl Admitted {
    fn admits(&self, peer: &Peer) -> bool {
        let plugin = peer.name().plugin_client();
        plugin.is_some_and(|plugin| self.plugins.is_legacy(&plugin))
    }
}

impl Handler for Admitted {
    fn handle<'a>(&'a self, peer: &'a Peer, request: Bytes, mut reply: Reply) -> BoxFuture<'a, ()> {
        if self.admits(peer) {
            return self.face.handle(peer, request, reply);
        }
        Box::pin(async move {
            let request = Request::decode(&request).unwrap_or_else(|_| Request::empty(""));
            let refusal = ToolResponse {
                error_code: "unknown_peer".to_owned(),
                error_message: format!(
                    "the certificate names {:?}, which is not a plugin of plugins.yaml here: use a certificate of the directory that `orchestra certs show` names",
                    peer.name().as_str()
                ),
                ..ToolResponse::default()
            };
            let answer = Response::new(request.request_id(), &refusal);
            // Nobody is left to be told when it cannot be written.
            let _ = reply.answer(answer.encode()).await;
        })
    }

    fn opened(&self, peer: &Peer) {
        if self.admits(peer) {
            self.face.opened(peer);
        }
    }

    fn closed(&self, peer: &Peer) {
        self.face.closed(peer);
    }

    fn busy(&self, peer: &Peer, request: &Bytes) -> Option<Bytes> {
        self.face.busy(peer, request)
    }

    fn duplex(&self, peer: &Peer, request: &Bytes) -> bool {
        self.face.duplex(peer, request)
    }
}
