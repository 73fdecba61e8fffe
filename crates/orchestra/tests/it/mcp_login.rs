//! `orchestra mcp login` and `logout`: a person comes back from a sign-in.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    thread,
};

use serde_json::{Value, json};

use crate::{
    realm::{TOKEN, given, realm},
    support::{Workspace, said},
};

/// An authorization server that registers whoever asks, and gives everybody a token.
fn registering() -> String {
    realm(|asked| match asked.path.as_str() {
        "/register" => ("201 Created", json!({"client_id": "me"})),
        "/token" => given(),
        "/revoke" => {
            assert_eq!(asked.form["token"], TOKEN);
            assert_eq!(asked.form["client_id"], "me");
            ("200 OK", Value::Null)
        }
        path => panic!("{path}"),
    })
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

/// Runs a sign-in, to which a person agrees.
pub(crate) fn sign_in(mut login: std::process::Command) {
    let mut child = login.spawn().unwrap();
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
        "there": {"url": format!("{}/mcp", registering())},
        "child": {"command": "true"},
    }});
    workspace.write("mine.json", &servers.to_string());
    let with = |words: [&str; 3]| {
        let mut all = vec!["--mcp-config", "mine.json"];
        all.extend(&words[1..]);
        all.insert(0, words[0]);
        workspace.command(all)
    };
    sign_in(with(["mcp", "login", "there"]));
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
        gone.out, "there: signed out; its tokens were revoked\n",
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
    assert_eq!(again.out, "there: no sign-in was stored\n", "{again:?}");
    let refused = said(with(["mcp", "login", "child"]), "");
    assert!(
        refused.err.contains("is a process, and needs no sign-in"),
        "{refused:?}"
    );
}

/// A server that lets everybody in, and answers what it does not know with a page; where.
fn open_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut first = String::new();
            reader.read_line(&mut first).unwrap();
            let status = match first.contains(" /mcp ") {
                true => "405 Method Not Allowed",
                false => "404 Not Found",
            };
            let page = "<!DOCTYPE html><html><pre>Cannot do that</pre></html>";
            let length = page.len();
            // Whoever has gone does not read it.
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\
                 Connection: close\r\n\r\n{page}"
            );
            let _ = stream.shutdown(Shutdown::Write);
            let _ = reader.read_to_end(&mut Vec::new());
        }
    });
    at
}

#[test]
fn where_no_sign_in_is_asked_for_nobody_is_sent_to_one() {
    let workspace = Workspace::new();
    let servers = json!({"mcpServers": {
        "open": {"url": format!("{}/mcp", open_server())},
        "child": {"command": "true"},
        "far": {"url": "http://127.0.0.1:9/mcp"},
    }});
    workspace.write("mine.json", &servers.to_string());
    let login = |words: &[&str]| {
        let with = ["mcp", "--mcp-config", "mine.json", "login"].iter();
        workspace.run(with.chain(words))
    };
    let said = login(&["open"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert_eq!(said.err, "error: open does not require a sign-in\n");
    for (name, told) in [
        ("open", "open does not require a sign-in"),
        ("child", "child is a process, and needs no sign-in"),
    ] {
        let said = login(&[name, "--json"]);
        assert_eq!(said.code, Some(2), "{said:?}");
        let out: Value = serde_json::from_str(&said.out).unwrap();
        let expected = json!({"name": name, "result": "not signed in", "note": told});
        assert_eq!(out, expected, "{said:?}");
    }
    let said = login(&["far", "--json"]);
    assert_eq!(said.code, Some(4), "{said:?}");
    let out: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(out["error"]["code"], "unreachable", "{said:?}");
}

/// Reads the head of a request and refuses it with a status and header lines.
fn refuse(stream: TcpStream, status: &str, headers: &str) {
    let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
    let _ = lines.find(String::is_empty);
    // The client may have gone.
    let _ = write!(
        &stream,
        "HTTP/1.1 {status}\r\n{headers}Content-Length: 0\r\nConnection: close\r\n\r\n"
    );
    let _ = stream.shutdown(Shutdown::Write);
    let _ = (&stream).read_to_end(&mut Vec::new());
}

/// A server that asks for a sign-in and names metadata at another address; where.
fn pointing_server(metadata: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let header = format!("WWW-Authenticate: Bearer resource_metadata=\"{metadata}\"\r\n");
            refuse(stream.unwrap(), "401 Unauthorized", &header);
        }
    });
    at
}

#[test]
fn server_that_names_metadata_elsewhere_leads_there_only_during_a_sign_in() {
    let workspace = Workspace::new();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    other.set_nonblocking(true).unwrap();
    let metadata = format!("http://{}/metadata", other.local_addr().unwrap());
    let servers = json!({"mcpServers": {
        "there": {"url": format!("{}/mcp", pointing_server(metadata.clone()))},
    }});
    workspace.write("mine.json", &servers.to_string());
    let run = |words: &[&str]| {
        let words = ["mcp", "--mcp-config", "mine.json"].iter().chain(words);
        workspace.command(words)
    };
    let tested = said(run(&["test", "there"]), "");
    assert_eq!(tested.code, Some(5), "{tested:?}");
    let text = format!("{}{}", tested.out, tested.err);
    assert!(text.contains("orchestra mcp login there"), "{tested:?}");
    let connection = other.accept().map(drop);
    assert_eq!(
        connection.unwrap_err().kind(),
        std::io::ErrorKind::WouldBlock
    );

    other.set_nonblocking(false).unwrap();
    let login = thread::spawn({
        let login = run(&["login", "there"]);
        move || said(login, "")
    });
    refuse(other.accept().unwrap().0, "404 Not Found", "");
    let login = login.join().unwrap();
    assert_eq!(login.code, Some(5), "{login:?}");
    assert!(login.err.contains(&metadata), "{login:?}");
}

#[test]
fn program_that_prints_a_token_is_the_one_that_was_approved() {
    let workspace = Workspace::board();
    let far = json!({"url": "http://127.0.0.1:1/mcp", "auth": {"type": "command", "command": "./token.sh"}});
    workspace.write(
        ".mcp.json",
        &json!({"mcpServers": {"far": far}}).to_string(),
    );
    for directory in ["", "other/"] {
        let path = format!("{directory}token.sh");
        workspace.write(&path, "#!/bin/sh\nenv >\"$0.ran\"\necho abcdefgh\n");
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(workspace.join(&path), executable).unwrap();
    }
    let approved = workspace.run(["mcp", "approve", "far", "--yes"]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    let here = workspace.path().display().to_string();
    let mut test = workspace.command(["mcp", "test", "far", "--workspace", &here]);
    test.current_dir(workspace.join("other"))
        .env("SECRET", "s3cret");
    let tested = said(test, "");
    assert!(workspace.join("token.sh.ran").exists(), "{tested:?}");
    assert!(!workspace.join("other/token.sh.ran").exists(), "{tested:?}");
    let variables = workspace.read("token.sh.ran");
    assert!(variables.contains("HOME="), "{variables}");
    assert!(!variables.contains("SECRET"), "{variables}");
}
