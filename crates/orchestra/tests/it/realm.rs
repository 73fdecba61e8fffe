//! A server that lets in whoever has a token, and its authorization server, whose desk is up to a
//! test.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    thread,
};

use serde_json::{Value, json};

/// What lets in.
pub(crate) const TOKEN: &str = "t0ken-t0ken";

/// What the authorization server is asked.
pub(crate) struct Asked {
    pub(crate) path: String,
    /// The header `Authorization`.
    pub(crate) authorization: String,
    pub(crate) form: BTreeMap<String, String>,
    /// Where all of this is.
    pub(crate) at: String,
}

pub(crate) type Reply = (&'static str, Value);

/// A token, for whoever may have one.
pub(crate) fn given() -> Reply {
    let token = json!({"access_token": TOKEN, "token_type": "Bearer"});
    ("200 OK", token)
}

/// Serves for as long as the test runs; where.
pub(crate) fn realm(desk: impl Fn(&Asked) -> Reply + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = format!("http://{}", listener.local_addr().unwrap());
    let said = at.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            answer(stream.unwrap(), &said, &desk);
        }
    });
    at
}

fn answer(mut stream: TcpStream, at: &str, desk: &dyn Fn(&Asked) -> Reply) {
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
    let path = first.split(' ').nth(1).unwrap().to_owned();
    let (status, document) = match path.as_str() {
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
        "/mcp" if authorization == format!("Bearer {TOKEN}") => speak(&body),
        "/mcp" => ("401 Unauthorized", Value::Null),
        path if path.starts_with("/.well-known/") => ("404 Not Found", Value::Null),
        _ => desk(&Asked {
            path,
            authorization,
            form: form(&body),
            at: at.to_owned(),
        }),
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

/// It speaks the session era.
fn speak(body: &[u8]) -> Reply {
    let asked: Value = serde_json::from_slice(body).unwrap_or_default();
    let result = match asked["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": "2025-11-25", "capabilities": {},
            "serverInfo": {"name": "guarded", "version": "1"},
        }),
        Some("ping") => json!({}),
        Some("notifications/initialized") => return ("202 Accepted", Value::Null),
        _ => return ("400 Bad Request", Value::Null),
    };
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": result});
    ("200 OK", answer)
}

/// The fields of a form.
fn form(body: &[u8]) -> BTreeMap<String, String> {
    let text = String::from_utf8(body.to_vec()).unwrap();
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            b'+' => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).unwrap()
}
