//! What a program that was started anew says to those who still speak to the one before: that their
//! connections are over (RFC 9000, 10.3). Otherwise only its silence would tell them, much later.

use std::{sync::Arc, time::Duration};

use quinn::{ConnectionId, ConnectionIdGenerator, EndpointConfig};
use ring::{
    hmac,
    rand::{SecureRandom as _, SystemRandom},
};

use crate::certs::Identity;

/// What the key of resets is derived for.
const PURPOSE: &[u8] = b"orchestra stateless reset";

/// The length of the ids of connections.
const ID_BYTES: usize = 8;

/// A configuration whose resets are believed by those who spoke to a program with the same key before.
pub(super) fn config(identity: &Identity) -> EndpointConfig {
    let secret = hmac::Key::new(hmac::HMAC_SHA256, identity.key().secret_pkcs8_der());
    let derived = hmac::sign(&secret, PURPOSE);
    let key = hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref());
    let mut config = EndpointConfig::new(Arc::new(key));
    config.cid_generator(|| Box::new(AnyId::default()));
    config
}

/// Ids by chance, which no program can tell from those that another one has given.
#[derive(Debug, Default)]
struct AnyId {
    given: u64,
}

impl ConnectionIdGenerator for AnyId {
    fn generate_cid(&mut self) -> ConnectionId {
        self.given += 1;
        let mut id = [0; ID_BYTES];
        if SystemRandom::new().fill(&mut id).is_err() {
            id = self.given.to_be_bytes();
        }
        ConnectionId::new(&id)
    }

    fn cid_len(&self) -> usize {
        ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}
