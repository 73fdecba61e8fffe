//! Who we say we are to a server, as other programs read it.

use serde_json::{Map, Value, json};

use super::{Slot, Values, optional, secret, words};
use crate::config::{Auth, ClientProof, Grant, OAuth, Secret};

pub(super) fn write(auth: &Auth, values: Values<'_>) -> Value {
    match auth {
        Auth::Bearer(token) => json!({"type": "bearer", "token": secret("TOKEN", token, values)}),
        Auth::Env(variable) => json!({"type": "env", "variable": variable}),
        Auth::Command { command, args } => {
            let words = words(std::iter::once(command).chain(args), values);
            json!({"type": "command", "command": words})
        }
        Auth::OAuth(oauth) => write_oauth(oauth, values),
    }
}

fn write_oauth(oauth: &OAuth, values: Values<'_>) -> Value {
    let mut map = Map::new();
    map.insert("type".into(), json!(oauth.kind()));
    if let Some(client) = &oauth.client {
        optional(&mut map, "client_id", Some(&client.id));
        match &client.proof {
            ClientProof::None => {}
            ClientProof::Secret(secret) => named(&mut map, secret, values),
            ClientProof::Key { key, algorithm } => {
                named(&mut map, key, values);
                map.insert("algorithm".into(), json!(algorithm));
            }
        }
    }
    match &oauth.grant {
        Grant::Person | Grant::Client => {}
        Grant::Workload { assertion } => named(&mut map, assertion, values),
        Grant::Enterprise(enterprise) => {
            let endpoint = Some(&enterprise.token_endpoint);
            optional(&mut map, "idp_token_endpoint", endpoint);
            optional(&mut map, "idp_client_id", Some(&enterprise.client_id));
            if let Some(secret) = &enterprise.client_secret {
                named(&mut map, secret, values);
            }
            named(&mut map, &enterprise.id_token, values);
        }
    }
    if !oauth.scopes.is_empty() {
        map.insert("scopes".into(), json!(oauth.scopes));
    }
    if let Some(port) = oauth.redirect_port {
        map.insert("redirect_port".into(), json!(port));
    }
    Value::Object(map)
}

/// What names a secret is none.
fn named(map: &mut Map<String, Value>, secret: &Secret, values: Values<'_>) {
    let name = match values {
        Values::Kept => json!(secret.written().written()),
        Values::Named(variables) => json!(variables.instead_of(&Slot::named(secret.written()))),
    };
    map.insert(secret.field.to_owned(), name);
}
