//! `orchestra up` before clients that open many connections or streams, and browsers that log in.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use serde_json::json;

use crate::support::{Answer, PATIENCE, Running, Workspace, get, http, post_to};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// More connections than the program serves at once.
const MANY: usize = 3_000;

fn up(workspace: &Workspace, token: Option<&str>) -> (Running, String) {
    let arguments = ["up", "--json", "--quic", "off", "--http", "127.0.0.1:0"];
    let mut command = workspace.command(arguments);
    command.envs(token.map(|token| ("ORCHESTRA_TOKEN", token)));
    let process = Running::start(command);
    let ready = process.json();
    let address = ready["http"].as_str().unwrap().strip_prefix("http://");
    (process, address.unwrap().to_owned())
}

/// Lets this process open as many files as the test needs.
pub(crate) fn allow_files() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = u64::try_from(MANY + 1_000).unwrap();
    let wanted = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    if limit.current.is_some_and(|current| current < wanted) {
        let raised = Rlimit {
            current: Some(wanted),
            maximum: limit.maximum,
        };
        setrlimit(Resource::Nofile, raised).unwrap();
    }
}

fn connect(address: &str, sent: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(sent.as_bytes()).unwrap();
    stream
}

/// The status of the answer that begins on a connection, and the connection.
fn begun(stream: TcpStream) -> (u16, TcpStream) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("{line:?}"));
    (status.parse().unwrap(), reader.into_inner())
}

fn is_served(address: &str) {
    for path in ["/health", "/ready", "/api/mcp/tools"] {
        assert_eq!(get(address, path).status, 200, "{path}");
    }
}

#[test]
fn streams_of_one_user_leave_connections_for_all_other_requests() {
    allow_files();
    let workspace = Workspace::git();
    let (_process, address) = up(&workspace, None);
    let request = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let (mut open, mut refused) = (Vec::new(), 0);
    for number in 0..MANY {
        let path = ["/api/events", "/sse", "/api/mcp/sse", "/api/traffic"][number % 4];
        match begun(connect(&address, &request(path))) {
            (200, stream) => open.push(stream),
            (503, _) => refused += 1,
            (status, _) => panic!("{path} is answered with {status}"),
        }
    }
    assert!(refused > 0 && open.len() >= 500, "{} are open", open.len());
    is_served(&address);
    // A share is free again when its stream has ended.
    open.truncate(open.len() / 2);
    let opens = || begun(connect(&address, &request("/api/events")));
    let (mut status, mut stream) = opens();
    while status != 200 {
        (status, stream) = opens();
    }
    drop((stream, open));
}

#[test]
fn idle_connections_do_not_delay_requests() {
    allow_files();
    let workspace = Workspace::git();
    let (_process, address) = up(&workspace, None);
    let idle: Vec<_> = (0..MANY).map(|_| connect(&address, "")).collect();
    is_served(&address);
    // Those that made room were the oldest; the others have not come to their end.
    let (oldest, later) = (&idle[0], &idle[MANY / 2]);
    assert_eq!((&mut &*oldest).read(&mut [0; 1]).unwrap_or(0), 0);
    later.set_nonblocking(true).unwrap();
    let looked = (&mut &*later).read(&mut [0; 1]);
    let kind = looked.map_err(|error| error.kind());
    assert_eq!(
        kind,
        Err(std::io::ErrorKind::WouldBlock),
        "it is still open"
    );
}

fn log_in(address: &str, token: &str) -> Answer {
    let body = json!({"token": token}).to_string();
    post_to(address, "/api/login", &[], &body)
}

fn cookie(answer: &Answer) -> String {
    assert_eq!(answer.status, 204, "{answer:?}");
    let set = answer.header("set-cookie").unwrap();
    set.split(';').next().unwrap().to_owned()
}

/// The status of a list for the browser that has a cookie.
fn status(address: &str, cookie: &str) -> u16 {
    let request = format!(
        "GET /api/mcp/tools HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\n\
         Connection: close\r\n\r\n"
    );
    http(address, request.as_bytes()).status
}

#[test]
fn logging_out_ends_the_login_on_the_server_and_over_restarts() {
    let workspace = Workspace::git();
    let (process, address) = up(&workspace, Some(TOKEN));
    let [first, second] = [(), ()].map(|()| cookie(&log_in(&address, TOKEN)));
    assert_eq!(
        (status(&address, &first), status(&address, &second)),
        (200, 200)
    );
    let left = post_to(&address, "/api/logout", &[("Cookie", &first)], "");
    assert_eq!(left.status, 204, "{left:?}");
    assert_eq!(
        (status(&address, &first), status(&address, &second)),
        (401, 200)
    );
    process.signal(Signal::TERM);
    assert!(process.end().success());
    let mut command = workspace.command(["up", "--json", "--quic", "off", "--http", &address]);
    command.env("ORCHESTRA_TOKEN", TOKEN);
    let again = Running::start(command);
    assert_eq!(again.json()["http"], format!("http://{address}"));
    assert_eq!(
        (status(&address, &first), status(&address, &second)),
        (401, 200)
    );
}

#[test]
fn failed_logins_are_limited() {
    let workspace = Workspace::git();
    let (_process, address) = up(&workspace, Some(TOKEN));
    let mut refused = Vec::new();
    let last = loop {
        let answer = log_in(&address, "fedcba9876543210fedcba9876543210");
        if answer.status != 401 {
            break answer;
        }
        refused.push(answer);
        assert!(refused.len() < 1_000, "no end of guesses");
    };
    assert_eq!(last.status, 429, "{last:?}");
    assert!(last.header("retry-after").is_some(), "{last:?}");
    assert!(refused.len() >= 5, "people mistype");
    // The right token is not looked at either, and who holds it is served.
    assert_eq!(log_in(&address, TOKEN).status, 429);
    let held = format!("Bearer {TOKEN}");
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let served = post_to(&address, "/rpc", &[("Authorization", &held)], &ping);
    assert_eq!(served.status, 200);
}
