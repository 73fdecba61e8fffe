//! `orchestra mcp login` and `logout`: a person comes back from a sign-in.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    thread,
};

use serde_json::{Value, json};

use crate::support::{Workspace, said};

/// A server that lets nobody in, and its authorization server, for as long as the test runs.
fn realm() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = format!("http://{}", listener.local_addr().unwrap());
    let said = at.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            answer(stream.unwrap(), &said);
        }
    });
    at
}

fn answer(mut stream: TcpStream, at: &str) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut first, mut length, mut authorization) = (String::new(), 0, String::new());
    reader.read_line(&mut first).unwrap();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim().split_once(": ") else {
            break;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.parse().unwrap();
        }
        if name.eq_ignore_ascii_case("authorization") {
            value.clone_into(&mut authorization);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let (status, document) = match first.split(' ').nth(1).unwrap() {
        "/.well-known/oauth-protected-resource/mcp" => (
            "200 OK",
            json!({"resource": format!("{at}/mcp"), "authorization_servers": [at]}),
        ),
        "/.well-known/oauth-authorization-server" => (
            "200 OK",
            json!({
                "issuer": at,
                "authorization_endpoint": format!("{at}/authorize"),
                "token_endpoint": format!("{at}/token"),
                "registration_endpoint": format!("{at}/register"),
                "revocation_endpoint": format!("{at}/revoke"),
                "code_challenge_methods_supported": ["S256"],
            }),
        ),
        "/register" => ("201 Created", json!({"client_id": "me"})),
        "/token" => (
            "200 OK",
            json!({"access_token": "t0ken-t0ken", "token_type": "Bearer"}),
        ),
        "/revoke" => match String::from_utf8(body).unwrap() {
            body if body.contains("token=t0ken-t0ken") && body.contains("client_id=me") => {
                ("200 OK", Value::Null)
            }
            body => panic!("{body}"),
        },
        // It speaks the session era, to whoever has a token.
        "/mcp" if authorization == "Bearer t0ken-t0ken" => {
            let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
            match asked["method"].as_str() {
                Some("initialize") => (
                    "200 OK",
                    json!({"jsonrpc": "2.0", "id": asked["id"], "result": {
                        "protocolVersion": "2025-11-25", "capabilities": {},
                        "serverInfo": {"name": "guarded", "version": "1"},
                    }}),
                ),
                Some("ping") => (
                    "200 OK",
                    json!({"jsonrpc": "2.0", "id": asked["id"], "result": {}}),
                ),
                Some("notifications/initialized") => ("202 Accepted", Value::Null),
                _ => ("400 Bad Request", Value::Null),
            }
        }
        "/mcp" => ("401 Unauthorized", Value::Null),
        _ => ("404 Not Found", Value::Null),
    };
    let document = document.to_string();
    let length = document.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{document}"
    )
    .unwrap();
}

/// What a person does who agrees: comes back with a code.
fn agree(sign_in: &str) {
    let query = sign_in.split_once('?').unwrap().1;
    let value = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).unwrap().1
    };
    let back = value("redirect_uri")
        .replace("%3A", ":")
        .replace("%2F", "/");
    let (address, path) = back
        .strip_prefix("http://")
        .unwrap()
        .split_once('/')
        .unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let state = value("state");
    write!(
        stream,
        "GET /{path}?code=c&state={state} HTTP/1.1\r\nHost: x\r\n\r\n"
    )
    .unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    assert!(page.contains("Signed in"), "{page}");
}

fn kept(workspace: &Workspace) -> Vec<PathBuf> {
    let directory = workspace.home().join(".local/state/orchestra/tokens");
    let files = fs::read_dir(directory)
        .unwrap()
        .map(|file| file.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        .collect()
}

#[test]
fn a_person_signs_in_and_out() {
    let workspace = Workspace::new();
    let servers = json!({"mcpServers": {
        "there": {"url": format!("{}/mcp", realm())},
        "child": {"command": "true"},
    }});
    workspace.write("mine.json", &servers.to_string());
    let with = |words: [&str; 3]| {
        let mut all = vec!["--mcp-config", "mine.json"];
        all.extend(&words[1..]);
        all.insert(0, words[0]);
        workspace.command(all)
    };
    let mut child = with(["mcp", "login", "there"]).spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let sign_in = loop {
        let mut line = String::new();
        assert!(
            told.read_line(&mut line).unwrap() > 0,
            "no place to sign in"
        );
        if let Some(at) = line.find("http://") {
            break line[at..].trim().to_owned();
        }
    };
    agree(&sign_in);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(out, "there: signed in\n");
    let files = kept(&workspace);
    assert_eq!(files.len(), 1);
    let mode = fs::metadata(&files[0]).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(
        fs::read_to_string(&files[0])
            .unwrap()
            .contains("t0ken-t0ken")
    );

    // From now on it lets us in, and what lets us in is shown nowhere.
    let tested = said(with(["mcp", "test", "there"]), "");
    assert_eq!(tested.code, Some(0), "{tested:?}");
    assert!(tested.out.contains("guarded"), "{tested:?}");
    assert!(!format!("{tested:?}").contains("t0ken"), "{tested:?}");

    let gone = said(with(["mcp", "logout", "there"]), "");
    assert_eq!(
        gone.out, "there: signed out; its tokens were taken back\n",
        "{gone:?}"
    );
    assert!(kept(&workspace).is_empty());
    let tested = said(with(["mcp", "test", "there"]), "");
    assert_eq!(tested.code, Some(5), "{tested:?}");
    assert!(
        tested.out.contains("orchestra mcp login there"),
        "{tested:?}"
    );
    let again = said(with(["mcp", "logout", "there"]), "");
    assert_eq!(again.out, "there: nobody was signed in\n", "{again:?}");
    let refused = said(with(["mcp", "login", "child"]), "");
    assert!(
        refused.err.contains("the server is a process"),
        "{refused:?}"
    );
}
