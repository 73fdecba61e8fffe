//! Rows of docs/security.md that no other module holds: pages of other origins in a browser, and relative directories
//! in variables of the environment, which would be directories of the workspace.

use std::{env, fs, os::unix::fs::PermissionsExt as _};

use serde_json::{Value, json};

use crate::support::{Answer, Running, Workspace, get, http, post_to, said, until};

/// Methods of HTTP, as an OpenAPI document names them.
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// Routes that the OpenAPI document leaves out.
const OTHERS: [(&str, &str); 6] = [
    ("GET", "/"),
    ("GET", "/board"),
    ("GET", "/assets/x/app.js"),
    ("GET", "/mcp"),
    ("POST", "/mcp"),
    ("DELETE", "/mcp"),
];

/// A running `up` and its address.
fn up(workspace: &Workspace) -> (Running, String) {
    let process = Running::start(workspace.command(["up", "--http", "127.0.0.1:0", "--json"]));
    let ready = process.json();
    let address = ready["http"].as_str().unwrap().strip_prefix("http://");
    let address = address.unwrap().to_owned();
    (process, address)
}

/// Every route, with `x` in the place of each parameter.
fn routes(address: &str) -> Vec<(String, String)> {
    let document = get(address, "/api/openapi.json").json();
    let mut routes = OTHERS
        .map(|(method, path)| (method.to_owned(), path.to_owned()))
        .to_vec();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let parts = path.split('/');
        let parts = parts.map(|part| if part.starts_with('{') { "x" } else { part });
        let path = parts.collect::<Vec<_>>().join("/");
        let methods = methods.as_object().unwrap().keys();
        let methods = methods.filter(|method| METHODS.contains(&method.as_str()));
        routes.extend(methods.map(|method| (method.to_ascii_uppercase(), path.clone())));
    }
    assert!(routes.len() > 40, "{routes:?}");
    routes
}

/// Sends a request with these headers and nothing else.
fn send(address: &str, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request =
        format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: 0\r\n");
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str("\r\n");
    http(address, request.as_bytes())
}

#[test]
fn page_of_another_origin_reaches_no_route() {
    let workspace = Workspace::git();
    let (_process, address) = up(&workspace);
    for (method, path) in routes(&address) {
        for origin in ["http://evil.example", "null", "http://localhost:1"] {
            let site = ("Sec-Fetch-Site", "same-site");
            let headers = [("Host", address.as_str()), ("Origin", origin), site];
            let answer = send(&address, &method, &path, &headers);
            assert_eq!(answer.status, 403, "{method} {path}: {answer:?}");
        }
    }
}

#[test]
fn page_of_another_site_reaches_no_route_without_an_origin() {
    let workspace = Workspace::git();
    let (_process, address) = up(&workspace);
    let host = ("Host", address.as_str());
    let of = |site, mode, dest| {
        let fetch = [
            ("Sec-Fetch-Site", site),
            ("Sec-Fetch-Mode", mode),
            ("Sec-Fetch-Dest", dest),
        ];
        [&[host][..], &fetch].concat()
    };
    for (method, path) in routes(&address) {
        for site in ["cross-site", "same-site"] {
            let answer = send(&address, &method, &path, &of(site, "no-cors", "image"));
            assert_eq!(answer.status, 403, "{method} {path} {site}: {answer:?}");
        }
        let answer = send(
            &address,
            &method,
            &path,
            &of("cross-site", "navigate", "iframe"),
        );
        assert_eq!(answer.status, 403, "{method} {path}: {answer:?}");
    }
    // A link of another page leads to the pages of the dashboard, and to nothing that asks for a token.
    for (path, status) in [
        ("/", 307),
        ("/board", 200),
        ("/api/board", 403),
        ("/metrics", 403),
    ] {
        let answer = send(
            &address,
            "GET",
            path,
            &of("cross-site", "navigate", "document"),
        );
        assert_eq!(answer.status, status, "{path}: {answer:?}");
    }
    for site in ["same-origin", "none"] {
        let answer = send(&address, "GET", "/api/board", &of(site, "cors", "empty"));
        assert_eq!(answer.status, 200, "{site}: {answer:?}");
    }
}

#[test]
fn name_of_another_host_reaches_no_route() {
    let workspace = Workspace::git();
    let (_process, address) = up(&workspace);
    for (method, path) in routes(&address) {
        let answer = send(&address, &method, &path, &[("Host", "evil.example")]);
        assert_eq!(answer.status, 403, "{method} {path}: {answer:?}");
    }
}

#[test]
fn page_of_another_port_continues_no_plan() {
    let workspace = Workspace::git();
    for arguments in [
        &["config", "user.name", "A"][..],
        &["config", "user.email", "a@b.c"],
        &["commit", "--quiet", "--allow-empty", "-m", "Begin"],
    ] {
        let mut git = std::process::Command::new("git");
        let status = git.args(arguments).current_dir(workspace.path()).status();
        assert!(status.unwrap().success());
    }
    let (_process, address) = up(&workspace);
    let plan = json!({"name": "waits", "jobs": [
        {"producerId": "one", "task": "Nothing", "work": "true", "expectsNoChanges": true},
    ]});
    let created = post_to(&address, "/api/plans", &[], &plan.to_string());
    assert_eq!(created.status, 200, "{created:?}");
    let resume = "/api/plans/waits/resume";
    let page = [("Host", address.as_str()), ("Origin", "http://localhost:1")];
    for kind in [
        None,
        Some("text/plain"),
        Some("application/x-www-form-urlencoded"),
        Some("application/json"),
    ] {
        let kind = kind.map(|kind| ("Content-Type", kind));
        let headers: Vec<_> = page.into_iter().chain(kind).collect();
        let answer = send(&address, "POST", resume, &headers);
        assert_eq!(answer.status, 403, "{kind:?}: {answer:?}");
    }
    // A browser asks before its page sends JSON, and is not answered that it may.
    let asks = [
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "content-type"),
    ];
    let headers: Vec<_> = page.into_iter().chain(asks).collect();
    let preflight = send(&address, "OPTIONS", resume, &headers);
    assert_eq!(
        preflight.header("access-control-allow-origin"),
        None,
        "{preflight:?}"
    );
    let shown = || get(&address, "/api/plans/waits").json()["plan"].clone();
    assert_ne!(shown()["paused"], Value::Null);
    let own = format!("http://{address}");
    let headers = [("Host", address.as_str()), ("Origin", own.as_str())];
    let answer = send(&address, "POST", resume, &headers);
    assert_eq!(answer.status, 200, "the page of the dashboard: {answer:?}");
    until(|| (shown()["status"] == "succeeded").then_some(()));
}

#[test]
fn dashboard_is_shown_in_no_frame() {
    let workspace = Workspace::git();
    let (_process, address) = up(&workspace);
    let page = get(&address, "/board");
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
}

#[test]
fn relative_directories_of_the_environment_are_ignored() {
    let workspace = Workspace::board();
    let server = json!({"mcpServers": {"planted": {"command": "true"}}});
    workspace.write("orchestra/mcp.json", &server.to_string());
    let mut list = workspace.command(["mcp", "list"]);
    list.env("XDG_CONFIG_HOME", ".");
    let listed = said(list, "");
    assert_eq!(listed.code, Some(0), "{listed:?}");
    assert!(!listed.out.contains("planted"), "{listed:?}");
    let mut token = workspace.command(["token"]);
    token.env("XDG_STATE_HOME", "state");
    let printed = said(token, "");
    assert_eq!(printed.code, Some(0), "{printed:?}");
    assert!(!workspace.join("state").exists());
    assert!(
        workspace
            .home()
            .join(".local/state/orchestra/token")
            .exists()
    );
    for words in [&["token"][..], &["mcp", "list"]] {
        let mut command = workspace.command(words);
        command.env("HOME", ".");
        let refused = said(command, "");
        assert_ne!(refused.code, Some(0), "{refused:?}");
        assert!(
            refused.err.contains("set HOME or XDG_STATE_HOME"),
            "{refused:?}"
        );
        assert!(!workspace.join(".local").exists(), "{words:?}");
    }
}

#[test]
fn program_of_a_relative_directory_of_the_path_is_not_started() {
    let workspace = Workspace::board();
    let started = workspace.home().join("started");
    workspace.write(
        "tools/helper",
        &format!("#!/bin/sh\n: > '{}'\n", started.display()),
    );
    let helper = fs::Permissions::from_mode(0o755);
    fs::set_permissions(workspace.join("tools/helper"), helper).unwrap();
    let own = workspace.home().join(".config/orchestra");
    fs::create_dir_all(&own).unwrap();
    let server = json!({"mcpServers": {"mine": {"command": "helper"}}});
    fs::write(own.join("mcp.json"), server.to_string()).unwrap();
    for relative in ["tools", "./tools"] {
        let mut test = workspace.command(["mcp", "test", "mine"]);
        test.env("PATH", format!("{relative}:{}", env::var("PATH").unwrap()));
        let tested = said(test, "");
        assert_ne!(tested.code, Some(0), "{tested:?}");
        assert!(!started.exists(), "{relative}: {tested:?}");
    }
}
