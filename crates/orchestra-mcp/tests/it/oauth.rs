//! Who is let in by tokens of an issuer, over real sockets on both sides.

mod issuer;

use std::{
    num::NonZeroU32,
    time::{Duration, SystemTime},
};

use futures_util::{FutureExt as _, future::join_all};
use orchestra_mcp::http::{Access, AccessRules, HttpOptions, KeyTimes, OAuth, OAuthRules, Rate};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::http::{PATIENCE, Reply, Site, tool};
pub(crate) use issuer::{Answer, Issuer, Key};

pub(crate) const RESOURCE: &str = "https://box.example/mcp";
const METADATA: &str = "https://box.example/.well-known/oauth-protected-resource/mcp";

/// An hour: nothing is asked again during a test.
const NEVER: KeyTimes = KeyTimes {
    fresh: Duration::from_secs(3_600),
    pause: Duration::from_secs(3_600),
    kept: Duration::from_secs(3_600),
};

/// Whatever is asked for is asked again.
const ALWAYS: KeyTimes = KeyTimes {
    pause: Duration::ZERO,
    ..NEVER
};

/// What asks for tokens of an issuer, and for one scope.
pub(crate) fn rules(issuer: &Issuer) -> OAuthRules {
    OAuthRules {
        scopes: vec!["use".parse().unwrap()],
        times: NEVER,
        ..OAuthRules::new(RESOURCE.parse().unwrap(), issuer.url().parse().unwrap())
    }
}

fn access(rules: OAuthRules) -> AccessRules {
    AccessRules {
        hosts: vec!["box.example".parse().unwrap()],
        oauth: Some(OAuth::new(rules).unwrap()),
        ..AccessRules::default()
    }
}

async fn site(rules: OAuthRules) -> Site {
    guarded(access(rules)).await
}

async fn guarded(rules: AccessRules) -> Site {
    Site::new(HttpOptions {
        access: Access::new(rules),
        ..HttpOptions::default()
    })
    .await
}

async fn call(site: &Site, token: &str) -> Reply {
    let held = format!("Bearer {token}");
    site.post(&[("Authorization", &held)], &tool(1, "echo"))
        .await
}

async fn status(site: &Site, token: &str) -> u16 {
    call(site, token).await.status
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap().as_secs()
}

/// What a refusal says of itself, in the form of `error="…"`.
fn told<'c>(challenge: &'c str, name: &str) -> Option<&'c str> {
    let (_, rest) = challenge.split_once(&format!("{name}=\""))?;
    rest.split('"').next()
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_shows_a_token_of_the_issuer_is_let_in() {
    let keys = [Key::p256("a"), Key::ed25519("b")];
    let issuer = Issuer::new(&keys).await;
    let site = site(rules(&issuer)).await;
    for key in &keys {
        let held = format!("Bearer {}", issuer.token(key, json!({})));
        let headers = [
            ("Authorization", held.as_str()),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        let message = tool(1, "echo").to_string();
        for target in ["POST /mcp", "POST /rpc"] {
            let reply = site.send(target, &headers, &message).await;
            assert_eq!(reply.json().await["id"], 1, "{target}");
        }
        let open = site.send("GET /sse", &headers[..1], "").await;
        assert!(open.is_stream());
    }
    let unnamed = issuer.token_with(&keys[0], json!({"kid": null}), json!({}));
    assert_eq!(status(&site, &unnamed).await, 200);
    assert_eq!(issuer.asked(), 1, "keys are kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn event_stream_ends_when_the_token_expires_that_opened_it() {
    let key = Key::p256("a");
    let issuer = Issuer::new(std::slice::from_ref(&key)).await;
    let site = site(OAuthRules {
        leeway: Duration::ZERO,
        ..rules(&issuer)
    })
    .await;
    let open = async |expires: u64| {
        let token = issuer.token(&key, json!({"exp": expires}));
        let held = format!("Bearer {token}");
        // The first request with a token verifies it, the second finds it verified.
        assert_eq!(status(&site, &token).await, 200);
        let open = site.send("GET /sse", &[("Authorization", &held)], "").await;
        assert!(open.is_stream());
        (token, open)
    };
    let ends = now() + 3;
    let (short, mut stream) = open(ends).await;
    let (_, mut lasting) = open(ends + 600).await;
    timeout(PATIENCE, async { while stream.event().await.is_some() {} })
        .await
        .unwrap();
    assert!(now() >= ends, "not before the token");
    assert_eq!(status(&site, &short).await, 401);
    assert!(lasting.event().await.is_some(), "the path of messages");
    assert!(lasting.event().now_or_never().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_not_ours_lets_nobody_in() {
    let (key, other) = (Key::p256("a"), Key::p256("a"));
    let issuer = Issuer::new(std::slice::from_ref(&key)).await;
    let site = site(rules(&issuer)).await;
    let good = issuer.token(&key, json!({}));
    assert_eq!(status(&site, &good).await, 200);
    let claims = |changed: Value| issuer.token(&key, changed);
    let header = |changed: Value| issuer.token_with(&key, changed, json!({}));
    let (head, signature) = good.rsplit_once('.').unwrap();
    let (_, body) = head.split_once('.').unwrap();
    let first = if signature.starts_with('A') { "B" } else { "A" };
    let changed = format!("{first}{}", &signature[1..]);
    let none = issuer::part(&json!({"alg": "none"}));
    let secret = issuer.signed_with_the_public_key(&key);
    for (token, why) in [
        (
            claims(json!({"aud": "https://other.example/mcp"})),
            "another resource",
        ),
        (claims(json!({"aud": null})), "not valid"),
        (claims(json!({"sub": ""})), "subject"),
        (claims(json!({"sub": " "})), "subject"),
        (
            claims(json!({"iss": "https://login.example"})),
            "not trusted",
        ),
        (
            claims(json!({"iss": format!("{}/", issuer.url())})),
            "not trusted",
        ),
        (claims(json!({"exp": now() - 61})), "expired"),
        (claims(json!({"nbf": now() + 3_600})), "not valid yet"),
        (claims(json!({"cnf": {"jkt": "x"}})), "bound to a key"),
        (header(json!({"typ": "logout+jwt"})), "not an access token"),
        (
            header(json!({"crit": ["b64"], "b64": false})),
            "unsupported critical header",
        ),
        (header(json!({"kid": "none"})), "does not publish"),
        (header(json!({"alg": "ES384"})), "does not publish"),
        (header(json!({"alg": "RS256"})), "does not publish"),
        (issuer.token(&other, json!({})), "signature"),
        (format!("{none}.{body}."), "signature algorithm"),
        (format!("{none}.{body}.{signature}"), "signature algorithm"),
        (secret, "signature algorithm"),
        (format!("{head}."), "signature"),
        (format!("{head}.{}", changed), "signature"),
        (head.to_owned(), "not valid"),
        ("x".to_owned(), "not valid"),
    ] {
        let reply = call(&site, &token).await;
        assert_eq!(reply.status, 401, "{why}");
        let challenge = reply.header("www-authenticate").unwrap();
        assert_eq!(told(&challenge, "error"), Some("invalid_token"));
        let described = told(&challenge, "error_description").unwrap();
        assert!(described.contains(why), "{described}, not {why}");
        assert_eq!(told(&challenge, "resource_metadata"), Some(METADATA));
        assert_eq!(told(&challenge, "scope"), Some("use"));
        let said = reply.json().await["error"]["message"].to_string();
        assert!(said.contains(why) && !said.contains("ada"), "{said}");
    }
    assert_eq!(status(&site, &good).await, 200);
    assert_eq!(issuer.asked(), 1, "nobody makes us ask");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_without_a_scope_is_told_which_are_needed() {
    let key = Key::ed25519("a");
    let issuer = Issuer::new(std::slice::from_ref(&key)).await;
    let site = site(OAuthRules {
        scopes: vec!["use".parse().unwrap(), "more".parse().unwrap()],
        ..rules(&issuer)
    })
    .await;
    for scope in [json!(null), json!("use"), json!("other")] {
        let reply = call(&site, &issuer.token(&key, json!({"scope": scope}))).await;
        assert_eq!(reply.status, 403);
        let expected = format!(
            "bearer realm=\"orchestra\", error=\"insufficient_scope\", \
             error_description=\"this token lacks a required scope\", \
             resource_metadata=\"{METADATA}\", scope=\"use more\""
        );
        assert_eq!(reply.header("www-authenticate"), Some(expected));
    }
    let all = issuer.token(&key, json!({"scope": "other more use"}));
    assert_eq!(status(&site, &all).await, 200);
    let listed = issuer.token(&key, json!({"scope": null, "scp": ["use", "more"]}));
    assert_eq!(status(&site, &listed).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_shows_nothing_is_told_where_tokens_are() {
    let issuer = Issuer::new(&[]).await;
    let site = site(rules(&issuer)).await;
    let expected =
        format!("bearer realm=\"orchestra\", resource_metadata=\"{METADATA}\", scope=\"use\"");
    for target in [
        "POST /mcp",
        "GET /mcp",
        "DELETE /mcp",
        "GET /sse",
        "POST /messages",
        "POST /rpc",
        "GET /elsewhere",
    ] {
        for headers in [&[][..], &[("Authorization", "Basic YTpi")]] {
            let reply = site.send(target, headers, "").await;
            assert_eq!(reply.status, 401, "{target}");
            assert_eq!(
                reply.header("www-authenticate").as_deref(),
                Some(&*expected)
            );
        }
    }
    let root = "/.well-known/oauth-protected-resource";
    for path in [root, &format!("{root}/mcp")] {
        let get = format!("GET {path}");
        let rebound = site.send(&get, &[("Host", "evil.example")], "").await;
        assert_eq!(rebound.status, 403);
        let page = ("Origin", "https://app.example");
        let reply = site.send(&get, &[page], "").await;
        assert_eq!(reply.status, 200);
        assert_eq!(
            reply.header("access-control-allow-origin").as_deref(),
            Some("*")
        );
        assert_eq!(
            reply.header("content-type").as_deref(),
            Some("application/json")
        );
        let document = json!({
            "resource": RESOURCE,
            "authorization_servers": [issuer.url()],
            "scopes_supported": ["use"],
            "bearer_methods_supported": ["header"],
            "resource_name": "Orchestra",
        });
        assert_eq!(reply.json().await, document);
        let asks = [
            page,
            ("Access-Control-Request-Method", "GET"),
            ("Access-Control-Request-Headers", "mcp-protocol-version"),
        ];
        let reply = site.send(&format!("OPTIONS {path}"), &asks, "").await;
        assert_eq!(reply.status, 204);
        assert_eq!(
            reply.header("access-control-allow-headers").as_deref(),
            Some("*")
        );
        let refused = site.send(&format!("POST {path}"), &[], "{}").await;
        assert_eq!(refused.status, 405);
        assert_eq!(refused.header("connection").as_deref(), Some("close"));
    }
    let elsewhere = format!("GET {root}/elsewhere");
    assert_eq!(site.send(&elsewhere, &[], "").await.status, 401);
    assert_eq!(issuer.asked(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_change_are_fetched() {
    let (old, new) = (Key::p256("a"), Key::p256("b"));
    let issuer = Issuer::new(std::slice::from_ref(&old)).await;
    let site = site(OAuthRules {
        times: ALWAYS,
        ..rules(&issuer)
    })
    .await;
    let (of_old, of_new) = (issuer.token(&old, json!({})), issuer.token(&new, json!({})));
    assert_eq!(status(&site, &of_old).await, 200);
    assert_eq!(status(&site, &of_new).await, 401);
    issuer.publish(std::slice::from_ref(&new));
    assert_eq!(status(&site, &of_new).await, 200);
    assert_eq!(status(&site, &of_old).await, 401, "it was taken back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_was_taken_back_is_trusted_for_a_time_alone() {
    let (old, new) = (Key::p256("a"), Key::p256("b"));
    let issuer = Issuer::new(std::slice::from_ref(&old)).await;
    let site = site(OAuthRules {
        times: KeyTimes {
            fresh: Duration::ZERO,
            ..ALWAYS
        },
        ..rules(&issuer)
    })
    .await;
    let token = issuer.token(&old, json!({}));
    assert_eq!(status(&site, &token).await, 200);
    issuer.publish(&[new]);
    let refused = async { while status(&site, &token).await == 200 {} };
    timeout(PATIENCE, refused).await.expect("it is noticed");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_used_while_the_issuer_is_down() {
    let (key, other) = (Key::p256("a"), Key::p256("b"));
    let issuer = Issuer::new(std::slice::from_ref(&key)).await;
    let site = site(OAuthRules {
        times: KeyTimes {
            fresh: Duration::ZERO,
            ..ALWAYS
        },
        ..rules(&issuer)
    })
    .await;
    assert_eq!(status(&site, &issuer.token(&key, json!({}))).await, 200);
    issuer.answer(Answer::Status(500));
    let asked = issuer.asked();
    for number in 0..5 {
        let token = issuer.token(&key, json!({"jti": number}));
        assert_eq!(status(&site, &token).await, 200);
    }
    let again = async {
        while issuer.asked() == asked {
            tokio::task::yield_now().await
        }
    };
    timeout(PATIENCE, again).await.expect("it is asked again");
    let reply = call(&site, &issuer.token(&other, json!({}))).await;
    assert_eq!(reply.status, 503);
    assert!(reply.header("retry-after").is_some());
    assert_eq!(
        reply.header("www-authenticate"),
        None,
        "nobody is sent for another"
    );
    let said = reply.json().await["error"]["message"].to_string();
    assert!(said.contains("cannot be fetched"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_come_at_once_make_us_ask_once() {
    let (key, other) = (Key::p256("a"), Key::p256("b"));
    let issuer = Issuer::new(std::slice::from_ref(&key)).await;
    issuer.answer(Answer::Stall);
    let site = site(rules(&issuer)).await;
    let tokens: Vec<String> = (0..50)
        .map(|number| issuer.token(&key, json!({"jti": number})))
        .collect();
    let statuses = join_all(tokens.iter().map(|token| status(&site, token)));
    let release = async {
        while issuer.asked() == 0 {
            tokio::task::yield_now().await;
        }
        issuer.publish(std::slice::from_ref(&key));
    };
    let (statuses, ()) = timeout(PATIENCE, async { tokio::join!(statuses, release) })
        .await
        .expect("they are answered");
    assert_eq!(statuses, [200; 50]);
    for number in 0..20 {
        let token = issuer.token(&other, json!({"jti": number}));
        assert_eq!(status(&site, &token).await, 401);
    }
    assert_eq!(issuer.asked(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_known_does_not_wait_for_the_keys_of_others() {
    let (key, other) = (Key::p256("a"), Key::p256("b"));
    let issuer = Issuer::new(std::slice::from_ref(&key)).await;
    let site = site(OAuthRules {
        times: ALWAYS,
        ..rules(&issuer)
    })
    .await;
    assert_eq!(status(&site, &issuer.token(&key, json!({}))).await, 200);
    issuer.answer(Answer::Stall);
    let of_other = issuer.token(&other, json!({}));
    let waits = status(&site, &of_other);
    let passes = async {
        while issuer.asked() < 2 {
            tokio::task::yield_now().await;
        }
        let token = issuer.token(&key, json!({"jti": 1}));
        assert_eq!(status(&site, &token).await, 200);
        issuer.publish(&[key, other]);
    };
    let (waited, ()) = tokio::join!(waits, passes);
    assert_eq!(waited, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_issuer_answers_is_bounded_and_its_own() {
    let key = Key::p256("a");
    let issuer = Issuer::new(std::slice::from_ref(&key)).await;
    let site = site(OAuthRules {
        times: ALWAYS,
        ..rules(&issuer)
    })
    .await;
    let token = issuer.token(&key, json!({}));
    let keys = issuer::published(std::slice::from_ref(&key));
    let mut many = keys.clone();
    many["keys"] = json!(vec![keys["keys"][0].clone(); 65]);
    for answer in [
        Answer::Json(format!("{keys}{}", " ".repeat(256 * 1024))),
        Answer::Json(many.to_string()),
        Answer::Json(json!({"keys": []}).to_string()),
        Answer::Json("no JSON".to_owned()),
        Answer::Status(404),
        Answer::Redirect("/elsewhere".to_owned()),
    ] {
        issuer.answer(answer.clone());
        assert_eq!(status(&site, &token).await, 503, "{answer:?}");
    }
    issuer.publish(std::slice::from_ref(&key));
    for description in [
        json!({"issuer": "https://login.example", "jwks_uri": issuer.keys_url()}),
        json!({"issuer": format!("{}/", issuer.url()), "jwks_uri": issuer.keys_url()}),
        json!({"issuer": issuer.url()}),
        json!({"issuer": issuer.url(), "jwks_uri": "http://login.example/keys"}),
        json!({"issuer": issuer.url(), "jwks_uri": "file:///etc/passwd"}),
        json!([]),
    ] {
        issuer.describe(Some(description.clone()), None);
        assert_eq!(status(&site, &token).await, 503, "{description}");
    }
    let right = json!({"issuer": issuer.url(), "jwks_uri": issuer.keys_url()});
    issuer.describe(None, Some(right));
    assert_eq!(status(&site, &token).await, 200, "as OpenID Connect has it");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_may_be_where_the_rules_say() {
    let key = Key::p256("a");
    let issuer = Issuer::new(std::slice::from_ref(&key)).await;
    issuer.describe(None, None);
    let mut rules = rules(&issuer);
    rules.issuers[0].keys = Some(issuer.keys_url().parse().unwrap());
    let site = site(rules).await;
    assert_eq!(status(&site, &issuer.token(&key, json!({}))).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_that_is_not_there_keeps_nobody_else_out() {
    let (key, token) = (Key::p256("a"), "0123456789abcdef0123");
    let (issuer, gone) = (
        Issuer::new(std::slice::from_ref(&key)).await,
        Issuer::new(std::slice::from_ref(&key)).await,
    );
    let mut oauth = rules(&issuer);
    oauth.issuers.extend(rules(&gone).issuers);
    let of_gone = gone.token(&key, json!({}));
    gone.end().await;
    let site = guarded(AccessRules {
        tokens: vec![token.parse().unwrap()],
        ..access(oauth)
    })
    .await;
    assert_eq!(status(&site, &of_gone).await, 503);
    assert_eq!(status(&site, &issuer.token(&key, json!({}))).await, 200);
    assert_eq!(status(&site, token).await, 200);
    assert_eq!(status(&site, "0123456789abcdef0124").await, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_nobodys_but_the_subjects_that_began_it() {
    let key = Key::p256("a");
    let issuer = Issuer::new(std::slice::from_ref(&key)).await;
    let static_token = "0123456789abcdef0123";
    let site = guarded(AccessRules {
        tokens: vec![static_token.parse().unwrap()],
        ..access(rules(&issuer))
    })
    .await;
    let bearer = |claims: Value| format!("Bearer {}", issuer.token(&key, claims));
    let owner = bearer(json!({"client_id": "editor"}));
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let begun = site.post(&[("Authorization", &owner)], &hello).await;
    let session = begun.header("mcp-session-id").expect("a session");
    for other in [
        bearer(json!({"sub": "bob", "client_id": "editor"})),
        bearer(json!({"client_id": "another"})),
        bearer(json!({})),
        format!("Bearer {static_token}"),
    ] {
        let as_other = [
            ("Authorization", other.as_str()),
            ("Mcp-Session-Id", &session),
            ("Accept", "text/event-stream"),
        ];
        let call = site.post(&as_other[..2], &tool(1, "echo")).await;
        assert_eq!(call.status, 404);
        assert_eq!(site.send("GET", &as_other, "").await.status, 404);
        assert_eq!(site.send("DELETE", &as_other, "").await.status, 404);
    }
    // Another token of the same subject, as there is one every few minutes.
    let later = bearer(json!({"azp": "editor", "jti": 2}));
    let as_owner = [
        ("Authorization", later.as_str()),
        ("Mcp-Session-Id", &session),
    ];
    let call = site.post(&as_owner, &tool(1, "echo")).await;
    assert_eq!(call.json().await["id"], 1);
    assert_eq!(site.send("DELETE", &as_owner, "").await.status, 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_is_one_caller_by_whichever_program_and_guesses_count_by_address() {
    let key = Key::p256("a");
    let issuer = Issuer::new(std::slice::from_ref(&key)).await;
    let site = guarded(AccessRules {
        rate: Some(Rate {
            per_second: NonZeroU32::MIN,
            burst: NonZeroU32::new(4).unwrap(),
        }),
        ..access(rules(&issuer))
    })
    .await;
    let [one, other] = ["one", "other"].map(|name| issuer.token(&key, json!({"azp": name})));
    let bob = issuer.token(&key, json!({"sub": "bob"}));
    let refused = async {
        loop {
            for token in [&one, &other] {
                if status(&site, token).await == 429 {
                    return;
                }
            }
        }
    };
    timeout(PATIENCE, refused).await.expect("they count as one");
    assert_eq!(
        status(&site, &bob).await,
        200,
        "another has a bucket of its own"
    );
    let guessed = async {
        let mut number = 0;
        loop {
            number += 1;
            let guess = issuer.token(&Key::p256("a"), json!({"jti": number}));
            match status(&site, &guess).await {
                429 => return,
                status => assert_eq!(status, 401),
            }
        }
    };
    timeout(PATIENCE, guessed)
        .await
        .expect("guesses are counted");
    assert_eq!(status(&site, &bob).await, 200, "who is known is no guess");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_good_until_its_end_however_often_it_was_seen() {
    let key = Key::p256("a");
    let issuer = Issuer::new(std::slice::from_ref(&key)).await;
    let site = site(OAuthRules {
        leeway: Duration::ZERO,
        ..rules(&issuer)
    })
    .await;
    let token = issuer.token(&key, json!({"exp": now() + 2}));
    let ended = async { while status(&site, &token).await == 200 {} };
    timeout(PATIENCE, ended).await.expect("it ends");
    let reply = call(&site, &token).await;
    let challenge = reply.header("www-authenticate").unwrap();
    assert_eq!(
        told(&challenge, "error_description"),
        Some("this token has expired")
    );
}

#[tokio::test]
async fn an_address_that_others_can_reach_is_guarded_by_an_issuer() {
    let issuer = Issuer::new(&[]).await;
    let guarded = Access::new(access(rules(&issuer)));
    let address = "0.0.0.0:7420".parse().unwrap();
    assert!(guarded.check_address(address).is_ok());
    assert!(Access::default().check_address(address).is_err());
    let twice = OAuthRules {
        issuers: [rules(&issuer).issuers, rules(&issuer).issuers].concat(),
        ..rules(&issuer)
    };
    let error = OAuth::new(twice).unwrap_err().to_string();
    assert!(error.contains("twice"), "{error}");
    let nobody = OAuthRules {
        issuers: Vec::new(),
        ..rules(&issuer)
    };
    assert!(OAuth::new(nobody).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_whose_path_no_route_can_have_is_refused() {
    for (path, is_served) in [("/:a", false), ("/a/*b", false), ("/{a}/b:c", true)] {
        let resource = format!("https://box.example{path}");
        let issuer = "https://login.example".parse().unwrap();
        let oauth = OAuth::new(OAuthRules::new(resource.parse().unwrap(), issuer));
        assert_eq!(oauth.is_ok(), is_served, "{path}");
        if let Ok(oauth) = oauth {
            let rules = AccessRules {
                oauth: Some(oauth),
                ..AccessRules::default()
            };
            drop(guarded(rules).await);
        }
    }
}
