//! Sign-ins that a configuration describes: by whom, on whose behalf, and where their secrets are.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    process::Command,
    sync::{Arc, Mutex},
};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use serde_json::{Value, json};

use crate::{
    mcp_login::sign_in,
    realm::{Asked, Reply, TOKEN, given, realm},
    support::{Said, Workspace, said},
};

const BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// What must never be seen.
const SECRETS: [&str; 4] = [
    "s3cr3t-s3cr3t",
    "signed-by-platform",
    "signed-in-person",
    TOKEN,
];

/// A workspace with one server, in each form of file.
struct Place {
    workspace: Workspace,
    file: &'static str,
}

const FILES: [&str; 2] = ["mine.json", "mine.toml"];

impl Place {
    fn new(file: &'static str, at: &str, auth: &Value) -> Self {
        let place = Self {
            workspace: Workspace::new(),
            file,
        };
        let server = json!({"there": {"url": format!("{at}/mcp"), "auth": auth}});
        let text = match file {
            "mine.json" => json!({ "mcpServers": server }).to_string(),
            _ => toml::to_string(&json!({"mcp": {"servers": server}})).unwrap(),
        };
        place.workspace.write(file, &text);
        place
    }

    /// A file with a secret in it.
    fn secret(&self, name: &str, text: &str, mode: u32) {
        self.workspace.write(name, text);
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(self.workspace.join(name), mode).unwrap();
    }

    fn command(&self, words: [&str; 2]) -> Command {
        let words = [&["mcp", words[0], "--mcp-config", self.file], &words[1..]].concat();
        let mut command = self.workspace.command(words);
        command.env("SECRET", SECRETS[0]);
        command.env("PERSON", SECRETS[2]);
        command
    }

    fn test(&self) -> Said {
        let tested = said(self.command(["test", "there"]), "");
        for secret in SECRETS {
            assert!(!format!("{tested:?}").contains(secret), "{tested:?}");
        }
        tested
    }

    #[track_caller]
    fn is_let_in(&self) {
        let tested = self.test();
        assert_eq!(tested.code, Some(0), "{tested:?}");
        assert!(tested.out.contains("guarded"), "{tested:?}");
    }
}

/// An authorization server that looks at what it is asked, and how often it gave out a token.
fn desk(look: fn(&Asked) -> Reply) -> (String, Arc<Mutex<usize>>) {
    let given = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&given);
    let at = realm(move |asked| {
        let reply = look(asked);
        *counted.lock().unwrap() += usize::from(asked.path == "/token");
        reply
    });
    (at, given)
}

/// Says that a client has shown its secret.
fn basic(asked: &Asked) {
    let pair = STANDARD.encode(format!("me:{}", SECRETS[0]));
    assert_eq!(asked.authorization, format!("Basic {pair}"));
}

#[test]
fn a_client_signs_in_for_itself_by_its_secret() {
    for file in FILES {
        let (at, tokens) = desk(|asked| {
            basic(asked);
            assert_eq!(asked.form["grant_type"], "client_credentials");
            assert_eq!(asked.form["resource"], format!("{}/mcp", asked.at));
            assert_eq!(asked.form["scope"], "read write");
            given()
        });
        let auth = json!({
            "type": "client_credentials", "client_id": "me", "client_secret": "${SECRET}",
            "scopes": ["read", "write"],
        });
        Place::new(file, &at, &auth).is_let_in();
        assert_eq!(*tokens.lock().unwrap(), 1);
        let auth = json!({
            "type": "client_credentials", "client_id": "me", "client_secret_file": "secret.txt",
            "scopes": "read write",
        });
        let place = Place::new(file, &at, &auth);
        place.secret("secret.txt", &format!("{}\n", SECRETS[0]), 0o600);
        place.is_let_in();
        // What it brought is kept and used by the next.
        place.is_let_in();
        assert_eq!(*tokens.lock().unwrap(), 2);
    }
}

#[test]
fn a_client_signs_in_for_itself_by_its_key() {
    for file in FILES {
        let (at, _) = desk(|asked| {
            let assertion: Vec<&str> = asked.form["client_assertion"].split('.').collect();
            let part = |at: usize| -> Value {
                serde_json::from_slice(&URL_SAFE_NO_PAD.decode(assertion[at]).unwrap()).unwrap()
            };
            let (header, claims) = (part(0), part(1));
            assert_eq!(header["alg"], "ES256");
            assert_eq!(
                (&claims["iss"], &claims["sub"]),
                (&json!("me"), &json!("me"))
            );
            assert_eq!(claims["aud"], asked.at);
            assert_eq!(asked.form["grant_type"], "client_credentials");
            assert!(asked.authorization.is_empty());
            given()
        });
        let auth = json!({
            "type": "client_credentials", "client_id": "me", "private_key_file": "keys/key.pem",
            "algorithm": "ES256",
        });
        let place = Place::new(file, &at, &auth);
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        place.secret("keys/key.pem", &pair.serialize_pem(), 0o600);
        place.is_let_in();
    }
}

#[test]
fn a_workload_shows_what_its_platform_has_signed() {
    for file in FILES {
        let (at, _) = desk(|asked| {
            assert_eq!(asked.form["grant_type"], BEARER);
            assert_eq!(asked.form["assertion"], SECRETS[1]);
            assert_eq!(asked.form["client_id"], "me");
            given()
        });
        let auth = json!({"type": "workload", "client_id": "me", "assertion_file": "token"});
        let place = Place::new(file, &at, &auth);
        place.secret("token", SECRETS[1], 0o600);
        place.is_let_in();
    }
}

#[test]
fn whom_an_enterprise_has_signed_in_is_let_in_elsewhere() {
    for file in FILES {
        let (at, _) = desk(|asked| match asked.path.as_str() {
            "/idp/token" => {
                let exchange = "urn:ietf:params:oauth:grant-type:token-exchange";
                let jag = "urn:ietf:params:oauth:token-type:id-jag";
                assert_eq!(asked.form["grant_type"], exchange);
                assert_eq!(asked.form["requested_token_type"], jag);
                assert_eq!(asked.form["subject_token"], SECRETS[2]);
                assert_eq!(asked.form["audience"], asked.at);
                let token = json!({
                    "access_token": "for-this-one", "issued_token_type": jag, "token_type": "N_A",
                });
                ("200 OK", token)
            }
            _ => {
                basic(asked);
                assert_eq!(asked.form["grant_type"], BEARER);
                assert_eq!(asked.form["assertion"], "for-this-one");
                given()
            }
        });
        let auth = json!({
            "type": "enterprise", "client_id": "me", "client_secret": "${SECRET}",
            "idp_token_endpoint": format!("{at}/idp/token"), "idp_client_id": "us",
            "id_token": "${env:PERSON}",
        });
        Place::new(file, &at, &auth).is_let_in();
    }
}

#[test]
fn a_person_signs_in_by_a_client_that_was_registered_by_hand() {
    for file in FILES {
        let (at, _) = desk(|asked| {
            assert_eq!(asked.path, "/token", "it registers nobody");
            basic(asked);
            assert_eq!(asked.form["grant_type"], "authorization_code");
            given()
        });
        let auth = json!({"type": "oauth", "client_id": "me", "client_secret": "${SECRET}"});
        let place = Place::new(file, &at, &auth);
        let tested = place.test();
        assert_eq!(tested.code, Some(5), "{tested:?}");
        sign_in(place.command(["login", "there"]));
        place.is_let_in();
    }
}

#[test]
fn what_is_wrong_with_a_secret_is_told_with_its_field_and_its_file() {
    let client = |more: Value| {
        let mut auth = json!({"type": "client_credentials", "client_id": "me"});
        let members = more.as_object().unwrap().clone();
        auth.as_object_mut().unwrap().extend(members);
        auth
    };
    let in_file = client(json!({"client_secret_file": "secret.txt"}));
    let in_text = client(json!({"client_secret": "s3cr3t-s3cr3t"}));
    for (auth, mode, words) in [
        (
            &in_file,
            Some(0o644),
            &["client_secret_file", "secret.txt", "chmod o= "][..],
        ),
        (
            &in_file,
            None,
            &["client_secret_file", "secret.txt", "cannot be read"],
        ),
        (
            &in_text,
            None,
            &["client_secret", "${VARIABLE}", "client_secret_file"],
        ),
        (
            &client(json!({"client_secret": "${NOWHERE}"})),
            None,
            &["NOWHERE", "is not set"],
        ),
        (&client(json!({})), None, &["private_key_file"]),
        (
            &json!({"type": "workload", "client_id": "me"}),
            None,
            &["assertion_file"],
        ),
        (
            &json!({"type": "enterprise", "client_id": "me", "id_token": "${PERSON}"}),
            None,
            &["idp_token_endpoint"],
        ),
        (
            &json!({"type": "workload", "assertion": "${PERSON}"}),
            None,
            &["client_id"],
        ),
    ] {
        for file in FILES {
            let place = Place::new(file, "http://127.0.0.1:1", auth);
            if let Some(mode) = mode {
                place.secret("secret.txt", SECRETS[0], mode);
            }
            let tested = place.test();
            assert_eq!(tested.code, Some(3), "{auth}: {tested:?}");
            let validated = said(place.command(["validate", file]), "");
            let all = format!("{tested:?}{validated:?}");
            assert!(!all.contains(SECRETS[0]), "{all}");
            for word in words {
                assert!(all.contains(word), "{word}: {all}");
            }
        }
    }
}
