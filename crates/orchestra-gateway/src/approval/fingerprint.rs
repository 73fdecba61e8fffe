//! What of a server is approved.

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    canonical,
    config::{Input, ServerConfig, Transport, Values},
    expand::{self, Reference},
    names::hex,
};

/// The hash of everything that a file says of a server: when it changes, an approval is void.
///
/// Texts go in as they were written, `${…}` included. What is not of the file stays out: where in it
/// the server stands, whether it is switched on, and what the files hold that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// The fingerprint of a server.
    #[must_use]
    pub fn of(config: &ServerConfig) -> Self {
        let mut server = config.to_json(Values::Kept);
        if let Value::Object(members) = &mut server {
            members.remove("disabled");
            if let Transport::Plugin(plugin) = &config.transport {
                // Its program is another one elsewhere, and another plugin may be called alike.
                members.insert("plugin".into(), json!(plugin.id.as_str()));
                let beside = plugin.directory.to_string_lossy();
                members.insert("beside".into(), json!(beside));
            }
        }
        let whole = json!({
            "server": server,
            "headers": headers(&config.transport),
            "directory": config.directory().to_string_lossy(),
            "inputs": inputs(config),
        });
        Self(hex(&Sha256::digest(canonical::text(&whole).as_bytes())))
    }

    /// The hash, as hexadecimal digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Headers in their order; one may be there twice, which an object would not tell.
fn headers(transport: &Transport) -> Value {
    let Transport::Http(http) = transport else {
        return Value::Null;
    };
    let headers = http.headers.iter();
    headers
        .map(|(name, value)| json!([name, value.written()]))
        .collect()
}

/// What stands beside the servers of the file for the inputs that this one refers to.
fn inputs(config: &ServerConfig) -> Value {
    let ids = expand::references(config).into_iter();
    let inputs: Map<String, Value> = ids
        .filter_map(|reference| match reference {
            Reference::Input(id) => {
                let Input {
                    default, is_secret, ..
                } = config.inputs.get(&id)?;
                Some((id, json!([default, is_secret])))
            }
            Reference::Variable(_) | Reference::Directory(_) => None,
        })
        .collect();
    Value::Object(inputs)
}
