//! `orchestra up` beyond this machine: tokens, names, origins and TLS.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    sync::Arc,
};

use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto::ring, pki_types::ServerName,
};

use crate::support::{PATIENCE, Running, Workspace, http, post, said, until};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn ping() -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string()
}

/// Writes a file for its owner, or for everybody.
fn file(workspace: &Workspace, name: &str, text: &str, mode: u32) {
    workspace.write(name, text);
    let permissions = fs::Permissions::from_mode(mode);
    fs::set_permissions(workspace.join(name), permissions).unwrap();
}

/// The port of where a running `up` says that it is.
fn port(ready: &Value) -> u16 {
    let http = ready["http"].as_str().unwrap();
    http.rsplit(':').next().unwrap().parse().unwrap()
}

#[test]
fn other_machines_are_let_in_by_a_token_and_a_name_alone() {
    let workspace = Workspace::git();
    file(&workspace, "token", &format!("# laptop\n{TOKEN}\n"), 0o600);
    file(&workspace, "open", TOKEN, 0o644);
    for (arguments, expected) in [
        (&["--allow-host", "box.example"][..], "--token-file"),
        (&["--token-file", "token"], "--allow-host"),
        (
            &["--token-file", "open", "--allow-host", "box.example"],
            "chmod o=",
        ),
        (
            &["--token-file", "none", "--allow-host", "box.example"],
            "cannot read none",
        ),
        (
            &["--token-file", "token", "--allow-host", "box.example:1"],
            "without a port",
        ),
        (
            &["--token-file", "token", "--allow-origin", "*"],
            "https://app.example",
        ),
    ] {
        let mut all = vec!["up", "--http", "0.0.0.0:0"];
        all.extend(arguments);
        let said = workspace.run(all);
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.err.contains(expected), "{said:?}");
        assert!(!said.err.contains(TOKEN), "{said:?}");
        assert!(!workspace.join(".projects").exists());
    }
    let mut command = workspace.command(["up", "--http", "0.0.0.0:0", "--json"]);
    command.args(["--token-file", "token", "--allow-host", "box.example"]);
    let process = Running::start(command);
    let ready = process.json();
    let (port, http) = (port(&ready), ready["http"].as_str().unwrap());
    assert_eq!(http, format!("http://box.example:{port}"));
    assert!(!ready.to_string().contains(TOKEN));
    let address = format!("127.0.0.1:{port}");
    let held = format!("Bearer {TOKEN}");
    for (headers, status) in [
        (&[("Host", "box.example")][..], 401),
        (
            &[("Host", "box.example"), ("Authorization", "Bearer wrong")],
            401,
        ),
        (&[("Host", "evil.example"), ("Authorization", &held)], 403),
        (&[("Host", "box.example"), ("Authorization", &held)], 200),
        (&[("Authorization", &held)], 200),
    ] {
        let answer = post(&address, headers, &ping());
        assert_eq!(answer.status, status, "{headers:?}: {answer:?}");
    }
    // The address is the same, whatever name it is told under.
    let same = format!("0.0.0.0:{port}");
    for (asked, complains) in [(same.as_str(), false), ("0.0.0.0:9", true)] {
        let mut again = vec!["up", "--http", asked];
        again.extend(["--token-file", "token", "--allow-host", "box.example"]);
        let said = workspace.run(again);
        assert_eq!(said.code, Some(0), "{said:?}");
        let moved = format!("--http {asked} was not used");
        assert_eq!(said.err.contains(&moved), complains, "{said:?}");
        for flag in ["--token-file", "--allow-host"] {
            let expected = format!("{flag} was not used; stop the running one first");
            assert!(said.err.contains(&expected), "{said:?}");
        }
        assert!(said.out.contains("$ORCHESTRA_TOKEN"), "{said:?}");
    }
    process.signal(Signal::TERM);
    assert!(process.end().success());
}

#[test]
fn token_that_is_removed_from_its_file_is_refused_without_a_restart() {
    const OTHER: &str = "fedcba9876543210fedcba9876543210";
    let workspace = Workspace::git();
    file(&workspace, "token", &format!("{TOKEN}\n{OTHER}\n"), 0o600);
    let mut command = workspace.command(["up", "--http", "127.0.0.1:0", "--json"]);
    command.args(["--token-file", "token"]);
    let process = Running::start(command);
    let address = format!("127.0.0.1:{}", port(&process.json()));
    let status = |token: &str| {
        let held = format!("Bearer {token}");
        post(&address, &[("Authorization", &held)], &ping()).status
    };
    assert_eq!([TOKEN, OTHER].map(status), [200, 200]);
    file(&workspace, "token", &format!("{OTHER}\n"), 0o600);
    until(|| (status(TOKEN) == 401).then_some(()));
    assert_eq!(status(OTHER), 200);
    fs::remove_file(workspace.join("token")).unwrap();
    until(|| (status(OTHER) == 401).then_some(()));
    file(&workspace, "token", TOKEN, 0o600);
    until(|| (status(TOKEN) == 200).then_some(()));
    process.signal(Signal::TERM);
    assert!(process.end().success());
}

#[test]
fn a_token_of_the_environment_is_asked_for_on_this_machine_as_well() {
    let workspace = Workspace::git();
    let mut command = workspace.command(["up", "--http", "127.0.0.1:0", "--json"]);
    command.env("ORCHESTRA_TOKEN", TOKEN);
    command.args(["--allow-origin", "https://app.example"]);
    let process = Running::start(command);
    let address = format!("127.0.0.1:{}", port(&process.json()));
    assert_eq!(post(&address, &[], &ping()).status, 401);
    let held = format!("Bearer {TOKEN}");
    let headers = [
        ("Authorization", held.as_str()),
        ("Origin", "https://app.example"),
    ];
    let answer = post(&address, &headers, &ping());
    assert_eq!(answer.status, 200, "{answer:?}");
    let head = answer.head.to_ascii_lowercase();
    assert!(
        head.contains("access-control-allow-origin: https://app.example"),
        "{head}"
    );
    let asks = format!(
        "OPTIONS /mcp HTTP/1.1\r\nHost: {address}\r\nOrigin: https://app.example\r\n\
         Access-Control-Request-Method: POST\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(http(&address, asks.as_bytes()).status, 204);
    let mut short = workspace.command(["up", "--http", "127.0.0.1:0"]);
    short.env("ORCHESTRA_TOKEN", "secret");
    // Another that runs is told of before the token is looked at.
    process.signal(Signal::TERM);
    assert!(process.end().success());
    let said = said(short, "");
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(
        said.err.contains("ORCHESTRA_TOKEN") && !said.err.contains("secret"),
        "{said:?}"
    );
}

/// What people paste says where their token goes, and not what it is.
#[test]
fn connecting_lines_show_where_a_token_goes() {
    let workspace = Workspace::git();
    let mut command = workspace.command(["up", "--http", "127.0.0.1:0"]);
    command.env("ORCHESTRA_TOKEN", TOKEN);
    let process = Running::start(command);
    let mut text = String::new();
    while !text.contains("ctrl-c") {
        text.push_str(&process.line().expect("more to read"));
        text.push('\n');
    }
    for expected in [
        "/mcp --header \"Authorization: Bearer $ORCHESTRA_TOKEN\"\n",
        "\"headers\": {\"Authorization\": \"Bearer ${env:ORCHESTRA_TOKEN}\"}}}}\n",
    ] {
        assert!(text.contains(expected), "{text}");
    }
    assert!(!text.contains(TOKEN), "{text}");
    let files = text.lines().filter_map(|line| {
        let start = line.find('{')?;
        Some(serde_json::from_str::<Value>(&line[start..]).unwrap())
    });
    assert_eq!(files.count(), 2);
    process.signal(Signal::TERM);
    assert!(process.end().success());
}

/// The rest of what says who is let in may be given to `up` alone, in its environment or as flags.
#[test]
fn only_up_asks_whether_what_lets_in_goes_together() {
    let workspace = Workspace::git();
    let users = workspace.home().join(".config/orchestra");
    fs::create_dir_all(&users).unwrap();
    let text = "http = \"0.0.0.0:0\"\n[access]\nhosts = [\"box.example\"]\n";
    fs::write(users.join("orchestra.toml"), text).unwrap();
    for command in [
        &["init"][..],
        &["config", "show"],
        &["tool", "list"],
        &["doctor"],
        &["stdio"],
    ] {
        let said = workspace.run(command.iter().copied());
        assert_eq!(said.code, Some(0), "{command:?}: {said:?}");
    }
    let said = workspace.run(["config", "show"]);
    assert!(said.out.contains("http = \"0.0.0.0:0\""), "{said:?}");
    let said = workspace.run(["up"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    for expected in [
        "orchestra.toml",
        "access.token_file",
        "access.oauth.issuers",
    ] {
        assert!(said.err.contains(expected), "{said:?}");
    }
    assert!(!said.err.contains("--token-file"), "{said:?}");
    let said = workspace.run(["up", "--http", "0.0.0.0:0"]);
    assert!(said.err.contains("--http (command line)"), "{said:?}");
    assert!(said.err.contains("--token-file"), "{said:?}");
    let mut command = workspace.command(["up", "--json"]);
    command.env("ORCHESTRA_TOKEN", TOKEN);
    let process = Running::start(command);
    assert_eq!(process.json()["asks_token"], true);
    process.signal(Signal::HUP);
    assert!(process.end().success());
    assert!(!workspace.run_directory().join("endpoint.json").exists());
}

#[test]
fn token_command_prints_only_a_token_that_the_running_up_admits() {
    const OTHER: &str = "another-token-of-this-shell";
    let workspace = Workspace::git();
    file(&workspace, "token", &format!("# laptop\n{TOKEN}\n"), 0o600);
    let token_with = |variable: Option<&str>| {
        let mut command = workspace.command(["token"]);
        if let Some(value) = variable {
            command.env("ORCHESTRA_TOKEN", value);
        }
        said(command, "")
    };
    let up = |arguments: &[&str], variable: Option<&str>| {
        let mut command = workspace.command(["up", "--http", "127.0.0.1:0", "--json"]);
        command.args(arguments);
        if let Some(value) = variable {
            command.env("ORCHESTRA_TOKEN", value);
        }
        let process = Running::start(command);
        assert!(!process.json().to_string().contains(TOKEN));
        process
    };
    let end = |process: Running| {
        process.signal(Signal::TERM);
        assert!(process.end().success());
    };
    let process = up(&["--token-file", "token"], None);
    for variable in [None, Some(OTHER)] {
        let said = token_with(variable);
        assert_eq!(said.out.trim(), TOKEN, "{said:?}");
    }
    end(process);
    let process = up(&[], Some(TOKEN));
    for variable in [None, Some(OTHER)] {
        let said = token_with(variable);
        assert_eq!((said.code, said.out.as_str()), (Some(3), ""), "{said:?}");
        assert!(said.err.contains("ORCHESTRA_TOKEN"), "{said:?}");
        assert!(
            !said.err.contains(TOKEN) && !said.err.contains(OTHER),
            "{said:?}"
        );
    }
    end(process);
    let process = up(&[], None);
    let said = token_with(Some(OTHER));
    assert_eq!(said.out.trim().len(), 64, "{said:?}");
    end(process);
    // While none runs, the configuration counts.
    assert_eq!(token_with(Some(OTHER)).out.trim(), OTHER);
}

/// Whoever shares a repository does not say who is let in.
#[test]
fn the_file_of_a_workspace_lets_nobody_in() {
    let workspace = Workspace::git();
    for text in [
        "[access]\ntoken_file = \"token\"",
        "[access]\norigins = [\"https://evil.example\"]",
        "[access]\nhosts = [\"evil.example\"]",
        "[access]\ntls_cert = \"a\"\ntls_key = \"b\"",
        "http = \"192.168.1.20:7420\"",
    ] {
        workspace.write("orchestra.toml", text);
        let said = workspace.run(["config", "show"]);
        assert_eq!(said.code, Some(2), "{text}: {said:?}");
        assert!(said.err.contains("your own configuration"), "{said:?}");
    }
    // How much callers may ask is not heard.
    let text = "[access]\nrequests_per_second = 3\n";
    workspace.write("orchestra.toml", text);
    let said = workspace.run(["config", "show"]);
    assert!(said.out.contains("requests_per_second = 0"), "{said:?}");
    fs::remove_file(workspace.join("orchestra.toml")).unwrap();
    let users = workspace.home().join(".config/orchestra");
    fs::create_dir_all(&users).unwrap();
    let text = "http = \"192.168.1.20:7420\"\n[access]\ntoken_file = \"token\"\n\
                hosts = [\"Box.example\"]\norigins = [\"https://app.example:443\"]\n";
    fs::write(users.join("orchestra.toml"), text).unwrap();
    let shown = workspace.run(["config", "show"]).out;
    let token = users.join("token");
    for expected in [
        &format!("token_file = \"{}\"", token.display())[..],
        "hosts = [\"box.example\"]",
        "origins = [\"https://app.example\"]",
        "requests_per_second = 200",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    // What was shown for this machine alone, taken as a file, has no say in it for others.
    fs::remove_file(users.join("orchestra.toml")).unwrap();
    let near = workspace.run(["config", "show"]).out;
    let far = near.replace(
        "# http = \"127.0.0.1:7420\"",
        "http = \"192.168.1.20:7420\"",
    );
    let far = far.replace("# token_file = \"\"", "token_file = \"token\"");
    fs::write(users.join("orchestra.toml"), far).unwrap();
    let shown = workspace.run(["config", "show"]).out;
    assert!(shown.contains("# requests_per_second = 200"), "{shown}");

    for (text, expected) in [
        ("origins = [\"*\"]", "https://app.example"),
        ("hosts = [\"a:1\"]", "without a port"),
        ("tls_cert = \"a\"", "or neither"),
        ("token = \"x\"", "unknown field"),
    ] {
        fs::write(users.join("orchestra.toml"), format!("[access]\n{text}\n")).unwrap();
        let said = workspace.run(["config", "show"]);
        assert_eq!(said.code, Some(2), "{text}: {said:?}");
        assert!(said.err.contains(expected), "{text}: {said:?}");
    }
}

#[test]
fn with_a_certificate_it_is_served_over_tls() {
    let workspace = Workspace::git();
    let CertifiedKey { cert, signing_key } = certificate();
    file(&workspace, "cert.pem", &cert.pem(), 0o644);
    file(&workspace, "key.pem", &signing_key.serialize_pem(), 0o600);
    file(&workspace, "open.pem", &signing_key.serialize_pem(), 0o644);
    let other = certificate().signing_key.serialize_pem();
    file(&workspace, "other.pem", &other, 0o600);
    let with_key = |key: &'static str| {
        let tls = ["--tls-cert", "cert.pem", "--tls-key", key];
        ["up", "--http", "127.0.0.1:0", "--json"]
            .into_iter()
            .chain(tls)
    };
    for (key, expected) in [
        ("open.pem", "is open to others"),
        ("other.pem", "cannot be used together"),
        ("cert.pem", "is open to others"),
        ("none.pem", "cannot read none.pem"),
    ] {
        let said = workspace.run(with_key(key));
        assert_eq!(said.code, Some(2), "{key}: {said:?}");
        assert!(said.err.contains(expected), "{key}: {said:?}");
    }
    assert_eq!(
        workspace.run(["up", "--tls-cert", "cert.pem"]).code,
        Some(2)
    );

    let process = Running::start(workspace.command(with_key("key.pem")));
    let ready = process.json();
    let port = port(&ready);
    assert_eq!(ready["mcp"], format!("https://127.0.0.1:{port}/mcp"));
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut stream = StreamOwned::new(client, stream);
    let body = ping();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert!(
        said.starts_with("HTTP/1.1 200") && said.contains("\"id\":1"),
        "{said}"
    );
    process.signal(Signal::TERM);
    assert!(process.end().success());
}

fn certificate() -> CertifiedKey<KeyPair> {
    generate_simple_self_signed(["localhost".to_owned()]).unwrap()
}
