//! Admission of requests at a gate, without sockets.

use std::num::NonZeroU32;

use axum::{body::Body, extract::ConnectInfo, routing::get};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;

use super::*;
use crate::http::PeerUser;

/// Routes that say who calls; requests come from a peer and may show a token.
struct Door(TowerToHyperService<Router>);

impl Door {
    fn new(routes: Router) -> Self {
        Self(TowerToHyperService::new(routes))
    }

    async fn status(&self, path: &str, peer: &str, token: Option<&str>) -> StatusCode {
        let token = token.map(|token| format!("Bearer {token}"));
        let token = token.iter().map(|token| ("authorization", token.as_str()));
        let headers: Vec<_> = token.collect();
        self.answer(path, (peer, Some(PeerUser::Same)), &headers)
            .await
    }

    async fn answer(
        &self,
        path: &str,
        (address, user): (&str, Option<PeerUser>),
        headers: &[(&str, &str)],
    ) -> StatusCode {
        let mut request = Request::builder()
            .uri(path)
            .header(header::HOST, "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Body::empty()).unwrap();
        let address = SocketAddr::new(address.parse().unwrap(), 1);
        let extensions = request.extensions_mut();
        extensions.insert(ConnectInfo(address));
        user.map(|user| extensions.insert(user));
        self.0.call(request).await.unwrap().status()
    }
}

const TOKEN: &str = "0123456789abcdef";

fn access(tokens: &[&str], burst: u32) -> Access {
    Access::new(AccessRules {
        tokens: tokens.iter().map(|token| token.parse().unwrap()).collect(),
        rate: Some(Rate {
            per_second: NonZeroU32::MIN,
            burst: NonZeroU32::new(burst).unwrap(),
        }),
        ..AccessRules::default()
    })
}

fn routes(paths: &[&str]) -> Router {
    paths.iter().fold(Router::new(), |routes, path| {
        routes.route(path, get(async || ""))
    })
}

#[tokio::test]
async fn without_a_token_only_this_machine_is_let_in() {
    let door = Door::new(Access::default().guard(routes(&["/"])));
    for (peer, status) in [
        ("127.0.0.1", StatusCode::OK),
        ("::1", StatusCode::OK),
        ("::ffff:127.0.0.1", StatusCode::OK),
        ("10.0.0.1", StatusCode::FORBIDDEN),
        ("::ffff:10.0.0.1", StatusCode::FORBIDDEN),
    ] {
        assert_eq!(door.status("/", peer, None).await, status, "{peer}");
    }
    let door = Door::new(access(&[TOKEN], 9).guard(routes(&["/"])));
    assert_eq!(door.status("/", "10.0.0.1", Some(TOKEN)).await, 200);
    assert_eq!(door.status("/", "10.0.0.1", None).await, 401);
}

#[tokio::test]
async fn another_user_and_an_unknown_one_need_the_own_token() {
    let rules = AccessRules {
        own_token: Some(TOKEN.parse().unwrap()),
        ..AccessRules::default()
    };
    let door = Door::new(Access::new(rules).guard(routes(&["/"])));
    let held = format!("Bearer {TOKEN}");
    let users = [Some(PeerUser::Other(0)), Some(PeerUser::Unknown), None];
    for user in users {
        for peer in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            let from = (peer, user);
            assert_eq!(door.answer("/", from, &[]).await, 401, "{from:?}");
            let wrong = [("authorization", "Bearer 0123456789abcdeF")];
            assert_eq!(door.answer("/", from, &wrong).await, 401, "{from:?}");
            let right = [("authorization", held.as_str())];
            assert_eq!(door.answer("/", from, &right).await, 200, "{from:?}");
        }
    }
    let far = ("10.0.0.1", Some(PeerUser::Same));
    assert_eq!(door.answer("/", far, &[]).await, 403);
}

#[tokio::test]
async fn forwarded_request_needs_the_own_token() {
    let rules = AccessRules {
        own_token: Some(TOKEN.parse().unwrap()),
        ..AccessRules::default()
    };
    let door = Door::new(Access::new(rules).guard(routes(&["/"])));
    let same = ("127.0.0.1", Some(PeerUser::Same));
    let held = format!("Bearer {TOKEN}");
    for header in [
        ("Forwarded", "for=192.0.2.1"),
        ("X-Forwarded-For", "192.0.2.1"),
        ("X-Forwarded-Proto", "https"),
        ("Via", "1.1 proxy"),
        ("X-Real-IP", "192.0.2.1"),
        ("CF-Connecting-IP", "192.0.2.1"),
        ("X-Envoy-External-Address", "192.0.2.1"),
        ("Tailscale-User-Login", "ann@example.com"),
        ("X-Amzn-Trace-Id", "Root=1-2-3"),
        ("Fly-Client-IP", "192.0.2.1"),
        ("X-Forward-For", "192.0.2.1"),
        ("Forwarded-For", "192.0.2.1"),
        ("X-Originating-IP", "192.0.2.1"),
        ("CDN-RequestId", "1"),
    ] {
        assert_eq!(door.answer("/", same, &[header]).await, 401, "{header:?}");
        let right = [header, ("authorization", held.as_str())];
        assert_eq!(door.answer("/", same, &right).await, 200, "{header:?}");
    }
    assert_eq!(door.answer("/", same, &[("X-Other", "1")]).await, 200);
}

#[tokio::test]
async fn direct_login_admits_nobody_through_a_proxy_of_its_user() {
    let access = Access::new(AccessRules {
        tokens: vec![TOKEN.parse().unwrap()],
        ..AccessRules::default()
    });
    let door = Door::new(access.guard(routes(&["/"])));
    let forwarded = ("x-forwarded-for", "192.0.2.1");
    let log_in = |headers: &[(&'static str, &str)]| {
        let headers = headers.iter().map(|(name, value)| {
            let name = header::HeaderName::from_static(name);
            (name, value.parse().unwrap())
        });
        let mut extensions = Extensions::new();
        extensions.insert(PeerUser::Same);
        let set = access.log_in(&headers.collect(), &extensions, TOKEN);
        let set = set.unwrap().unwrap();
        set.to_str().unwrap().split(';').next().unwrap().to_owned()
    };
    let same = ("127.0.0.1", Some(PeerUser::Same));
    let direct = log_in(&[("host", "localhost")]);
    let direct = ("cookie", direct.as_str());
    assert_eq!(door.answer("/", same, &[direct]).await, 200);
    assert_eq!(door.answer("/", same, &[direct, forwarded]).await, 401);
    let behind = log_in(&[("host", "localhost"), forwarded]);
    let behind = ("cookie", behind.as_str());
    assert_eq!(door.answer("/", same, &[behind, forwarded]).await, 200);
    assert_eq!(door.answer("/", same, &[behind]).await, 401);
    // Another user can write the header of the proxy.
    for user in [PeerUser::Other(7), PeerUser::Unknown] {
        let other = ("127.0.0.1", Some(user));
        let status = door.answer("/", other, &[behind, forwarded]).await;
        assert_eq!(status, 401, "{user:?}");
    }
}

#[tokio::test]
async fn own_token_is_none_of_a_program_that_has_tokens() {
    let rules = AccessRules {
        tokens: vec![TOKEN.parse().unwrap()],
        own_token: Some("fedcba9876543210".parse().unwrap()),
        ..AccessRules::default()
    };
    let door = Door::new(Access::new(rules).guard(routes(&["/"])));
    let own = door.status("/", "127.0.0.1", Some("fedcba9876543210"));
    assert_eq!(own.await, 401);
    assert_eq!(door.status("/", "127.0.0.1", Some(TOKEN)).await, 200);
}

#[tokio::test]
async fn a_request_is_counted_once_however_many_guards_it_passes() {
    let access = access(&[TOKEN], 2);
    let inner = access.guard(routes(&["/in"]));
    let public = access.guard_public(routes(&["/health"]));
    let door = Door::new(access.guard(inner).merge(public));
    let peer = "127.0.0.1";
    for expected in [200, 200, 429] {
        assert_eq!(door.status("/in", peer, Some(TOKEN)).await, expected);
    }
    assert_eq!(door.status("/health", peer, None).await, 200);
}

#[tokio::test]
async fn health_is_answered_beside_other_requests_of_its_caller() {
    let access = access(&[TOKEN], 2);
    let health = access.guard_health(routes(&["/health"]));
    let door = Door::new(access.guard_public(routes(&["/open"])).merge(health));
    for expected in [200, 200, 429] {
        assert_eq!(door.status("/open", "127.0.0.1", None).await, expected);
    }
    for _ in 0..9 {
        assert_eq!(door.status("/health", "127.0.0.1", None).await, 200);
    }
    let foreign = [("origin", "http://evil.example")];
    let same = ("127.0.0.1", Some(PeerUser::Same));
    assert_eq!(door.answer("/health", same, &foreign).await, 403);
}

#[tokio::test]
async fn caller_that_passed_a_public_guard_is_still_asked_for_a_token() {
    let access = access(&[TOKEN], 9);
    let routes = access.guard(routes(&["/in"]));
    let door = Door::new(access.guard_public(routes));
    assert_eq!(door.status("/in", "127.0.0.1", None).await, 401);
    assert_eq!(door.status("/in", "127.0.0.1", Some(TOKEN)).await, 200);
}

#[tokio::test]
async fn guessing_is_counted_by_where_it_comes_from() {
    let door = Door::new(access(&[TOKEN], 2).guard(routes(&["/"])));
    let (here, there) = ("10.0.0.1", "10.0.0.2");
    let status = async |address: &str, token: Option<&str>| {
        let token = token.map(|token| format!("Bearer {token}"));
        let token = token.iter().map(|token| ("authorization", token.as_str()));
        let headers: Vec<_> = token.collect();
        let peer = (address, Some(PeerUser::Unknown));
        door.answer("/", peer, &headers).await
    };
    for (guess, expected) in [(Some("wrong"), 401), (None, 401), (Some("wrong"), 429)] {
        assert_eq!(status(here, guess).await, expected);
    }
    assert_eq!(status(there, Some("wrong")).await, 401);
    assert_eq!(
        status(here, Some(TOKEN)).await,
        200,
        "the holder is another"
    );
}

#[tokio::test]
async fn a_refusal_that_leaves_a_body_unread_says_that_the_connection_ends() {
    let door = Door::new(access(&[TOKEN], 1).guard(routes(&["/"])));
    let mut ended = Vec::new();
    for (host, body) in [
        ("localhost", "{}"),
        ("localhost", "{}"),
        ("evil.example", "{}"),
        ("localhost", ""),
    ] {
        let request = Request::builder().uri("/").header(header::HOST, host);
        let request = request.body(Body::from(body)).unwrap();
        let response = door.0.call(request).await.unwrap();
        let ends = response.headers().get(header::CONNECTION);
        ended.push((
            response.status().as_u16(),
            ends.is_some_and(|ends| ends == "close"),
        ));
    }
    assert_eq!(ended, [(401, true), (429, true), (403, true), (429, false)]);
}

#[tokio::test]
async fn failed_attempts_are_limited_for_each_peer() {
    let access = Access::new(AccessRules {
        tokens: vec![TOKEN.parse().unwrap()],
        ..AccessRules::default()
    });
    let from = |address: &str, user| {
        let mut extensions = Extensions::new();
        let address = SocketAddr::new(address.parse().unwrap(), 1);
        extensions.insert(ConnectInfo(address));
        extensions.insert(user);
        extensions
    };
    let log_in = |extensions: &Extensions, token| {
        access
            .log_in(&HeaderMap::new(), extensions, token)
            .map(|set| set.is_some())
    };
    let guesser = from("127.0.0.1", PeerUser::Other(7));
    let guesses = (0..1_000).map(|_| log_in(&guesser, "fedcba9876543210"));
    let wrong = guesses.take_while(|guess| *guess == Err(LoginError::Wrong));
    assert!((10..100).contains(&wrong.count()));
    // It is not even looked at.
    assert!(matches!(
        log_in(&guesser, TOKEN),
        Err(LoginError::TooMany { .. })
    ));
    for other in [
        from("127.0.0.1", PeerUser::Same),
        from("127.0.0.1", PeerUser::Other(8)),
        from("10.0.0.1", PeerUser::Unknown),
    ] {
        assert_eq!(log_in(&other, TOKEN), Ok(true));
    }
    // Guesses in headers count as well; the holder of a token is refused nothing.
    let door = Door::new(access.guard(routes(&["/"])));
    let far = ("10.0.0.1", Some(PeerUser::Unknown));
    let guess = [("authorization", "Bearer fedcba9876543210")];
    let mut statuses = Vec::new();
    while statuses.last() != Some(&StatusCode::TOO_MANY_REQUESTS) {
        statuses.push(door.answer("/", far, &guess).await);
        assert!(statuses.len() < 1_000);
    }
    assert!(statuses[..10].iter().all(|status| *status == 401));
    let held = format!("Bearer {TOKEN}");
    assert_eq!(
        door.answer("/", far, &[("authorization", &held)]).await,
        200
    );
}

#[test]
fn an_address_that_others_can_reach_needs_a_token() {
    let token: Token = "0123456789abcdef".parse().unwrap();
    let guarded = Access::new(AccessRules {
        tokens: vec![token],
        ..AccessRules::default()
    });
    for address in ["127.0.0.1:0", "[::1]:7420", "127.9.9.9:1"] {
        let address = address.parse().unwrap();
        assert!(Access::default().check_address(address).is_ok());
    }
    for address in ["0.0.0.0:7420", "[::]:7420", "192.168.0.1:80"] {
        let address = address.parse().unwrap();
        assert!(Access::default().check_address(address).is_err());
        assert!(guarded.check_address(address).is_ok());
    }
}

#[test]
fn a_token_is_never_shown() {
    let access = Access::new(AccessRules {
        tokens: vec!["0123456789abcdef".parse().unwrap()],
        ..AccessRules::default()
    });
    assert!(!format!("{access:?}").contains("0123456789abcdef"));
}
