//! Each bad server over HTTP beside a good one behind one gateway: the good one is not disturbed,
//! calls of the bad one are told what happened and run as often as they may, and it comes back.

mod site;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{body::Body, response::Response};
use serde_json::json;

use self::site::{BOTH, Eras, Site, forward};
use crate::{
    rig::{PATIENCE, Rig, child, http, say, span},
    scripted::{Scripted, Seen, empty, events, with},
};

/// What it does wrong is what its test says; `echo` of it may run twice.
struct Bad<'b> {
    rig: &'b Rig,
    site: &'b Site,
}

impl Bad<'_> {
    /// Calls a tool that may run once.
    async fn write(&self) -> crate::rig::Told {
        self.rig.call("bad__write", json!({"text": "x"})).await
    }

    /// How often the calls of `during` came to the server.
    async fn runs(&self, during: impl Future<Output = ()>) -> usize {
        let before = self.site.asked("tools/call");
        during.await;
        self.site.asked("tools/call") - before
    }

    /// Faults that pass are invisible to calls that may run twice; and then all is well.
    async fn passes(&self, fault: impl Fn(&Seen) -> Response + Send + Sync + 'static) {
        self.site.fails(2, fault);
        let runs = self.runs(self.rig.is_well("bad")).await;
        assert_eq!(runs, 3, "tried again until it succeeded");
        self.site.recovers();
        self.write().await.ok();
    }
}

/// In each of these eras.
async fn beside(kind: &str, eras: &[Eras], fault: impl AsyncFn(&Bad<'_>) -> String) {
    for eras in eras {
        let site = Site::new(*eras).await;
        let (kind, url) = (format!("{kind}, {eras:?}"), site.url());
        beside_at(&kind, &site, &url, &fault).await;
    }
}

async fn beside_at(kind: &str, site: &Site, url: &str, fault: impl AsyncFn(&Bad<'_>) -> String) {
    let mut config = http("bad", url);
    config.trust = true;
    let rig = Rig::with(&[child("good", "faulty", &[]), config]).await;
    rig.is_well("bad").await;
    let (witness, begun) = (rig.witness("good"), Instant::now());
    let mut rounds = 0;
    let seen = loop {
        let bad = Bad { rig: &rig, site };
        let seen = fault(&bad).await;
        rig.is_well("bad").await;
        rounds += 1;
        if begun.elapsed() > span() {
            break seen;
        }
    };
    let witnessed = witness.end().await;
    rig.close(&[]).await;
    say(&format!("{kind}, {rounds} times: {seen}; {witnessed}"));
}

#[tokio::test]
async fn unauthorized_401() {
    beside("401", &BOTH, async |bad| {
        bad.site.fails(usize::MAX, |_| {
            with(401, &[("www-authenticate", "Bearer")], "who are you?")
        });
        let told = bad.write().await;
        let words = ["did not run", "`orchestra mcp login bad`"];
        told.failed("needs_auth", false, &words);
        bad.site.recovers();
        bad.write().await.ok();
        "a call told to sign in".to_owned()
    })
    .await;
}

#[tokio::test]
async fn forbidden_403() {
    beside("403", &BOTH, async |bad| {
        bad.site
            .fails(usize::MAX, |_| with(403, &[], "not for you"));
        let runs = bad.runs(async {
            let words = [
                "HTTP status 403: not for you",
                "did not run",
                "will not help",
            ];
            bad.write().await.failed("http", false, &words);
            let echo = bad.rig.call("bad__echo", json!({})).await;
            echo.failed("http", false, &words);
        });
        assert_eq!(runs.await, 2, "not tried again");
        bad.site.recovers();
        "2 calls told".to_owned()
    })
    .await;
}

#[tokio::test]
async fn a_session_that_is_gone_404() {
    beside("404 on a known session", &[Eras::Session], async |bad| {
        let before = bad.site.asked("initialize");
        for _ in 0..10 {
            // As a server that was started anew: it knows no session.
            bad.site.play.session.fetch_add(1, Ordering::SeqCst);
            bad.write().await.ok();
        }
        let sessions = bad.site.asked("initialize") - before;
        assert_eq!(sessions, 10);
        "10 sessions lost and begun anew, no call told of it".to_owned()
    })
    .await;
}

#[tokio::test]
async fn too_many_requests_429() {
    beside("429 with Retry-After", &BOTH, async |bad| {
        let slowly = |_: &Seen| with(429, &[("retry-after", "1")], "slowly");
        bad.site.fails(usize::MAX, slowly);
        let runs = bad.runs(async {
            let words = [
                "HTTP status 429; Retry-After: 1 s: slowly",
                "Try again in 1 s.",
            ];
            bad.write().await.failed("http", true, &words);
        });
        assert_eq!(runs.await, 1, "not repeated");
        bad.site.fails(1, slowly);
        let begun = Instant::now();
        bad.rig.is_well("bad").await;
        let took = begun.elapsed();
        assert!(took >= Duration::from_secs(1), "{took:?}");
        bad.site.recovers();
        format!("a call told, another waited {took:?}")
    })
    .await;
}

#[tokio::test]
async fn broken_500_and_503() {
    beside("500 and 503", &BOTH, async |bad| {
        for status in [500, 503] {
            bad.site
                .fails(usize::MAX, move |_| with(status, &[], "on fire"));
            let runs = bad.runs(async {
                let status = format!("HTTP status {status}: on fire");
                let words = [&*status, "may have run: look at", "Try again in 1 s."];
                bad.write().await.failed("http", true, &words);
            });
            assert_eq!(runs.await, 1, "not repeated");
            bad.passes(move |_| with(status, &[], "on fire")).await;
        }
        "2 calls told, 2 tried again until they succeeded".to_owned()
    })
    .await;
}

#[tokio::test]
async fn a_redirect_elsewhere() {
    let elsewhere = Scripted::new(|_| async { empty(200) }).await;
    let target = format!("http://{}/mcp", elsewhere.address);
    beside("redirect elsewhere", &BOTH, async |bad| {
        for status in [302, 307, 308] {
            let target = target.clone();
            bad.site.fails(usize::MAX, move |_| {
                with(status, &[("location", &target)], "")
            });
            let told = bad.write().await;
            assert!(told.is_error && told.text.contains("redirect"), "{told:?}");
            bad.site.recovers();
            bad.rig.is_well("bad").await;
        }
        assert!(elsewhere.seen().is_empty(), "nothing went there");
        "3 calls told, nothing sent there".to_owned()
    })
    .await;
}

#[tokio::test]
async fn streams_that_break() {
    beside("broken streams", &BOTH, async |bad| {
        let ends = |_: &Seen| {
            let (response, stream) = events();
            // It says something and ends.
            let _ = stream.send(": working\n\ndata: {\"jsonrpc\"".to_owned());
            response
        };
        let is_cut = |_: &Seen| {
            let broken = || Err::<&'static [u8], _>(std::io::Error::other("as asked"));
            let pieces = [Ok(&b"{\"jsonrpc\":\"2.0\","[..]), broken()];
            Response::builder()
                .header("content-type", "application/json")
                .body(Body::from_stream(futures_util::stream::iter(pieces)))
                .unwrap()
        };
        let mut told = Vec::new();
        for fault in [ends as fn(&Seen) -> Response, is_cut] {
            bad.site.fails(usize::MAX, fault);
            let runs = bad.runs(async {
                let words = ["transport: HTTP request failed", "may have run: look at"];
                told.push(bad.write().await.failed("http", true, &words).text);
            });
            assert_eq!(runs.await, 1, "not repeated");
            bad.passes(fault).await;
        }
        format!(
            "{} calls told, 2 tried again until they succeeded",
            told.len()
        )
    })
    .await;
}

#[tokio::test]
async fn connections_that_are_reset() {
    let (site, resets) = (
        Site::new(Eras::Session).await,
        Arc::new(AtomicBool::new(false)),
    );
    let address = forward(site.server.address, Arc::clone(&resets)).await;
    let url = format!("http://{address}/mcp");
    beside_at("reset", &site, &url, async |bad| {
        resets.store(true, Ordering::SeqCst);
        let words = ["transport: HTTP request failed", "may have run: look at"];
        bad.write().await.failed("http", true, &words);
        resets.store(false, Ordering::SeqCst);
        bad.write().await.ok();
        "a call told".to_owned()
    })
    .await;
}

#[tokio::test]
async fn servers_of_one_era() {
    beside("one era only", &BOTH, async |bad| {
        for n in 0..20 {
            let text = json!({"text": format!("n{n}")});
            let answer = bad.rig.call("bad__write", text).await;
            assert_eq!(answer.ok(), format!("n{n}"));
        }
        bad.passes(|_| with(503, &[], "")).await;
        "20 calls".to_owned()
    })
    .await;
}

/// The error has the time that the server names.
#[tokio::test]
async fn list_of_tools_refused_with_503() {
    let play = Site::new(Eras::Session).await.play;
    let server = Scripted::new(move |seen| {
        std::future::ready(match seen.rpc() {
            "tools/list" => with(503, &[("retry-after", "7")], "loading"),
            _ => play.answer(&seen),
        })
    });
    let server = server.await;
    let url = format!("http://{}/mcp", server.address);
    let rig = Rig::with(&[child("good", "faulty", &[]), http("bad", &url)]).await;
    let told = rig.call("bad__echo", json!({"text": "x"})).await;
    let words = [
        "its tools cannot be listed: HTTP status 503; Retry-After: 7 s: loading",
        "The call did not run. Try again in 7 s. `orchestra mcp test bad` shows the cause.",
    ];
    told.failed("unreachable", false, &words);
    rig.close(&[]).await;
}

/// What is wrong from the beginning is told to who calls, and mended without a restart of ours.
#[tokio::test]
async fn a_server_that_is_broken_from_the_beginning() {
    let is_mended = Arc::new(AtomicBool::new(false));
    let (play, mended) = (Site::new(Eras::Session).await.play, Arc::clone(&is_mended));
    let server = Scripted::new(move |seen| {
        std::future::ready(match mended.load(Ordering::SeqCst) {
            true => play.answer(&seen),
            false => with(503, &[("retry-after", "1")], "<h1>starting</h1>"),
        })
    });
    let server = server.await;
    let url = format!("http://{}/mcp", server.address);
    let rig = Rig::with(&[child("good", "faulty", &[]), http("bad", &url)]).await;
    let witness = rig.witness("good");
    let end = Instant::now() + PATIENCE;
    loop {
        let cx = orchestra_hub::Cx {
            deadline: Some(Instant::now() + Duration::from_millis(500)),
            ..orchestra_hub::Cx::default()
        };
        let told = rig.call_with("bad__echo", json!({"text": "x"}), cx).await;
        assert!(
            told.is_error && told.text.contains("did not run") && told.text.contains("Try again"),
            "{told:?}"
        );
        if told.text.contains("503") {
            break;
        }
        // It has not been asked yet.
        assert!(Instant::now() < end, "{told:?}");
    }
    is_mended.store(true, Ordering::SeqCst);
    let answer = rig.call("bad__echo", json!({"text": "x"})).await;
    assert_eq!(answer.ok(), "x", "it is waited for");
    say(&format!(
        "broken from the beginning: a call told why, the next waited; {}",
        witness.end().await
    ));
    rig.close(&[]).await;
}
