//! Who lets people into a server, and how that is asked for: the metadata of the protected
//! resource (RFC 9728) and of its authorization server (RFC 8414, `OpenID` Connect Discovery).

use reqwest::Url;
use serde::Deserialize;

use super::{
    ask::{Asks, Told, excerpt, refused, shown},
    challenge::Challenge,
};
use crate::{
    attribution::in_a_line,
    client::{ClientError, http::config::same_origin},
};

/// An authorization server, as far as it matters here.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// Its name; what it answers is compared with this to the letter.
    pub(super) issuer: String,
    /// What tokens are asked for.
    pub(super) resource: String,
    /// Rights that the resource knows.
    pub(super) resource_scopes: Vec<String>,
    pub(super) authorization: Url,
    pub(super) token: Url,
    pub(super) registration: Option<Url>,
    /// Rights that it knows.
    pub(super) scopes: Vec<String>,
    /// How clients may show who they are; `None` where it does not say.
    pub(super) methods: Option<Vec<String>>,
    /// It says who it is when it sends people back (RFC 9207).
    pub(super) names_itself: bool,
    /// It protects sign-ins by PKCE with S256 (RFC 7636).
    pub(super) protects: bool,
    /// Clients may be named by the URL of their description.
    pub(super) takes_documents: bool,
    /// Tokens may be bound to a key (RFC 9449).
    pub(super) binds_tokens: bool,
}

/// What a protected resource says of itself.
#[derive(Deserialize)]
struct Resource {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

/// What an authorization server says of itself.
#[derive(Deserialize)]
struct Server {
    issuer: String,
    #[serde(default)]
    authorization_endpoint: Option<String>,
    token_endpoint: String,
    #[serde(default)]
    registration_endpoint: Option<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    code_challenge_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
    #[serde(default)]
    client_id_metadata_document_supported: bool,
    #[serde(default)]
    dpop_signing_alg_values_supported: Vec<String>,
    revocation_endpoint: Option<String>,
    revocation_endpoint_auth_methods_supported: Option<Vec<String>>,
}

/// Where an authorization server takes tokens back (RFC 7009; RFC 8414, section 2).
pub(super) struct Revocation {
    pub(super) url: Url,
    /// How clients may show who they are there; `None` where it does not say.
    pub(super) methods: Option<Vec<String>>,
}

/// Where an issuer takes tokens back; `None` where it does not.
///
/// # Errors
/// When it cannot be asked, or what it answers contradicts itself.
pub(super) async fn revocation(
    asks: &Asks,
    issuer: &str,
) -> Result<Option<Revocation>, ClientError> {
    let Some(place) = asks.place(issuer) else {
        return Ok(None);
    };
    let Some(server) = described(asks, issuer, &place).await? else {
        return Ok(None);
    };
    let Some(named) = server.revocation_endpoint else {
        return Ok(None);
    };
    match asks.place(&named) {
        Some(url) => Ok(Some(Revocation {
            url,
            methods: server.revocation_endpoint_auth_methods_supported,
        })),
        None => Err(refused(
            &place,
            "it takes tokens back at a place that cannot be trusted",
        )),
    }
}

/// Finds who lets people into `server`, beginning with what its refusal says.
///
/// # Errors
/// When nobody is found, or what is found contradicts itself.
pub(super) async fn find(
    asks: &Asks,
    server: &Url,
    challenge: &Challenge,
) -> Result<Found, ClientError> {
    match resource(asks, server, challenge).await? {
        Some(resource) => {
            let Some(issuer) = resource.authorization_servers.first() else {
                return Err(refused(server, "it names no authorization server"));
            };
            let Some(place) = asks.place(issuer) else {
                let issuer = in_a_line(&orchestra_wire::shown(issuer));
                let what =
                    format!("it names an authorization server that cannot be trusted: {issuer}");
                return Err(refused(server, &what));
            };
            let described = described(asks, issuer, &place).await?;
            let Some(described) = described else {
                return Err(refused(
                    &place,
                    "it does not describe itself as an authorization server",
                ));
            };
            found(
                asks,
                described,
                resource.resource,
                resource.scopes_supported,
            )
        }
        // Servers of 2025-03-26 are their own authorization server.
        None => {
            let issuer = server.origin().ascii_serialization();
            let place: Url = issuer
                .parse()
                .map_err(|_| refused(server, "it has no origin"))?;
            let resource = resource_of(server);
            match described(asks, &issuer, &place).await? {
                Some(described) => found(asks, described, resource, Vec::new()),
                None => Ok(by_default(issuer, &place, resource)),
            }
        }
    }
}

/// Whether a server says anywhere who lets people into it.
///
/// # Errors
/// When it cannot be asked, or what is found contradicts itself.
pub(super) async fn is_told(asks: &Asks, server: &Url) -> Result<bool, ClientError> {
    if resource(asks, server, &Challenge::default())
        .await?
        .is_some()
    {
        return Ok(true);
    }
    let issuer = server.origin().ascii_serialization();
    let place = issuer.parse();
    let place: Url = place.map_err(|_| refused(server, "it has no origin"))?;
    Ok(described(asks, &issuer, &place).await?.is_some())
}

/// What tokens are asked for where nothing else is said.
fn resource_of(server: &Url) -> String {
    let mut url = server.clone();
    url.set_fragment(None);
    url.set_query(None);
    url.to_string()
}

/// The description of the resource; `None` where there is none.
async fn resource(
    asks: &Asks,
    server: &Url,
    challenge: &Challenge,
) -> Result<Option<Resource>, ClientError> {
    let places = match &challenge.resource_metadata {
        Some(named) => match asks.place(named) {
            Some(place) => vec![place],
            None => {
                let named = in_a_line(&orchestra_wire::shown(named));
                let what = format!("the address of its metadata cannot be trusted: {named}");
                return Err(refused(server, &what));
            }
        },
        None => {
            let mut places = vec![well_known(
                server,
                "oauth-protected-resource",
                server.path(),
            )];
            if server.path() != "/" {
                places.push(well_known(server, "oauth-protected-resource", "/"));
            }
            places
        }
    };
    for place in places {
        let told = asks.get(&place).await?;
        if !told.is_good() {
            may_be_absent(&place, &told)?;
            continue;
        }
        let resource: Resource = told.parse(&place)?;
        if !describes(&resource.resource, server) {
            let what = format!("it describes another server, {}", resource.resource);
            return Err(refused(&place, &what));
        }
        return Ok(Some(resource));
    }
    if challenge.resource_metadata.is_some() {
        return Err(refused(server, "its description is not where it says"));
    }
    Ok(None)
}

/// Whether a resource is the server, or what the server is a part of.
fn describes(resource: &str, server: &Url) -> bool {
    let Ok(resource) = resource.parse::<Url>() else {
        return false;
    };
    let whole = |url: &Url| format!("{}/", url.path().trim_end_matches('/'));
    same_origin(&resource, server) && whole(server).starts_with(&whole(&resource))
}

/// The description of an authorization server, from the places where it may be, in turn.
async fn described(asks: &Asks, issuer: &str, place: &Url) -> Result<Option<Server>, ClientError> {
    const OAUTH: &str = "oauth-authorization-server";
    const OPENID: &str = "openid-configuration";
    let path = place.path().trim_end_matches('/');
    let mut places = vec![
        well_known(place, OAUTH, path),
        well_known(place, OPENID, path),
    ];
    if !path.is_empty() {
        let mut behind = place.clone();
        behind.set_path(&format!("{path}/.well-known/{OPENID}"));
        places.push(behind);
    }
    for place in places {
        let told = asks.get(&place).await?;
        if !told.is_good() {
            may_be_absent(&place, &told)?;
            continue;
        }
        let server: Server = told.parse(&place)?;
        // RFC 8414, section 3.3. An origin is the same with and without its slash.
        let is_origin = path.is_empty();
        let same = server.issuer == issuer
            || is_origin && server.issuer.trim_end_matches('/') == issuer.trim_end_matches('/');
        if !same {
            return Err(refused(&place, "it describes another authorization server"));
        }
        return Ok(Some(server));
    }
    Ok(None)
}

/// Whoever has nothing at a place says so; a server that is in trouble does not.
fn may_be_absent(place: &Url, told: &Told) -> Result<(), ClientError> {
    if matches!(told.status, 429 | 500..=599) {
        let what = format!("{}: {}", shown(place), excerpt(told));
        return Err(ClientError::Unreachable { what });
    }
    Ok(())
}

fn found(
    asks: &Asks,
    server: Server,
    resource: String,
    resource_scopes: Vec<String>,
) -> Result<Found, ClientError> {
    let untrusted = |what: &str| ClientError::NeedsAuth {
        what: format!(
            "the authorization server {} names no place for {what} that can be trusted",
            server.issuer
        ),
    };
    let token = asks
        .place(&server.token_endpoint)
        .ok_or_else(|| untrusted("tokens"))?;
    let authorization = match &server.authorization_endpoint {
        Some(place) => asks.place(place).ok_or_else(|| untrusted("sign-ins"))?,
        // Where nobody signs in nobody is sent there.
        None => token.clone(),
    };
    let challenges = server.code_challenge_methods_supported.as_deref();
    let protects = challenges.is_some_and(|methods| methods.iter().any(|method| method == "S256"));
    let registration = server.registration_endpoint.as_deref();
    Ok(Found {
        resource,
        resource_scopes,
        authorization,
        token,
        registration: registration.and_then(|place| asks.place(place)),
        scopes: server.scopes_supported,
        methods: server.token_endpoint_auth_methods_supported,
        protects,
        names_itself: server.authorization_response_iss_parameter_supported,
        takes_documents: server.client_id_metadata_document_supported,
        binds_tokens: server
            .dpop_signing_alg_values_supported
            .iter()
            .any(|algorithm| algorithm == "ES256"),
        issuer: server.issuer,
    })
}

/// Where everything is by the rules of 2025-03-26 when nothing is said.
fn by_default(issuer: String, origin: &Url, resource: String) -> Found {
    let at = |path: &str| {
        let mut url = origin.clone();
        url.set_path(path);
        url
    };
    Found {
        issuer,
        resource,
        resource_scopes: Vec::new(),
        authorization: at("/authorize"),
        token: at("/token"),
        registration: Some(at("/register")),
        scopes: Vec::new(),
        methods: None,
        // Nothing is said at all; the challenge is sent all the same.
        protects: true,
        names_itself: false,
        takes_documents: false,
        binds_tokens: false,
    }
}

fn well_known(url: &Url, what: &str, path: &str) -> Url {
    let mut place = url.clone();
    place.set_path(&format!(
        "/.well-known/{what}{}",
        path.trim_end_matches('/')
    ));
    place.set_query(None);
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_the_server_or_what_it_is_a_part_of() {
        let server: Url = "https://x.example/a/mcp".parse().unwrap();
        for (resource, expected) in [
            ("https://x.example/a/mcp", true),
            ("https://x.example/a/mcp/", true),
            ("https://x.example/a", true),
            ("https://x.example", true),
            ("https://x.example/a/m", false),
            ("https://x.example/a/mcp/more", false),
            ("http://x.example/a/mcp", false),
            ("https://y.example/a/mcp", false),
            ("x", false),
        ] {
            assert_eq!(describes(resource, &server), expected, "{resource}");
        }
    }
}
