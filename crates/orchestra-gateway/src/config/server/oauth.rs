//! How tokens of an authorization server are asked for, out of the object `auth`.

use super::super::{
    Auth, ClientProof, Enterprise, Grant, OAuth, OAuthClient, Secret, SecretSource, Template,
    fields::Fields,
};

/// On whose behalf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Person,
    Client,
    Workload,
    Enterprise,
}

/// A key for a secret and the one for a file that holds it.
type Keys = [&'static str; 2];

const CLIENT_SECRET: Keys = ["client_secret", "client_secret_file"];
const PRIVATE_KEY: Keys = ["private_key", "private_key_file"];
const ASSERTION: Keys = ["assertion", "assertion_file"];
const IDP_SECRET: Keys = ["idp_client_secret", "idp_client_secret_file"];
const ID_TOKEN: Keys = ["id_token", "id_token_file"];

const ALGORITHMS: [(&str, &str); 4] = [
    ("ES256", "ES256"),
    ("ES384", "ES384"),
    ("RS256", "RS256"),
    ("EdDSA", "EdDSA"),
];

impl Kind {
    /// Reads it; what is wrong was told where there is nothing.
    pub(super) fn read(self, inner: &mut Fields<'_>) -> Option<Auth> {
        let id = inner.template(&["client_id"]);
        let proof = proof(inner);
        let grant = match self {
            Self::Person => Some(Grant::Person),
            Self::Client => Some(Grant::Client),
            Self::Workload => {
                let assertion = needed(inner, ASSERTION);
                assertion.map(|assertion| Grant::Workload { assertion })
            }
            Self::Enterprise => enterprise(inner),
        };
        let scopes = inner.texts(&["scopes", "scope"]).unwrap_or_default();
        let split = scopes.iter().flat_map(|scope| scope.split_whitespace());
        let redirect_port = match self {
            Self::Person => inner.number(&["redirect_port", "callback_port"], 1..=65_535),
            _ => None,
        };
        let is_proven = proof != ClientProof::None;
        if id.is_none() && (is_proven || self != Self::Person) {
            inner.missing("needs `client_id`, the id of the client at the authorization server");
            return None;
        }
        if self == Self::Client && !is_proven {
            inner.missing(
                "needs a credential of the client: `client_secret`, `client_secret_file`, `private_key` or `private_key_file`",
            );
            return None;
        }
        Some(Auth::OAuth(OAuth {
            client: id.map(|id| OAuthClient { id, proof }),
            grant: grant?,
            scopes: split.map(str::to_owned).collect(),
            redirect_port: redirect_port.map(|port| u16::try_from(port).expect("the range fits")),
        }))
    }
}

fn proof(inner: &mut Fields<'_>) -> ClientProof {
    let secret = secret(inner, CLIENT_SECRET);
    let key = self::secret(inner, PRIVATE_KEY);
    let algorithm = inner.choice(&["algorithm"], &ALGORITHMS);
    match (secret, key) {
        (Some(_), Some(_)) => {
            inner.missing("the client has a secret and a private key; remove one of them");
            ClientProof::None
        }
        (Some(secret), None) => ClientProof::Secret(secret),
        (None, Some(key)) => ClientProof::Key {
            key,
            algorithm: algorithm.unwrap_or("ES256"),
        },
        (None, None) => ClientProof::None,
    }
}

fn enterprise(inner: &mut Fields<'_>) -> Option<Grant> {
    let token_endpoint = inner.template(&["idp_token_endpoint"]);
    let client_id = inner.template(&["idp_client_id"]);
    let client_secret = secret(inner, IDP_SECRET);
    let id_token = needed(inner, ID_TOKEN)?;
    let (Some(token_endpoint), Some(client_id)) = (token_endpoint, client_id) else {
        inner.missing(
            "needs `idp_token_endpoint` and `idp_client_id`: the token endpoint of the enterprise's identity provider, and Orchestra's client id there",
        );
        return None;
    };
    Some(Grant::Enterprise(Box::new(Enterprise {
        token_endpoint,
        client_id,
        client_secret,
        id_token,
    })))
}

fn needed(inner: &mut Fields<'_>, keys: Keys) -> Option<Secret> {
    let found = secret(inner, keys);
    if found.is_none() {
        let [text, file] = keys;
        inner.missing(&format!(
            "needs `{text}`, as \"${{VARIABLE}}\", or `{file}`, the path of a file"
        ));
    }
    found
}

/// A secret that is named, and does not stand there.
fn secret(inner: &mut Fields<'_>, [text, file]: Keys) -> Option<Secret> {
    let named = inner.take(&[text]);
    let path = inner.take(&[file]);
    let (member, field, is_file) = match (named, path) {
        (None, None) => return None,
        (Some(_), Some(member)) => {
            inner.wrong(
                member,
                format!("`{text}` is set as well; remove one of them"),
            );
            return None;
        }
        (Some(member), None) => (member, text, false),
        (None, Some(member)) => (member, file, true),
    };
    let Some(written) = member.node.text() else {
        let kind = member.node.value.kind();
        inner.wrong(member, format!("must be a text, not {kind}"));
        return None;
    };
    if !is_file && !refers(written) {
        // What stands there may be the secret itself: it is not told.
        inner.wrong(
            member,
            format!(
                "secrets are not allowed in this file: write \"${{VARIABLE}}\", or set the path of a file in `{file}`"
            ),
        );
        return None;
    }
    let written = Template::new(written);
    let source = match is_file {
        true => SecretSource::File(written),
        false => SecretSource::Text(written),
    };
    Some(Secret { field, source })
}

/// Whether a text is one reference and nothing else, also no default.
fn refers(text: &str) -> bool {
    let name = text
        .strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| !name.contains(['{', '}', '$']) && !name.contains(":-"))
}
