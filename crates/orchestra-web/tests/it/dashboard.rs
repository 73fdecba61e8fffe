//! The dashboard: its page, its login, and what it is told.

use std::sync::{Arc, Mutex};

use futures_util::stream;
use orchestra_hub::{Audit, AuditConfig, BoxFuture, Hub, HubConfig, Provider};
use orchestra_mcp::{
    Server,
    http::{Access, AccessRules, HttpOptions, Limits, serve},
};
use orchestra_web::{
    app_with_dashboard,
    dashboard::{Act, LogFrom, NotDone, NotShown, Servers, Shown, Source, Tell, Telling},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch, time::timeout};

use crate::{
    site::{Answer, Client, Events, PATIENCE},
    toys::toys,
};

/// A workspace that tells what a test tells it to.
#[derive(Default)]
struct Toy {
    tell: Mutex<Option<Tell>>,
}

impl Source for Toy {
    fn workspace(&self) -> String {
        "/toy".to_owned()
    }

    fn projects(&self) -> BoxFuture<Shown> {
        Box::pin(async { Ok(json!({"projects": []}).to_string()) })
    }

    fn board(&self, project: String) -> BoxFuture<Shown> {
        Box::pin(async move {
            match project.as_str() {
                "toy" => Ok(json!({"cards": [{"id": "T-1"}]}).to_string()),
                other => Err(NotShown::Unknown(format!("there is no project {other}"))),
            }
        })
    }

    fn plans(&self) -> BoxFuture<Shown> {
        Box::pin(async { Err(NotShown::Unreadable("the disk is gone".to_owned())) })
    }

    fn plan(&self, _: String) -> BoxFuture<Shown> {
        Box::pin(async { Ok("{}".to_owned()) })
    }

    fn agree(&self, agent: String, seen: String) -> BoxFuture<Result<String, NotDone>> {
        Box::pin(async move {
            match seen.as_str() {
                "0123" => Ok(format!("{agent} is approved")),
                _ => Err(NotDone::Refused("look at it again".to_owned())),
            }
        })
    }

    fn diff(&self, _: String, job: String) -> BoxFuture<Shown> {
        Box::pin(async move {
            Ok(json!({"text": format!("{job} changed"), "truncated": false}).to_string())
        })
    }

    fn log(
        &self,
        plan: String,
        job: String,
        from: LogFrom,
    ) -> BoxFuture<Result<Telling, NotShown>> {
        Box::pin(async move {
            if job != "build" {
                return Err(NotShown::Unknown(format!("there is no job {job}")));
            }
            let asked = json!({"plan": plan, "attempt": from.attempt, "phase": from.phase, "after": from.after});
            let told = vec![("line", asked.to_string()), ("end", "{}".to_owned())];
            Ok(Box::pin(stream::iter(told)) as Telling)
        })
    }

    fn usage(&self, from: Option<String>, to: Option<String>) -> BoxFuture<Shown> {
        Box::pin(async move { Ok(json!({"from": from, "to": to}).to_string()) })
    }

    fn servers(&self) -> Arc<dyn Servers> {
        Arc::new(ToyServers)
    }

    fn follow(&self, tell: Tell) -> BoxFuture<()> {
        *self.tell.lock().unwrap() = Some(tell);
        Box::pin(std::future::pending())
    }
}

/// One server, `files`.
struct ToyServers;

impl Servers for ToyServers {
    fn act(&self, name: String, act: Act) -> BoxFuture<Result<String, NotDone>> {
        Box::pin(async move {
            match (name.as_str(), act) {
                ("files", Act::Approve { seen }) if seen != "right" => {
                    Err(NotDone::Refused("look at it again".to_owned()))
                }
                ("files", act) => Ok(format!("{act:?}")),
                (name, _) => Err(NotDone::Unknown(format!("there is no server {name}"))),
            }
        })
    }

    fn definition(&self, name: String) -> BoxFuture<Shown> {
        Box::pin(async move { Ok(json!({"name": name}).to_string()) })
    }

    fn log(&self, _: String, lines: usize) -> BoxFuture<Shown> {
        Box::pin(async move { Ok(json!({"lines": [lines.to_string()]}).to_string()) })
    }

    fn follow_log(&self, _: String) -> BoxFuture<Result<Telling, NotShown>> {
        let line = ("line", json!({"text": "hello"}).to_string());
        Box::pin(async { Ok(Box::pin(stream::iter([line])) as Telling) })
    }

    fn traffic(&self) -> Telling {
        let passed = ("message", json!({"n": 1}).to_string());
        Box::pin(stream::iter([passed]))
    }
}

struct Dashboard {
    address: std::net::SocketAddr,
    toy: Arc<Toy>,
    stop: watch::Sender<bool>,
    _serving: watch::Sender<bool>,
}

impl Dashboard {
    async fn new(access: Access) -> Self {
        Self::with(access, HubConfig::default()).await
    }

    async fn with(access: Access, config: HubConfig) -> Self {
        let hub = Hub::new(config);
        hub.register(toys() as Arc<dyn Provider>).unwrap();
        let server = Server::builder(hub, "toys").version("9.8.7").build();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let options = HttpOptions {
            access,
            stop: Some(stopped),
            ..HttpOptions::default()
        };
        let toy = Arc::new(Toy::default());
        let app = app_with_dashboard(&server, options, Arc::clone(&toy) as Arc<dyn Source>);
        let (serving, ends) = watch::channel(false);
        tokio::spawn(serve(listener, app, ends, Limits::default()));
        Self {
            address,
            toy,
            stop,
            _serving: serving,
        }
    }

    async fn send(&self, target: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut client = Client::connect(self.address).await;
        client.send(target, headers, body).await
    }

    async fn events(&self, headers: &[(&str, &str)]) -> Events {
        self.stream("GET /api/events", headers).await
    }

    async fn stream(&self, target: &str, headers: &[(&str, &str)]) -> Events {
        let mut client = Client::connect(self.address).await;
        client.write(target, headers, "").await;
        let (status, head) = client.head().await;
        assert_eq!(status, 200, "{head}");
        assert!(head.contains("content-type: text/event-stream"), "{head}");
        Events::of(client)
    }

    fn tell(&self, kind: &'static str, data: &Value) {
        let tell = self.toy.tell.lock().unwrap().clone().unwrap();
        tell(kind, data.to_string());
    }
}

#[tokio::test]
async fn the_page_runs_nothing_but_what_is_served_with_it() {
    let site = Dashboard::new(Access::default()).await;
    let home = site.send("GET /", &[], "").await;
    assert_eq!(
        (home.status, home.header("location")),
        (307, Some("/board"))
    );
    for path in ["GET /board", "GET /board/some/thing"] {
        let page = site.send(path, &[], "").await;
        assert_eq!(page.status, 200, "{path}");
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"));
        assert!(!policy.contains("unsafe"), "{policy}");
        let text = String::from_utf8(page.body).unwrap();
        let (_, script) = text.split_once(r#"<script type="module" src=""#).unwrap();
        let (script, _) = script.split_once('"').unwrap();
        assert_eq!(text.matches("<script").count(), 1, "{text}");
        let script = site.send(&format!("GET {script}"), &[], "").await;
        assert_eq!(script.status, 200);
        assert!(
            script
                .header("content-type")
                .unwrap()
                .starts_with("text/javascript")
        );
    }
    // A person is shown a page where there is nothing, a program is told so.
    let lost = site
        .send("GET /nosuch", &[("accept", "text/html,*/*;q=0.8")], "")
        .await;
    let kind = lost.header("content-type").unwrap();
    assert_eq!((lost.status, kind), (404, "text/html; charset=utf-8"));
    for (path, accepts) in [
        ("GET /nosuch", "*/*"),
        ("GET /api/nosuch", "text/html"),
        ("POST /nosuch", "text/html"),
    ] {
        let told = site.send(path, &[("accept", accepts)], "").await;
        let kind = told.header("content-type").unwrap();
        assert!(
            told.status == 404 && kind.contains("json"),
            "{path}: {kind}"
        );
    }
    for path in ["GET /assets/x/nothing.js", "GET /assets/x/../Cargo.toml"] {
        assert_eq!(site.send(path, &[], "").await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn the_document_has_the_routes_of_the_dashboard_and_tells_their_methods() {
    let site = Dashboard::new(Access::default()).await;
    let document = site.send("GET /api/openapi.json", &[], "").await.json();
    let paths = document["paths"].as_object().unwrap();
    let of_dashboard = [
        ("/api/agents/{agent}/approve", "POST"),
        ("/api/board", "GET"),
        ("/api/board/{project}", "GET"),
        ("/api/events", "GET"),
        ("/api/login", "POST"),
        ("/api/logout", "POST"),
        ("/api/plans", "GET or POST"),
        ("/api/plans/{plan}", "DELETE or GET or PATCH"),
        ("/api/plans/{plan}/graph", "GET"),
        ("/api/plans/{plan}/jobs", "GET or POST"),
        ("/api/plans/{plan}/jobs/{job}", "GET or PATCH"),
        ("/api/plans/{plan}/jobs/{job}/attempts", "GET"),
        ("/api/plans/{plan}/jobs/{job}/diff", "GET"),
        ("/api/plans/{plan}/jobs/{job}/failure", "GET"),
        ("/api/plans/{plan}/jobs/{job}/log", "GET"),
        ("/api/plans/{plan}/jobs/{job}/logs", "GET"),
        ("/api/plans/{plan}/jobs/{job}/{verb}", "POST"),
        ("/api/plans/{plan}/summary", "GET"),
        ("/api/plans/{plan}/{verb}", "POST"),
        ("/api/servers/{name}/definition", "GET"),
        ("/api/servers/{name}/log", "GET"),
        ("/api/servers/{name}/log/follow", "GET"),
        ("/api/servers/{name}/{act}", "POST"),
        ("/api/traffic", "GET"),
        ("/api/usage", "GET"),
    ];
    let of_rest = [
        "/api/mcp/",
        "/api/openapi.json",
        "/health",
        "/metrics",
        "/ready",
    ];
    let described = paths.keys().map(String::as_str);
    let described = described.filter(|path| !of_rest.iter().any(|rest| path.starts_with(rest)));
    let mut described: Vec<&str> = described.collect();
    described.sort_unstable();
    assert_eq!(described, of_dashboard.map(|(path, _)| path));
    for (path, methods) in of_dashboard {
        let mut known: Vec<&str> = methods.split(" or ").collect();
        let there = paths[path].as_object().unwrap().keys();
        let mut there: Vec<String> = there.map(|method| method.to_uppercase()).collect();
        known.sort_unstable();
        there.sort_unstable();
        assert_eq!(there, known, "{path}");
        let answer = site.send(&format!("OPTIONS {path}"), &[], "").await;
        assert_eq!(answer.status, 405, "{path}");
        let text = answer.json()["error"].as_str().unwrap().to_owned();
        let (_, told) = text.split_once("; use ").unwrap();
        let mut told: Vec<&str> = told.split(" or ").collect();
        told.sort_unstable();
        assert_eq!(told, known, "{path}");
    }
    // What cannot be understood is refused as the document says, and in words.
    for (target, status) in [
        ("GET /api/servers/files/log?lines=many", 400),
        ("GET /api/board/%ff", 400),
        ("POST /api/login", 415),
    ] {
        let answer = site.send(target, &[], "").await;
        assert_eq!(answer.status, status, "{target}");
        assert!(answer.json()["error"].is_string(), "{target}");
    }
}

#[tokio::test]
async fn what_is_shown_says_up_to_which_event_it_is() {
    let site = Dashboard::new(Access::default()).await;
    let shown = site.send("GET /api/board/toy", &[], "").await;
    assert_eq!(shown.json(), json!({"at": 0, "cards": [{"id": "T-1"}]}));
    let mut events = site.events(&[]).await;
    assert_eq!(events.message().await["workspace"], "/toy");
    site.tell("cards", &json!({"n": 1}));
    assert_eq!(events.message().await, json!({"n": 1}));
    let shown = site.send("GET /api/board", &[], "").await;
    assert_eq!(shown.json(), json!({"at": 1, "projects": []}));
    let unknown = site.send("GET /api/board/other", &[], "").await;
    assert_eq!(unknown.status, 404);
    assert_eq!(
        unknown.json(),
        json!({"error": "there is no project other"})
    );
    assert_eq!(site.send("GET /api/plans", &[], "").await.status, 502);
}

#[tokio::test]
async fn a_viewer_goes_on_where_its_connection_broke() {
    let site = Dashboard::new(Access::default()).await;
    let mut events = site.events(&[]).await;
    let hello = events.message().await;
    assert_eq!(hello["missed"], false);
    let boot = hello["boot"].as_str().unwrap().to_owned();
    for n in 1..=3 {
        site.tell("cards", &json!({"n": n}));
        assert_eq!(events.message().await["n"], n);
    }
    drop(events);
    site.tell("gone", &json!({"n": 4}));
    let seen = format!("{boot}-2");
    let mut events = site.events(&[("Last-Event-ID", &seen)]).await;
    assert_eq!(events.message().await["missed"], false);
    assert_eq!(events.message().await["n"], 3);
    assert_eq!(events.message().await["n"], 4);
    for strange in ["other-2", &format!("{boot}-99"), "nonsense"] {
        let mut events = site.events(&[("Last-Event-ID", strange)]).await;
        assert_eq!(events.message().await["missed"], true, "{strange}");
    }
}

#[tokio::test]
async fn a_line_break_ends_no_event_and_the_end_of_the_program_ends_the_stream() {
    let site = Dashboard::new(Access::default()).await;
    let mut events = site.events(&[]).await;
    events.message().await;
    let tell = site.toy.tell.lock().unwrap().clone().unwrap();
    tell("cards", "{\"a\":1,\n\n\"b\":2}".to_owned());
    assert_eq!(events.message().await, json!({"a": 1, "b": 2}));
    site.stop.send(true).unwrap();
    events.end().await;
}

#[tokio::test]
async fn a_browser_logs_in_with_a_token() {
    const TOKEN: &str = "0123456789abcdef";
    let access = Access::new(AccessRules {
        tokens: vec![TOKEN.parse().unwrap()],
        ..AccessRules::default()
    });
    let site = Dashboard::new(access).await;
    // The page says nothing of the workspace, and asks for the rest.
    let page = site.send("GET /board/toy", &[], "").await;
    assert_eq!(page.status, 200);
    assert!(String::from_utf8(page.body).unwrap().contains("Log out"));
    for path in ["GET /api/board", "GET /api/events", "GET /api/plans/x"] {
        assert_eq!(site.send(path, &[], "").await.status, 401, "{path}");
    }
    let json = [("Content-Type", "application/json")];
    let wrong = json!({"token": "fedcba9876543210"}).to_string();
    assert_eq!(
        site.send("POST /api/login", &json, &wrong).await.status,
        401
    );
    let right = json!({"token": TOKEN}).to_string();
    let answer = site.send("POST /api/login", &json, &right).await;
    assert_eq!(answer.status, 204);
    let cookie = answer.header("set-cookie").unwrap();
    assert!(
        cookie.contains("httponly; samesite=strict") && !cookie.contains(TOKEN),
        "{cookie}"
    );
    let cookie = cookie.split(';').next().unwrap();
    let shown = site.send("GET /api/board", &[("Cookie", cookie)], "").await;
    assert_eq!(shown.status, 200);
    // A page of somebody else does nothing with it.
    let foreign = [("Cookie", cookie), ("Origin", "http://evil.example")];
    assert_eq!(site.send("GET /api/board", &foreign, "").await.status, 403);
    let answer = site
        .send("POST /api/logout", &[("Cookie", cookie)], "")
        .await;
    assert!(answer.header("set-cookie").unwrap().contains("max-age=0"));
}

#[tokio::test]
async fn the_log_of_a_job_is_told_until_it_ends() {
    let site = Dashboard::new(Access::default()).await;
    // Names without values ask for what is usual.
    for (query, asked) in [
        (
            "attempt=2&phase=work&after=7",
            json!({"plan": "p", "attempt": 2, "phase": "work", "after": 7}),
        ),
        (
            "attempt=&phase=&after=",
            json!({"plan": "p", "attempt": null, "phase": null, "after": null}),
        ),
    ] {
        let target = format!("GET /api/plans/p/jobs/build/log?{query}");
        let mut events = site.stream(&target, &[]).await;
        assert_eq!(events.message().await, asked);
        assert_eq!(events.message().await, json!({}));
        events.end().await;
    }
    for (target, status) in [
        ("GET /api/plans/p/jobs/none/log", 404),
        ("GET /api/plans/p/jobs/build/log?attempt=x", 400),
        ("GET /api/plans/p/jobs/build/log?after=-1", 400),
    ] {
        assert_eq!(site.send(target, &[], "").await.status, status, "{target}");
    }
    let diff = site.send("GET /api/plans/p/jobs/build/diff", &[], "").await;
    let shown = json!({"at": 0, "text": "build changed", "truncated": false});
    assert_eq!(diff.json(), shown);
}

#[tokio::test(flavor = "multi_thread")]
async fn actions_on_servers_and_agents_are_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.jsonl");
    let config = HubConfig {
        audit: Some(Audit::open(AuditConfig::new(&path)).unwrap()),
        ..HubConfig::default()
    };
    let site = Dashboard::with(Access::default(), config).await;
    let headers = [
        ("content-type", "application/json"),
        ("user-agent", "a browser"),
    ];
    let actions = [
        (
            "servers/files/restart",
            "{}",
            "restart server files",
            "answered",
        ),
        (
            "servers/files/disable",
            "{}",
            "disable server files",
            "answered",
        ),
        (
            "servers/files/enable",
            "{}",
            "enable server files",
            "answered",
        ),
        ("servers/none/enable", "{}", "enable server none", "unknown"),
        (
            "servers/files/approve",
            r#"{"fingerprint": "right"}"#,
            "approve server files",
            "answered",
        ),
        (
            "servers/files/approve",
            r#"{"fingerprint": "other"}"#,
            "approve server files",
            "denied",
        ),
        (
            "agents/fixer/approve",
            r#"{"fingerprint": "0123"}"#,
            "approve agent fixer",
            "answered",
        ),
        (
            "agents/fixer/approve",
            r#"{"fingerprint": "4567"}"#,
            "approve agent fixer",
            "denied",
        ),
    ];
    for (path, body, ..) in actions {
        site.send(&format!("POST /api/{path}"), &headers, body)
            .await;
    }
    let recorded = async || {
        loop {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            if text.lines().count() == actions.len() {
                return text;
            }
            tokio::task::yield_now().await;
        }
    };
    let text = timeout(PATIENCE, recorded())
        .await
        .expect("all are recorded");
    for (line, (.., name, outcome)) in text.lines().zip(actions) {
        let record: Value = serde_json::from_str(line).unwrap();
        let told = ["face", "client", "kind", "name", "outcome"].map(|key| record[key].as_str());
        let expected = ["rest", "a browser", "action", name, outcome];
        assert_eq!(told, expected.map(Some), "{line}");
    }
}

#[tokio::test]
async fn what_is_done_with_a_server_is_asked_for_exactly() {
    let site = Dashboard::new(Access::default()).await;
    let kind: &[(&str, &str)] = &[("content-type", "application/json")];
    for (verb, body, status, told) in [
        ("restart", "{}", 200, "Restart"),
        ("enable", "{}", 200, "Enable"),
        ("disable", "{}", 200, "Disable"),
        ("approve", r#"{"fingerprint": "right"}"#, 200, "right"),
        // What was not looked at is not approved.
        (
            "approve",
            r#"{"fingerprint": "other"}"#,
            403,
            "look at it again",
        ),
        ("approve", "{}", 400, "fingerprint"),
        (
            "restart",
            r#"{"fingerprint": "right"}"#,
            400,
            "only for approvals",
        ),
        ("restart", r#"{"more": 1}"#, 400, "more"),
        ("remove", "{}", 404, "allowed are `restart`"),
    ] {
        let target = format!("POST /api/servers/files/{verb}");
        let answer = site.send(&target, kind, body).await;
        let text = String::from_utf8(answer.body).unwrap();
        assert_eq!(answer.status, status, "{verb} {body}: {text}");
        assert!(text.contains(told), "{verb} {body}: {text}");
    }
    let unknown = site
        .send("POST /api/servers/none/restart", kind, "{}")
        .await;
    assert_eq!(unknown.status, 404);
    // A form of another page cannot send it.
    let form = [("content-type", "text/plain")];
    let refused = site
        .send("POST /api/servers/files/restart", &form, "{}")
        .await;
    assert_eq!(refused.status, 415);
    let usage = site
        .send("GET /api/usage?from=2026-02-14&to=", &[], "")
        .await;
    assert_eq!(
        (&usage.json()["from"], &usage.json()["to"]),
        (&json!("2026-02-14"), &Value::Null)
    );
    let log = site
        .send("GET /api/servers/files/log?lines=99999", &[], "")
        .await;
    assert_eq!(log.json()["lines"], json!(["5000"]));
    for (target, told) in [
        (
            "GET /api/servers/files/log/follow",
            json!({"text": "hello"}),
        ),
        ("GET /api/traffic", json!({"n": 1})),
    ] {
        let mut events = site.stream(target, &[]).await;
        assert_eq!(events.message().await, told);
        events.end().await;
    }
}
