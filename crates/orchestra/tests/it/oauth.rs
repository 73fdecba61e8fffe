//! `orchestra up` with tokens of an issuer.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    thread,
    time::SystemTime,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use rcgen::{KeyPair, PKCS_ED25519, PublicKeyData as _, SigningKey as _};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Running, Workspace, get, http, post, until_ready};

const RESOURCE: &str = "https://box.example/mcp";

/// An issuer on this machine.
struct Issuer {
    url: String,
    key: KeyPair,
}

impl Issuer {
    /// Serves until the process of the test ends.
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let described = json!({"issuer": url, "jwks_uri": format!("{url}/keys")});
        let public = URL_SAFE_NO_PAD.encode(key.der_bytes());
        let public = json!({"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": public});
        let keys = json!({"keys": [public]});
        thread::spawn(move || {
            for stream in listener.incoming() {
                let _ = answer(stream.unwrap(), &described, &keys);
            }
        });
        Self { url, key }
    }

    fn token(&self, scope: &str) -> String {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let end = since.unwrap().as_secs() + 600;
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!(
            "{}.{}",
            part(json!({"alg": "EdDSA", "kid": "a"})),
            part(
                json!({"iss": self.url, "sub": "ada", "aud": RESOURCE, "exp": end, "scope": scope})
            )
        );
        let signature = self.key.sign(message.as_bytes()).unwrap();
        format!("Bearer {message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

fn answer(stream: TcpStream, described: &Value, keys: &Value) -> std::io::Result<()> {
    let mut head = BufReader::new(&stream).lines();
    let line = head.next().unwrap()?;
    while !head.next().unwrap()?.is_empty() {}
    let body = match line.split(' ').nth(1).unwrap() {
        "/.well-known/oauth-authorization-server" => described,
        "/keys" => keys,
        other => panic!("nobody should ask for {other}"),
    }
    .to_string();
    let length = body.len();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    (&stream).write_all((head + &body).as_bytes())
}

fn ping() -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string()
}

#[test]
fn up_lets_in_whoever_shows_a_token_of_the_issuer() {
    let (workspace, issuer) = (Workspace::git(), Issuer::new());
    let flags = [
        "--oauth-issuer",
        &issuer.url,
        "--oauth-resource",
        RESOURCE,
        "--oauth-scope",
        "orchestra:use",
    ];
    let mut command = workspace.command(["up", "--http", "0.0.0.0:0", "--json"]);
    command.args(flags);
    let process = Running::start(command);
    let ready = process.json();
    assert_eq!(ready["mcp"], RESOURCE);
    assert_eq!(ready["asks_token"], true);
    assert_eq!(ready["issuers"], json!([issuer.url]));
    let port = ready["http"].as_str().unwrap().rsplit(':').next().unwrap();
    assert_eq!(ready["http"], format!("http://box.example:{port}"));
    let address = format!("127.0.0.1:{port}");
    let right = issuer.token("other orchestra:use");
    let host = ("Host", "box.example");
    for (shown, status) in [
        (&right, 200),
        (&issuer.token("other"), 403),
        (&format!("{right}x"), 401),
        (&Issuer::new().token("orchestra:use"), 401),
    ] {
        let answer = post(&address, &[host, ("Authorization", shown)], &ping());
        assert_eq!(answer.status, status, "{answer:?}");
    }
    let answer = post(&address, &[host], &ping());
    assert_eq!(answer.status, 401);
    let well_known = "/.well-known/oauth-protected-resource/mcp";
    let head = answer.head;
    assert!(
        head.contains(&format!("https://box.example{well_known}")),
        "{head}"
    );
    let document = get(&address, well_known).json();
    assert_eq!(document["resource"], RESOURCE);
    assert_eq!(document["authorization_servers"], json!([issuer.url]));
    assert_eq!(document["scopes_supported"], json!(["orchestra:use"]));
    assert_eq!(get(&address, "/health").status, 200);
    let tools = format!(
        "GET /api/mcp/tools HTTP/1.1\r\nHost: {address}\r\nAuthorization: {right}\r\n\
         Connection: close\r\n\r\n"
    );
    assert_eq!(http(&address, tools.as_bytes()).status, 200);

    let mut again = vec!["up"];
    again.extend(flags);
    let said = workspace.run(again);
    assert!(said.out.contains("sign in"), "{said:?}");
    for flag in ["issuer", "resource", "scope"] {
        let expected = format!("--oauth-{flag} was not used");
        assert!(said.err.contains(&expected), "{said:?}");
    }
    assert!(!said.out.contains("ORCHESTRA_TOKEN"), "{said:?}");
    process.signal(Signal::TERM);
    assert!(process.end().success());
}

/// Tokens are for one resource, so it is not served where that does not lead.
#[test]
fn a_resource_is_served_at_its_port_or_not_at_all() {
    let workspace = Workspace::git();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let issuer = ["--oauth-issuer", "https://login.example"];
    let of = |resource: &'static str| ["--oauth-resource", resource];
    let mut command = vec!["up", "--http", &address];
    command.extend(issuer.iter().chain(&of(RESOURCE)));
    let said = workspace.run(command);
    assert_eq!((said.code, said.out.as_str()), (Some(1), ""), "{said:?}");
    for expected in [&address, RESOURCE, "is in use"] {
        assert!(said.err.contains(expected), "{said:?}");
    }
    assert!(!workspace.run_directory().join("endpoint.json").exists());

    for (resource, warns) in [("https://box.example/board", true), (RESOURCE, false)] {
        let mut command = workspace.command(["up", "--http", "127.0.0.1:0", "--json"]);
        command.args(issuer).args(of(resource));
        let (ready, said) = until_ready(command);
        assert_eq!(ready["mcp"], resource);
        let warned = said.contains("works only behind a proxy that maps it to /mcp");
        assert_eq!(warned, warns, "{said}");
    }
}

#[test]
fn what_an_issuer_needs_is_asked_for() {
    let workspace = Workspace::git();
    let issuer = ["--oauth-issuer", "https://login.example"];
    let resource = ["--oauth-resource", RESOURCE];
    for (arguments, expected) in [
        (&[&issuer[..]][..], "--oauth-resource"),
        (&[&resource], "--oauth-issuer"),
        (&[&["--oauth-scope", "use"]], "--oauth-issuer"),
        (&[&["--oauth-audience", "api://box"]], "--oauth-issuer"),
        (&[&issuer, &issuer, &resource], "listed twice"),
        (
            &[
                &issuer,
                &["--oauth-issuer", "https://other.example"],
                &resource,
                &["--oauth-jwks", "https://login.example/keys"],
            ],
            "applies to one issuer",
        ),
        (&[&["--oauth-issuer", "http://login.example"]], "https://"),
        (
            &[&["--oauth-jwks", "http://login.example/keys"]],
            "https://",
        ),
        (
            &[&["--oauth-resource", "https://box.example/mcp?a"]],
            "https://box.example:7420/mcp, or http:// on this machine, without a",
        ),
        (&[&["--oauth-scope", "a b"]], "one scope"),
    ] {
        let said =
            workspace.run([&["up", "--http", "127.0.0.1:0"], &arguments.concat()[..]].concat());
        assert_eq!(said.code, Some(2), "{arguments:?}: {said:?}");
        assert!(said.err.contains(expected), "{arguments:?}: {said:?}");
        assert!(!workspace.join(".projects").exists());
    }
}

#[test]
fn an_issuer_stands_in_the_users_file_alone() {
    let workspace = Workspace::git();
    let text = "[access.oauth]\nissuers = [\"https://login.example/main\"]\n\
                resource = \"https://box.example/mcp\"\naudiences = [\"api://box\"]\n\
                scopes = [\"use\"]\njwks_url = \"https://login.example/keys\"\n\
                leeway_seconds = 5\n";
    workspace.write("orchestra.toml", text);
    let said = workspace.run(["config", "show"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("your own configuration"), "{said:?}");
    fs::remove_file(workspace.join("orchestra.toml")).unwrap();
    let users = workspace.home().join(".config/orchestra");
    fs::create_dir_all(&users).unwrap();
    let file = users.join("orchestra.toml");
    fs::write(&file, text).unwrap();
    let shown = workspace.run(["config", "show"]).out;
    let (_, shown) = shown.split_once("[access.oauth]\n").unwrap();
    let (shown, _) = shown.split_once("[mcp]\n").unwrap();
    let bare: String = shown
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(format!("[access.oauth]\n{bare}"), text);
    for (wrong, expected) in [
        (
            "issuers = [\"login.example\"]",
            "access.oauth.issuers: a URL such as https://",
        ),
        (
            "resource = \"http://box.example\"",
            "access.oauth.resource: a URL such as https://",
        ),
        ("scopes = [\"a b\"]", "access.oauth.scopes: one scope"),
        ("leeway_seconds = 601", "0 to 600"),
        ("issuer = \"https://login.example\"", "unknown field"),
    ] {
        fs::write(&file, format!("[access.oauth]\n{wrong}\n")).unwrap();
        let said = workspace.run(["config", "show"]);
        assert_eq!(said.code, Some(2), "{wrong}: {said:?}");
        assert!(said.err.contains(expected), "{wrong}: {said:?}");
    }
    // Only `up` needs the rest of it, and is told of keys.
    for (half, expected) in [
        (
            "issuers = [\"https://login.example\"]",
            "with access.oauth.resource, such as",
        ),
        ("scopes = [\"use\"]", "with access.oauth.issuers"),
        ("audiences = [\"api://box\"]", "with access.oauth.issuers"),
        ("leeway_seconds = 60", "with access.oauth.issuers"),
    ] {
        fs::write(&file, format!("[access.oauth]\n{half}\n")).unwrap();
        let said = workspace.run(["config", "show"]);
        assert!(said.out.contains(half), "{said:?}");
        let said = workspace.run(["up", "--http", "0"]);
        assert_eq!(said.code, Some(2), "{half}: {said:?}");
        assert!(said.err.contains(expected), "{half}: {said:?}");
        assert!(!said.err.contains("--oauth"), "{half}: {said:?}");
    }
}
