//! Sign-ins: how a client finds out where, what it keeps, and what it does not believe.

mod changed;
mod given_up;
mod metadata;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::response::Response;
use orchestra_mcp::client::{
    ClientError,
    http::{
        Auth, HttpConfig, HttpConnector,
        oauth::{FileStore, MemoryStore, OAuthConfig, SignedOut, TokenStore, login, logout},
    },
};
use reqwest::Url;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::{Notify, watch},
    time::timeout,
};

use super::scripted::{Scripted, Seen, ask, connected, empty, json_of, result, with};
use crate::http::PATIENCE;

/// A server and its authorization server in one, and what they have given out.
#[derive(Default)]
struct Realm {
    /// The token that lets in.
    good: Mutex<String>,
    given: AtomicUsize,
    /// Seconds until tokens lapse.
    expires: Mutex<u64>,
    /// Members of the two descriptions that are to be others.
    resource: Mutex<Value>,
    server: Mutex<Value>,
    /// Address of the metadata that a refusal names.
    metadata: Mutex<Option<String>>,
    /// Whether renewals are refused.
    refuses: Mutex<bool>,
    /// Whether it is slow: tokens are given out, and nothing is answered until this is over.
    slow: watch::Sender<bool>,
    /// Rings when something was given out that waits for that.
    held: Notify,
}

fn merged(mut document: Value, changes: &Value) -> Value {
    for (name, value) in changes.as_object().into_iter().flatten() {
        document[name] = value.clone();
    }
    document
}

fn form(seen: &Seen) -> HashMap<String, String> {
    let text = seen.text.as_str();
    let url = Url::parse(&format!("http://form/?{text}")).unwrap();
    url.query_pairs().into_owned().collect()
}

impl Realm {
    fn answer(&self, seen: &Seen) -> Response {
        let at = format!("http://{}", seen.header("host").unwrap());
        match &*seen.path {
            "/.well-known/oauth-protected-resource/mcp" => {
                let document = json!({
                    "resource": format!("{at}/mcp"),
                    "authorization_servers": [at],
                    "scopes_supported": ["read"],
                });
                json_of(200, &merged(document, &self.resource.lock().unwrap()))
            }
            "/.well-known/oauth-authorization-server" => {
                let document = json!({
                    "issuer": at,
                    "authorization_endpoint": format!("{at}/authorize"),
                    "token_endpoint": format!("{at}/token"),
                    "registration_endpoint": format!("{at}/register"),
                    "code_challenge_methods_supported": ["S256"],
                    "authorization_response_iss_parameter_supported": true,
                });
                json_of(200, &merged(document, &self.server.lock().unwrap()))
            }
            "/register" => json_of(
                201,
                &json!({"client_id": "me", "client_secret": "s3cret:/"}),
            ),
            "/token" => self.token(seen),
            "/revoke" => empty(200),
            "/trouble" => empty(503),
            "/mcp" => {
                let good = format!("Bearer {}", self.good.lock().unwrap());
                if seen.header("authorization") == Some(&good) {
                    return json_of(200, &seen.result(&json!({})));
                }
                let named = self.metadata.lock().unwrap();
                let named = named
                    .as_ref()
                    .map_or_else(String::new, |url| format!(", resource_metadata=\"{url}\""));
                let challenge = format!("Bearer scope=\"write\"{named}");
                with(401, &[("www-authenticate", &challenge)], "no")
            }
            _ => empty(404),
        }
    }

    fn token(&self, seen: &Seen) -> Response {
        let asked = form(seen);
        let renews = asked["grant_type"] == "refresh_token";
        let given = self.given.load(Ordering::SeqCst);
        let is_spent = || asked["refresh_token"] != format!("refresh-{}", given - 1);
        if renews && (*self.refuses.lock().unwrap() || is_spent()) {
            return json_of(400, &json!({"error": "invalid_grant"}));
        }
        let number = self.given.fetch_add(1, Ordering::SeqCst);
        let token = format!("token-{number}");
        (*self.good.lock().unwrap()).clone_from(&token);
        json_of(
            200,
            &json!({
                "access_token": token,
                "token_type": "bearer",
                "expires_in": *self.expires.lock().unwrap(),
                "refresh_token": format!("refresh-{number}"),
            }),
        )
    }
}

/// A realm, and the server that plays it.
async fn realm() -> (Arc<Realm>, Scripted) {
    let realm = Arc::new(Realm::default());
    *realm.expires.lock().unwrap() = 3_600;
    *realm.good.lock().unwrap() = "nobody".to_owned();
    let plays = Arc::clone(&realm);
    let server = Scripted::new(move |seen| {
        let plays = Arc::clone(&plays);
        async move {
            let answer = plays.answer(&seen);
            if seen.path == "/token" {
                let mut slow = plays.slow.subscribe();
                if *slow.borrow() {
                    plays.held.notify_one();
                }
                slow.wait_for(|slow| !slow).await.unwrap();
            }
            answer
        }
    });
    (realm, server.await)
}

/// What a person does who agrees: comes back at once with a code; `issuer` sends them.
async fn agree(url: Url, issuer: Option<String>) {
    let asked: HashMap<_, _> = url.query_pairs().into_owned().collect();
    let mut back: Url = asked["redirect_uri"].parse().unwrap();
    let query = [("code", "c0de"), ("state", &*asked["state"])];
    back.query_pairs_mut().extend_pairs(query);
    if let Some(issuer) = issuer {
        back.query_pairs_mut().append_pair("iss", &issuer);
    }
    let address = (back.host_str().unwrap(), back.port().unwrap());
    // Somebody else comes first, and is sent away.
    let good = format!("{}?{}", back.path(), back.query().unwrap());
    for target in ["/callback?code=evil&state=guessed", &good] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
    }
}

/// A way to sign in by a person who agrees, and how often they did.
fn agrees(config: &mut OAuthConfig) -> Arc<AtomicUsize> {
    let times = Arc::<AtomicUsize>::default();
    config.sign_in = Some(Arc::new({
        let times = Arc::clone(&times);
        move |url: &Url| {
            times.fetch_add(1, Ordering::SeqCst);
            let issuer = url.origin().ascii_serialization();
            tokio::spawn(agree(url.clone(), Some(issuer)));
        }
    }));
    times
}

fn with_oauth(server: &Scripted, oauth: &OAuthConfig) -> HttpConfig {
    let mut config = server.config("/mcp");
    config.auth = Auth::OAuth(Box::new(oauth.clone()));
    config
}

fn asked_at(server: &Scripted, path: &str) -> Vec<Seen> {
    let seen = server.seen().into_iter();
    seen.filter(|seen| seen.path == path).collect()
}

#[tokio::test]
async fn a_sign_in_is_found_made_kept_and_renewed() {
    let (realm, server) = realm().await;
    let directory = tempfile::tempdir().unwrap();
    let mut oauth = OAuthConfig::new(Arc::new(FileStore::new(directory.path().into())));
    let times = agrees(&mut oauth);

    let there = connected(with_oauth(&server, &oauth)).await;
    result(&*there.link, 1, "ping", &json!({})).await;
    assert_eq!(times.load(Ordering::SeqCst), 1);
    let registered = asked_at(&server, "/register").remove(0);
    assert_eq!(registered.body["application_type"], "native");
    let token = form(&asked_at(&server, "/token")[0]);
    assert_eq!(token["resource"], format!("http://{}/mcp", server.address));
    assert_eq!(
        (&*token["code"], token["code_verifier"].len()),
        ("c0de", 43)
    );

    // Whoever comes later uses what was kept, and many of them sign in no more than once.
    oauth.sign_in = None;
    let there = connected(with_oauth(&server, &oauth)).await;
    let none = json!({});
    let all = (1..20).map(|id| ask(&*there.link, id, "ping", &none));
    for one in futures_util::future::join_all(all).await {
        one.unwrap().unwrap();
    }
    assert_eq!(realm.given.load(Ordering::SeqCst), 1);

    // What was taken back is renewed, once for all; the client says who it is.
    *realm.good.lock().unwrap() = "another".to_owned();
    let none = json!({});
    let all = (1..20).map(|id| ask(&*there.link, id, "ping", &none));
    for one in futures_util::future::join_all(all).await {
        one.unwrap().unwrap();
    }
    assert_eq!(realm.given.load(Ordering::SeqCst), 2);
    let renewal = asked_at(&server, "/token").pop().unwrap();
    assert_eq!(form(&renewal)["refresh_token"], "refresh-0");
    assert_eq!(form(&renewal)["resource"], token["resource"]);
    assert_eq!(
        renewal.header("authorization"),
        Some("Basic bWU6czNjcmV0JTNBJTJG")
    );

    // What lapses is renewed before it is shown.
    *realm.expires.lock().unwrap() = 0;
    *realm.good.lock().unwrap() = "another".to_owned();
    result(&*there.link, 1, "ping", &json!({})).await;
    let refused = asked_at(&server, "/mcp").len();
    result(&*there.link, 2, "ping", &json!({})).await;
    assert_eq!(asked_at(&server, "/mcp").len(), refused + 1);
    assert_eq!(realm.given.load(Ordering::SeqCst), 5);

    // Where that is refused, somebody has to sign in.
    *realm.refuses.lock().unwrap() = true;
    *realm.good.lock().unwrap() = "another".to_owned();
    let error = ask(&*there.link, 1, "ping", &json!({})).await.unwrap_err();
    assert!(
        matches!(&error, ClientError::NeedsAuth { what } if what.contains("orchestra mcp login there")),
        "{error}"
    );
}

#[tokio::test]
async fn signing_in_and_out_by_command() {
    let (realm, server) = realm().await;
    let store: Arc<dyn TokenStore> = Arc::new(MemoryStore::default());
    let oauth = OAuthConfig::new(Arc::clone(&store));
    let config = with_oauth(&server, &oauth);
    let refused = async || {
        let there = connected(config.clone()).await;
        let error = ask(&*there.link, 1, "ping", &json!({})).await.unwrap_err();
        error.explain()
    };
    let told = refused().await;
    assert!(
        told.contains("run `orchestra mcp login there`; these rights are needed: write"),
        "{told}"
    );

    let sign_in = Arc::new(|url: &Url| {
        let asked: HashMap<_, _> = url.query_pairs().into_owned().collect();
        assert_eq!(asked["scope"], "extra write");
        assert_eq!(asked["code_challenge_method"], "S256");
        tokio::spawn(agree(url.clone(), Some(url.origin().ascii_serialization())));
    });
    let scopes = ["extra".to_owned()];
    let done = login(config.clone(), Arc::clone(&store), &scopes, sign_in);
    timeout(PATIENCE, done).await.unwrap().unwrap();
    let there = connected(config.clone()).await;
    result(&*there.link, 1, "ping", &json!({})).await;

    // Its authorization server takes nothing back.
    let out = logout(config.clone(), Arc::clone(&store)).await.unwrap();
    assert!(matches!(out, SignedOut::NotRevocable), "{out:?}");
    assert!(refused().await.contains("orchestra mcp login"));
    assert_eq!(realm.given.load(Ordering::SeqCst), 1);
    let out = logout(config.clone(), store).await.unwrap();
    assert!(matches!(out, SignedOut::Nothing), "{out:?}");
}

#[tokio::test]
async fn tokens_are_taken_back_where_that_is_possible_and_forgotten_in_any_case() {
    let (realm, server) = realm().await;
    let at = format!("http://{}", server.address);
    let says = |place: String| {
        let document = json!({
            "revocation_endpoint": place,
            "revocation_endpoint_auth_methods_supported": ["client_secret_post"],
        });
        *realm.server.lock().unwrap() = document;
    };
    says(format!("{at}/revoke"));
    let store: Arc<dyn TokenStore> = Arc::new(MemoryStore::default());
    let config = with_oauth(&server, &OAuthConfig::new(Arc::clone(&store)));
    let sign_in = async || {
        let agrees = Arc::new(|url: &Url| {
            tokio::spawn(agree(url.clone(), Some(url.origin().ascii_serialization())));
        });
        login(config.clone(), Arc::clone(&store), &[], agrees).await
    };
    sign_in().await.unwrap();
    let out = logout(config.clone(), Arc::clone(&store)).await.unwrap();
    assert!(matches!(out, SignedOut::Revoked), "{out:?}");
    let revoked: Vec<_> = asked_at(&server, "/revoke").iter().map(form).collect();
    let hints: Vec<_> = revoked
        .iter()
        .map(|form| (&*form["token"], &*form["token_type_hint"]))
        .collect();
    assert_eq!(
        hints,
        [("refresh-0", "refresh_token"), ("token-0", "access_token")]
    );
    // It wants to know who asks in another way than where it gives tokens out.
    assert_eq!(
        (&*revoked[0]["client_id"], &*revoked[0]["client_secret"]),
        ("me", "s3cret:/")
    );

    // One that is in trouble, and one that is at a place where others could listen.
    for place in [format!("{at}/trouble"), "http://as.example/revoke".into()] {
        sign_in().await.unwrap();
        says(place.clone());
        let out = logout(config.clone(), Arc::clone(&store)).await.unwrap();
        assert!(matches!(out, SignedOut::NotRevoked(_)), "{place}: {out:?}");
        let out = logout(config.clone(), Arc::clone(&store)).await.unwrap();
        assert!(matches!(out, SignedOut::Nothing), "{out:?}");
    }
}

/// What comes of a sign-in at a realm that was changed.
async fn signed_in(change: impl FnOnce(&Realm), issuer: Option<&str>) -> (String, usize) {
    let (realm, server) = realm().await;
    change(&realm);
    let mut oauth = OAuthConfig::new(Arc::new(MemoryStore::default()));
    let shown = Arc::<AtomicUsize>::default();
    let issuer = issuer.map(str::to_owned);
    oauth.sign_in = Some(Arc::new({
        let shown = Arc::clone(&shown);
        move |url: &Url| {
            shown.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(agree(url.clone(), issuer.clone()));
        }
    }));
    let there = connected(with_oauth(&server, &oauth)).await;
    let error = ask(&*there.link, 1, "ping", &json!({})).await.unwrap_err();
    assert!(asked_at(&server, "/token").is_empty(), "{error}");
    (error.explain(), shown.load(Ordering::SeqCst))
}

#[tokio::test]
async fn what_contradicts_itself_is_not_believed() {
    let resource =
        |document: Value| move |realm: &Realm| *realm.resource.lock().unwrap() = document;
    let server = |document: Value| move |realm: &Realm| *realm.server.lock().unwrap() = document;
    for (told, shown, found) in [
        (
            "describes another server",
            0,
            signed_in(
                resource(json!({"resource": "https://evil.example/mcp"})),
                None,
            )
            .await,
        ),
        (
            "names no authorization server",
            0,
            signed_in(resource(json!({"authorization_servers": []})), None).await,
        ),
        (
            "cannot be trusted",
            0,
            signed_in(
                resource(json!({"authorization_servers": ["http://as.example"]})),
                None,
            )
            .await,
        ),
        (
            "describes another authorization server",
            0,
            signed_in(server(json!({"issuer": "https://evil.example"})), None).await,
        ),
        (
            "no place for tokens that can be trusted",
            0,
            signed_in(
                server(json!({"token_endpoint": "http://evil.example/token"})),
                None,
            )
            .await,
        ),
        (
            "PKCE",
            0,
            signed_in(
                server(json!({"code_challenge_methods_supported": ["plain"]})),
                None,
            )
            .await,
        ),
        (
            "registers nobody",
            0,
            signed_in(server(json!({"registration_endpoint": null})), None).await,
        ),
        (
            "does not name its authorization server",
            1,
            signed_in(|_| {}, None).await,
        ),
        (
            "another authorization server sent the answer",
            1,
            signed_in(|_| {}, Some("https://evil.example")).await,
        ),
    ] {
        assert!(found.0.contains(told), "{told}: {}", found.0);
        assert_eq!(found.1, shown, "{told}");
    }
}

#[tokio::test]
async fn a_sign_in_that_fails_is_not_tried_by_everybody_who_waits() {
    let (_, server) = realm().await;
    let mut oauth = OAuthConfig::new(Arc::new(MemoryStore::default()));
    let shown = Arc::<AtomicUsize>::default();
    oauth.sign_in = Some(Arc::new({
        let shown = Arc::clone(&shown);
        move |url: &Url| {
            shown.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(agree(url.clone(), Some("https://evil.example".to_owned())));
        }
    }));
    let connector = HttpConnector::new(with_oauth(&server, &oauth)).unwrap();
    let opened = orchestra_mcp::client::Connector::connect(&connector)
        .await
        .unwrap();
    let none = json!({});
    let all = (1..20).map(|id| ask(&*opened.link, id, "ping", &none));
    for one in futures_util::future::join_all(all).await {
        assert!(matches!(one, Err(ClientError::NeedsAuth { .. })));
    }
    assert_eq!(shown.load(Ordering::SeqCst), 1);
}
