//! Who sends a request, and where that may be told.

use std::{
    os::unix::fs::PermissionsExt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::http::Method;
use orchestra_mcp::client::{
    ClientError, Sent,
    http::{Auth, HttpConfig, Template},
};
use orchestra_process::Launcher;
use serde_json::json;

use crate::faulty::example;

use super::scripted::{Scripted, ask, connected, empty, json_of, result, with};

/// A server that lets in whoever shows `Bearer good`.
async fn guarded() -> Scripted {
    Scripted::new(|seen| async move {
        match seen.header("authorization") {
            Some("Bearer good") => json_of(200, &seen.result(&json!({}))),
            _ => with(401, &[("www-authenticate", "Bearer")], "who are you"),
        }
    })
    .await
}

#[tokio::test]
async fn a_refused_token_is_renewed_once() {
    let server = guarded().await;
    let mut config = server.config("/mcp");
    config.auth = Auth::Env("TOKEN".into());
    let asked = Arc::<AtomicUsize>::default();
    config.secrets = Arc::new({
        let asked = Arc::clone(&asked);
        move |_: &str| match asked.fetch_add(1, Ordering::SeqCst) {
            0 => Some("bad".to_owned()),
            _ => Some("good".to_owned()),
        }
    });
    let there = connected(config).await;
    result(&*there.link, 1, "ping", &json!({})).await;
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn a_token_that_stays_refused_is_told_with_what_to_do() {
    let server = guarded().await;
    for (auth, told, times) in [
        (
            Auth::Bearer(Template::verbatim("bad")),
            "the token of `auth`",
            1,
        ),
        (Auth::None, "run `orchestra mcp login there`", 1),
    ] {
        let before = server.seen().len();
        let mut config = server.config("/mcp");
        config.auth = auth;
        let there = connected(config).await;
        let error = ask(&*there.link, 1, "ping", &json!({})).await.unwrap_err();
        let ClientError::NeedsAuth { what } = &error else {
            panic!("{error:?}")
        };
        assert!(what.contains(told), "{what}");
        assert_eq!(error.sent(), Sent::No);
        assert_eq!(server.seen().len() - before, times);
    }
}

/// Requests that come while the program runs wait for it, and have it run no more when it fails.
#[tokio::test]
async fn a_program_that_fails_is_run_once_for_all_who_wait() {
    let server = guarded().await;
    let directory = tempfile::tempdir().unwrap();
    let counter = directory.path().join("runs");
    let runs = || std::fs::read_to_string(&counter).unwrap().lines().count();
    let there = connected(printed_by(&server, "echo >>\"$0\"; exit 3", &counter)).await;
    let params = json!({});
    let asks = (1..9).map(|id| ask(&*there.link, id, "ping", &params));
    for told in futures_util::future::join_all(asks).await {
        let error = told.unwrap_err();
        assert!(error.explain().contains("exit code 3"), "{error:?}");
    }
    assert_eq!(runs(), 1);
    // Whoever comes later has it run again.
    ask(&*there.link, 9, "ping", &params).await.unwrap_err();
    assert_eq!(runs(), 2);
}

/// A configuration with a program that prints a token; `$0` is `word` for it.
fn printed_by(server: &Scripted, script: &str, word: &std::path::Path) -> HttpConfig {
    let mut config = server.config("/mcp");
    config.auth = Auth::Command {
        program: "sh".into(),
        args: vec!["-c".into(), script.into(), word.to_str().unwrap().into()],
        directory: word.parent().unwrap().to_owned(),
        check: Arc::new(|| Box::pin(std::future::ready(Ok(())))),
    };
    config.launcher = Some(Launcher::new(example("faulty"), ["__child"]));
    config
}

#[tokio::test]
async fn a_program_prints_the_token_and_is_asked_again_when_it_is_refused() {
    let server = guarded().await;
    let directory = tempfile::tempdir().unwrap();
    let counter = directory.path().join("runs");
    let script = r#"echo >>"$0"; if [ "$(wc -l <"$0")" -gt 1 ]; then echo good; else echo bad; fi"#;
    let there = connected(printed_by(&server, script, &counter)).await;
    for id in 1..4 {
        result(&*there.link, id, "ping", &json!({})).await;
    }
    assert_eq!(
        std::fs::read_to_string(&counter).unwrap().lines().count(),
        2
    );
}

#[tokio::test]
async fn program_that_prints_a_token_runs_in_its_directory_with_the_variables_of_servers() {
    let server = guarded().await;
    let directory = tempfile::tempdir().unwrap();
    let script = "#!/bin/sh\ntest -z \"$CARGO_MANIFEST_DIR\" && test -n \"$PATH\" && cat token\n";
    let program = directory.path().join("token.sh");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(directory.path().join("token"), "good\n").unwrap();
    let mut config = printed_by(&server, "", &program);
    config.auth = Auth::Command {
        program: "./token.sh".into(),
        args: Vec::new(),
        directory: directory.path().to_owned(),
        check: Arc::new(|| Box::pin(std::future::ready(Ok(())))),
    };
    let there = connected(config).await;
    result(&*there.link, 1, "ping", &json!({})).await;
}

#[tokio::test]
async fn program_whose_check_fails_is_not_started_again() {
    let server = guarded().await;
    let directory = tempfile::tempdir().unwrap();
    let counter = directory.path().join("runs");
    let mut config = printed_by(&server, "echo >>\"$0\"; echo bad", &counter);
    let checks = Arc::<AtomicUsize>::default();
    let Auth::Command { check, .. } = &mut config.auth else {
        panic!("it is a program")
    };
    *check = Arc::new(move || {
        let what = "the program changed".to_owned();
        let is_first = checks.fetch_add(1, Ordering::SeqCst) == 0;
        let checked = is_first
            .then_some(())
            .ok_or(ClientError::Unreachable { what });
        Box::pin(std::future::ready(checked))
    });
    let there = connected(config).await;
    let error = ask(&*there.link, 1, "ping", &json!({})).await.unwrap_err();
    assert!(error.explain().contains("the program changed"), "{error:?}");
    assert_eq!(std::fs::read_to_string(&counter).unwrap(), "\n");
}

#[tokio::test]
async fn a_program_that_prints_no_token_is_told_with_its_own_words() {
    let server = guarded().await;
    let directory = tempfile::tempdir().unwrap();
    let pid = directory.path().join("pid");
    for (script, told) in [
        (
            "echo printed-secret; echo 'sign in first' >&2; exit 3",
            "of `auth` failed: exit code 3: sign in first",
        ),
        (
            "echo 'not with Bearer s3cret-s3cret' >&2; kill -9 $$",
            "failed: ended by signal 9: not with Bearer",
        ),
        ("true", "printed no token on its first line"),
        ("echo $$ >\"$0\"; exec yes", "prints more than 16384 bytes"),
    ] {
        let there = connected(printed_by(&server, script, &pid)).await;
        let error = ask(&*there.link, 1, "ping", &json!({})).await.unwrap_err();
        assert!(matches!(error, ClientError::NeedsAuth { .. }), "{error:?}");
        let shown = error.explain();
        assert!(shown.contains(told), "{shown}");
        assert!(
            !shown.contains("printed-secret") && !shown.contains("s3cret"),
            "{shown}"
        );
    }
    assert!(server.seen().is_empty());
    // The one that never ends was ended.
    gone(&pid).await;
}

#[tokio::test]
async fn what_a_program_leaves_behind_holds_nobody_up_and_is_ended() {
    let server = guarded().await;
    let directory = tempfile::tempdir().unwrap();
    let pid = directory.path().join("pid");
    let script = "sleep 600 & echo $! >\"$0\"; echo complaint >&2; echo good";
    let there = connected(printed_by(&server, script, &pid)).await;
    result(&*there.link, 1, "ping", &json!({})).await;
    gone(&pid).await;
}

/// Waits for the end of the process whose id is in a file.
async fn gone(file: &std::path::Path) {
    let pid = std::fs::read_to_string(file).unwrap();
    let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    let looking = async {
        while rustix::process::test_kill_process(pid).is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    let ended = tokio::time::timeout(crate::http::PATIENCE, looking).await;
    assert!(ended.is_ok(), "it still runs");
}

#[tokio::test]
async fn a_missing_variable_is_named_and_nothing_is_sent() {
    let server = guarded().await;
    let mut config = server.config("/mcp");
    config.secrets = Arc::new(|_: &str| None);
    config.auth = Auth::Bearer(Template::parse("${SOME_TOKEN}").unwrap());
    let there = connected(config.clone()).await;
    let error = ask(&*there.link, 1, "ping", &json!({})).await.unwrap_err();
    assert!(error.explain().contains("SOME_TOKEN is not set"), "{error}");

    config.auth = Auth::None;
    let template = Template::parse("key ${SOME_KEY}").unwrap();
    config.headers = vec![("X-Key".into(), template)];
    let there = connected(config).await;
    let error = ask(&*there.link, 1, "ping", &json!({})).await.unwrap_err();
    assert!(error.explain().contains("SOME_KEY is not set"), "{error}");
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn a_redirect_to_another_host_gets_no_token_and_is_not_followed() {
    let other = guarded().await;
    let place = format!("http://{}/mcp?key=1", other.address);
    let server = Scripted::new(move |seen| {
        let place = place.clone();
        async move {
            match &*seen.path {
                "/away" => with(307, &[("location", &place)], ""),
                "/moved" => with(308, &[("location", "/mcp/")], ""),
                "/old" => with(301, &[("location", "/mcp/")], ""),
                "/round" => with(307, &[("location", "/round")], ""),
                _ => json_of(200, &seen.result(&json!({}))),
            }
        }
    })
    .await;
    let ask_at = async |path: &str| {
        let mut config = server.config(path);
        config.auth = Auth::Bearer(Template::verbatim("good"));
        let there = connected(config).await;
        ask(&*there.link, 1, "ping", &json!({})).await
    };
    let error = ask_at("/away").await.unwrap_err();
    let told = error.explain();
    assert!(
        told.contains("another origin") && !told.contains("key=1"),
        "{told}"
    );
    assert_eq!(error.sent(), Sent::No);
    assert!(other.seen().is_empty());

    ask_at("/moved").await.unwrap().unwrap();
    let arrived = server.seen().pop().unwrap();
    assert_eq!(
        (arrived.method.clone(), &*arrived.path),
        (Method::POST, "/mcp/")
    );
    assert_eq!(arrived.header("authorization"), Some("Bearer good"));
    assert_eq!(arrived.rpc(), "ping");

    let told = ask_at("/old").await.unwrap_err().explain();
    assert!(told.contains("set `url` to http://127.0.0.1"), "{told}");
    let told = ask_at("/round").await.unwrap_err().explain();
    assert!(told.contains("more than 5 times"), "{told}");
}

#[tokio::test]
async fn what_was_sent_in_secret_is_not_told_even_if_the_server_does() {
    let server = Scripted::new(|seen| async move {
        let told = format!("{:?}", seen.headers);
        with(403, &[], &told)
    });
    let server = server.await;
    let mut config = server.config("/mcp");
    config.auth = Auth::Bearer(Template::verbatim("t0ken-t0ken"));
    config.secrets = Arc::new(|_: &str| Some("k3y-k3y-k3y".to_owned()));
    config.headers = vec![
        ("X-Key".into(), Template::parse("${KEY}").unwrap()),
        ("X-Other".into(), Template::verbatim("0ther-0ther")),
    ];
    let there = connected(config).await;
    let error = ask(&*there.link, 1, "ping", &json!({})).await.unwrap_err();
    let told = format!("{error:?} {}", error.explain());
    assert!(
        told.contains("HTTP status 403") && told.contains("x-key"),
        "{told}"
    );
    for secret in ["t0ken", "k3y", "0ther-"] {
        assert!(!told.contains(secret), "{told}");
    }
    drop(empty(200));
}

#[tokio::test]
async fn secret_at_the_cut_of_a_long_answer_is_not_shown_in_part() {
    const TOKEN: &str = "Zt-9f8e7d6c5b4a39281706f5e4d3c2b1a0";
    let server = Scripted::new(|seen| async move {
        let Some((kind, before)) = seen.rpc().split_once('-') else {
            return empty(405);
        };
        let before = "x".repeat(before.parse().unwrap());
        let text = before + &format!(" {TOKEN}").repeat(200);
        match kind {
            "status" => with(500, &[("content-type", "text/plain")], &text),
            "text" => with(200, &[("content-type", "text/plain")], &text),
            "garbage" => with(200, &[("content-type", "application/json")], &text),
            _ => json_of(
                200,
                &json!({"jsonrpc": "2.0", "id": "other", "result": text}),
            ),
        }
    });
    let server = server.await;
    let mut config = server.config("/mcp");
    config.auth = Auth::Bearer(Template::verbatim(TOKEN));
    let there = connected(config).await;
    for kind in ["status", "text", "garbage", "other"] {
        for before in (0..TOKEN.len()).chain(480..512) {
            let method = format!("{kind}-{before}");
            let error = ask(&*there.link, 1, &method, &json!({})).await.unwrap_err();
            let told = format!("{error:?} {}", error.explain());
            assert!(before > 400 || told.contains("***"), "{method}: {told}");
            assert!(!told.contains("Zt-"), "{method}: {told}");
        }
    }
}
