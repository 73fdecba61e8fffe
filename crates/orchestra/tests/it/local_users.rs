//! Other users of this machine before a program that listens on it: none of them is admitted by the
//! address alone, over whichever transport.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::{PermissionsExt as _, lchown},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    overload::allow_files,
    plans::waits_for,
    ports::free_port,
    support::{Answer, Running, Workspace, get, post_to, said},
};

/// Two users that every Linux system has, and neither of which is the tester.
pub(crate) const DAEMON: u32 = 1;
pub(crate) const BIN: u32 = 2;

/// User whom Linux also reports in place of every user that a namespace does not map.
const NOBODY: u32 = 65_534;

/// Returns whether this test can become another user.
#[expect(clippy::print_stderr, reason = "a skipped test is reported")]
pub(crate) fn is_root(test: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        assert!(std::env::var_os("CI").is_none(), "CI runs {test} as root");
        eprintln!("SKIPPED {test}: only root can become another user");
    }
    is_root
}

/// The command, run by a user.
pub(crate) fn by(user: u32, command: &Command) -> Command {
    let mut other = Command::new("setpriv");
    let id = user.to_string();
    other
        .args(["--reuid", &id, "--regid", &id, "--clear-groups"])
        .arg(command.get_program())
        .args(command.get_args())
        .env_clear();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            other.env(name, value);
        }
    }
    if let Some(directory) = command.get_current_dir() {
        other.current_dir(directory);
    }
    other
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    other
}

/// A shell script, run by a user.
fn script(user: u32, text: &str) -> Command {
    let mut bash = Command::new("bash");
    bash.args(["-c", text])
        .env("PATH", "/usr/bin:/bin")
        .current_dir("/");
    by(user, &bash)
}

/// Sends a request from a process of a user to `host` and reads the answer; in `bash`, since the
/// socket must be one that this user has opened.
pub(crate) fn send(user: u32, (host, port): (&str, u16), request: &str) -> Answer {
    let quoted = request.replace('\'', "'\\''");
    // The connection can end before all of it is sent.
    let text = format!(
        "trap '' PIPE; exec 3<>/dev/tcp/{host}/{port}; printf '%s' '{quoted}' >&3; cat <&3"
    );
    let said = said(script(user, &text), "");
    let (head, body) = said
        .out
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("no answer: {said:?}"));
    Answer {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.to_owned(),
        body: body.to_owned(),
    }
}

/// A call of a tool, which creates a project.
fn create(name: &str, headers: &str) -> String {
    let body = json!({"name": "create_project", "arguments": {"name": name}}).to_string();
    format!(
        "POST /api/mcp/tools/call HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn list(headers: &str) -> String {
    format!("GET /api/mcp/tools HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n")
}

/// A login of a browser.
fn log_in(token: &str, headers: &str) -> String {
    let body = json!({"token": token}).to_string();
    format!(
        "POST /api/login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The header with the cookie that a login has set.
fn cookie(login: &Answer) -> String {
    assert_eq!(login.status, 204, "{login:?}");
    let cookie = login.header("set-cookie").unwrap().split(';').next();
    format!("Cookie: {}\r\n", cookie.unwrap())
}

/// `up` on an address, and the port it listens on.
fn up(command: Command) -> (Running, Value, u16) {
    let process = Running::start(command);
    let ready = process.json();
    let port = ready["http"].as_str().unwrap().rsplit(':').next();
    let port = port.unwrap().parse().unwrap();
    (process, ready, port)
}

fn arguments(address: &str) -> Vec<String> {
    let fixed = ["up", "--json", "--quic", "off", "--http"];
    let fixed = fixed.into_iter().map(str::to_owned);
    fixed.chain([address.to_owned()]).collect()
}

/// Gives all of a workspace to a user, and symbolic links in it instead of their targets.
pub(crate) fn give(workspace: &Workspace, user: u32) {
    fn walk(path: &Path, user: u32) {
        lchown(path, Some(user), Some(user)).unwrap();
        if fs::symlink_metadata(path).unwrap().is_dir() {
            for entry in fs::read_dir(path).unwrap() {
                walk(&entry.unwrap().path(), user);
            }
        }
    }
    walk(workspace.path().parent().unwrap(), user);
}

#[test]
fn another_user_calls_nothing_over_any_loopback_address() {
    if !is_root("another_user_calls_nothing_over_any_loopback_address") {
        return;
    }
    for (bound, reached) in [
        (
            "127.0.0.1:0",
            &["127.0.0.1", "::ffff:127.0.0.1", "::1", "localhost"][..],
        ),
        ("[::1]:0", &["::1", "127.0.0.1"]),
    ] {
        let workspace = Workspace::git();
        let (_process, ready, port) = up(workspace.command(arguments(bound)));
        assert_eq!(
            ready["asks_token"], false,
            "the user's own clients need none"
        );
        for host in reached {
            let at = (*host, port);
            let refused = send(DAEMON, at, &create("Stolen", ""));
            assert_eq!(refused.status, 401, "{host}: {refused:?}");
            for hint in ["`orchestra token`", "Every other user asks that user"] {
                assert!(refused.body.contains(hint), "{hint}: {refused:?}");
            }
            assert!(!workspace.join(".projects/stolen").exists(), "{host}");
            for request in [
                "GET /api/events HTTP/1.1",
                "GET /api/mcp/sse HTTP/1.1",
                "GET /sse HTTP/1.1",
                "POST /rpc HTTP/1.1",
                "POST /mcp HTTP/1.1",
                "GET /metrics HTTP/1.1",
            ] {
                let request = format!("{request}\r\nHost: localhost\r\nConnection: close\r\n\r\n");
                assert_eq!(send(DAEMON, at, &request).status, 401, "{request}");
            }
            let health = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
            assert_eq!(send(DAEMON, at, health).status, 200);
            // The tester's own client notices nothing.
            assert_eq!(send(0, at, &list("")).status, 200, "{host}");
        }
    }
}

#[test]
fn another_user_who_has_closed_the_socket_calls_nothing() {
    if !is_root("another_user_who_has_closed_the_socket_calls_nothing") {
        return;
    }
    let workspace = Workspace::git();
    let (process, _, port) = up(workspace.command(arguments("127.0.0.1:0")));
    // It accepts the connection when its owner is gone.
    process.signal(Signal::STOP);
    let request = create("Stolen", "");
    let text = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; printf '%s' '{request}' >&3");
    assert!(script(DAEMON, &text).status().unwrap().success());
    process.signal(Signal::CONT);
    let address = format!("127.0.0.1:{port}");
    // Connections are accepted in their order.
    let tools = get(&address, "/api/mcp/tools");
    assert_eq!(tools.status, 200);
    let own = json!({"name": "create_project", "arguments": {"name": "Own"}}).to_string();
    let own = post_to(&address, "/api/mcp/tools/call", &[], &own);
    assert_eq!(own.status, 200, "{own:?}");
    let projects = json!({"name": "list_projects", "arguments": {}}).to_string();
    let projects = post_to(&address, "/api/mcp/tools/call", &[], &projects);
    assert!(
        projects.body.contains("Own") && !projects.body.contains("Stolen"),
        "{projects:?}"
    );
}

#[test]
fn root_is_no_exception_and_calls_with_the_token_of_the_user() {
    if !is_root("root_is_no_exception_and_calls_with_the_token_of_the_user") {
        return;
    }
    let workspace = Workspace::git();
    give(&workspace, BIN);
    let command = by(BIN, &workspace.command(arguments("127.0.0.1:0")));
    let (_process, ready, port) = up(command);
    assert_eq!(ready["asks_token"], false);
    let at = ("127.0.0.1", port);
    assert_eq!(send(BIN, at, &list("")).status, 200);
    for user in [0, DAEMON] {
        assert_eq!(send(user, at, &list("")).status, 401, "{user}");
    }
    let token = said(by(BIN, &workspace.command(["token"])), "");
    assert_eq!(token.code, Some(0), "{token:?}");
    let held = format!("Authorization: Bearer {}\r\n", token.out.trim());
    for user in [0, DAEMON] {
        assert_eq!(send(user, at, &list(&held)).status, 200, "{user}");
    }
    let file = workspace.home().join(".local/state/orchestra/token");
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(fs::read_to_string(&file).unwrap(), token.out);
    let again = said(by(BIN, &workspace.command(["token"])), "");
    assert_eq!(again.out, token.out);
}

/// Browsers send a cookie to every port of its host, so a program of another user can receive it.
#[test]
fn cookie_of_a_login_is_refused_from_another_user() {
    if !is_root("cookie_of_a_login_is_refused_from_another_user") {
        return;
    }
    let token = "0123456789abcdef0123456789abcdef";
    let workspace = Workspace::git();
    let mut command = workspace.command(arguments("127.0.0.1:0"));
    command.env("ORCHESTRA_TOKEN", token);
    let (_process, _, port) = up(command);
    let at = ("127.0.0.1", port);
    for (owner, thief) in [(0, DAEMON), (DAEMON, 0), (DAEMON, BIN)] {
        let cookie = cookie(&send(owner, at, &log_in(token, "")));
        assert_eq!(send(thief, at, &list(&cookie)).status, 401);
        let out = format!(
            "POST /api/logout HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             {cookie}Content-Length: 0\r\n\r\n"
        );
        send(thief, at, &out);
        assert_eq!(send(owner, at, &list(&cookie)).status, 200, "{owner}");
        send(owner, at, &out);
        assert_eq!(send(owner, at, &list(&cookie)).status, 401, "{owner}");
    }
}

#[test]
fn cookie_of_a_login_through_a_proxy_is_refused_from_another_user() {
    if !is_root("cookie_of_a_login_through_a_proxy_is_refused_from_another_user") {
        return;
    }
    let workspace = Workspace::git();
    let (_process, _, port) = up(workspace.command(arguments("127.0.0.1:0")));
    let token = workspace.run(["token"]);
    let token = token.out.trim();
    let at = ("127.0.0.1", port);
    let headers = ["X-Forwarded-For: 192.0.2.1\r\n", "Via: 1.1 proxy\r\n"];
    for (proxy, thief) in [(0, DAEMON), (DAEMON, 0), (DAEMON, BIN)] {
        for header in headers {
            let cookie = cookie(&send(proxy, at, &log_in(token, header)));
            let with = |header: &str| list(&format!("{header}{cookie}"));
            for other in headers {
                assert_eq!(send(thief, at, &with(other)).status, 401, "{other}");
                // The browser behind the proxy notices nothing.
                assert_eq!(send(proxy, at, &with(other)).status, 200, "{other}");
            }
            if thief != 0 {
                assert_eq!(send(thief, at, &with("")).status, 401);
            }
        }
    }
}

#[test]
fn unfinished_logins_of_many_users_leave_the_owner_and_callers_with_a_token_alone() {
    if !is_root("unfinished_logins_of_many_users_leave_the_owner_and_callers_with_a_token_alone") {
        return;
    }
    allow_files();
    let workspace = Workspace::git();
    let (_process, _, port) = up(workspace.command(arguments("127.0.0.1:0")));
    let token = workspace.run(["token"]);
    let token = token.out.trim();
    let at = ("127.0.0.1", port);
    let cookie = cookie(&send(BIN, at, &log_in(token, "")));
    // The server asks for the body when it waits for it.
    let login = "POST /api/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                 Content-Length: 100\r\nExpect: 100-continue\r\n\r\n";
    let open = "$| = 1; $SIG{PIPE} = 'IGNORE'; \
                for (1..256) { \
                    my $s = IO::Socket::INET->new($ARGV[0]) or die; print $s $ARGV[1]; \
                    my $line = <$s>; push @held, $s if defined $line && $line =~ / 100 /; \
                } \
                print scalar @held, \"\\n\"; <STDIN>";
    let floods = (4_343..4_351).map(|user| {
        let mut perl = Command::new("perl");
        perl.args(["-MIO::Socket::INET", "-e", open])
            .arg(format!("127.0.0.1:{port}"))
            .arg(login)
            .env("PATH", "/usr/bin:/bin")
            .current_dir("/");
        Running::start(by(user, &perl))
    });
    // All at once, so that none of the first ones ends by its time limit before the last ones are open.
    let floods: Vec<_> = floods.collect();
    let held = floods.iter().map(|flood| flood.line().unwrap());
    let held: usize = held.map(|line| line.parse::<usize>().unwrap()).sum();
    assert!(held > 0, "some logins are held");
    let page = |headers: &str| {
        format!("GET /board HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n")
    };
    for request in [list(""), page(""), log_in(token, "")] {
        let answer = send(0, at, &request);
        assert!([200, 204].contains(&answer.status), "{request}: {answer:?}");
    }
    let held = format!("Authorization: Bearer {token}\r\n");
    for request in [list(&held), list(&cookie), page(&cookie)] {
        let answer = send(BIN, at, &request);
        assert_eq!(answer.status, 200, "{request}: {answer:?}");
    }
    for request in [page(""), log_in(token, "")] {
        let answer = send(BIN, at, &request);
        assert_eq!(answer.status, 503, "{request}: {answer:?}");
        assert!(answer.body.contains("try again later"), "{answer:?}");
    }
    for flood in floods {
        assert!(flood.end().success());
    }
}

#[test]
fn connection_of_another_user_ends_after_an_answer_without_a_token() {
    if !is_root("connection_of_another_user_ends_after_an_answer_without_a_token") {
        return;
    }
    let workspace = Workspace::git();
    let (_process, _, port) = up(workspace.command(arguments("127.0.0.1:0")));
    let token = workspace.run(["token"]);
    let held = format!("Authorization: Bearer {}\r\n", token.out.trim());
    let wrong = "Authorization: Bearer 0123456789abcdef\r\n";
    for (user, path, headers, expected) in [
        (DAEMON, "/health", "", 1),
        (DAEMON, "/health", wrong, 1),
        (DAEMON, "/", wrong, 1),
        (DAEMON, "/missing", "", 1),
        (DAEMON, "/api/mcp/tools", "", 1),
        (DAEMON, "/api/mcp/tools", wrong, 1),
        (DAEMON, "/api/mcp/tools", held.as_str(), 2),
        (0, "/health", "", 2),
    ] {
        // Both are sent before the first answer.
        let first = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
        let last = first.replacen("\r\n", "\r\nConnection: close\r\n", 1);
        let answer = send(user, ("127.0.0.1", port), &format!("{first}{last}"));
        let answers = 1 + answer.body.matches("HTTP/1.1 ").count();
        assert_eq!(answers, expected, "{user} {path} {headers}: {answer:?}");
    }
}

#[test]
fn connections_over_the_limit_of_another_user_are_logged_in_few_lines() {
    if !is_root("connections_over_the_limit_of_another_user_are_logged_in_few_lines") {
        return;
    }
    let workspace = Workspace::git();
    let log = workspace.home().join("log");
    let command = workspace.command(arguments("127.0.0.1:0"));
    let process = Running::with_stderr(command, fs::File::create(&log).unwrap());
    let ready = process.json();
    let address = ready["http"].as_str().unwrap().strip_prefix("http://");
    // Connections are accepted in their order, and four beyond the limit are left to health checks: the last one closes
    // the fifth from the end.
    let open = "for (1..400) { push @all, (IO::Socket::INET->new($ARGV[0]) or die) } \
                sysread $all[-5], $_, 1; print scalar @all";
    let mut perl = Command::new("perl");
    perl.args(["-MIO::Socket::INET", "-e", open, address.unwrap()])
        .env("PATH", "/usr/bin:/bin")
        .current_dir("/");
    assert_eq!(said(by(DAEMON, &perl), "").out, "400");
    process.signal(Signal::TERM);
    assert!(process.end().success());
    let log = fs::read_to_string(log).unwrap();
    let lines = log.lines().filter(|line| line.contains("too many"));
    let counts = lines.map(|line| line.rsplit_once("count=").unwrap().1);
    let counts: Vec<u64> = counts.map(|count| count.trim().parse().unwrap()).collect();
    assert_eq!(counts[0], 1, "{log}");
    assert!(counts[1] > 1 && counts.len() < 10, "{log}");
}

/// Document 002: clients post to `/rpc` with a bearer token.
#[test]
fn client_of_document_002_is_admitted_with_the_token_and_the_users_own_without() {
    let workspace = Workspace::git();
    let (_process, _, port) = up(workspace.command(arguments("127.0.0.1:0")));
    let address = format!("127.0.0.1:{port}");
    let token = workspace.run(["token"]);
    let held = format!("Bearer {}", token.out.trim());
    let ping = json!({"jsonrpc": "2.0", "id": "req-uuid", "method": "ping"}).to_string();
    let through = ("X-Forwarded-For", "192.0.2.1");
    for (headers, status) in [
        (&[][..], 200),
        (&[("Authorization", held.as_str())], 200),
        (&[through, ("Authorization", held.as_str())], 200),
        (&[through], 401),
        (&[("Forwarded", "for=192.0.2.1")], 401),
        (&[("Via", "1.1 proxy")], 401),
        (&[("X-Real-IP", "192.0.2.1")], 401),
        (&[("CF-Ray", "8f0-FRA")], 401),
        (&[("Tailscale-User-Login", "ann@example.com")], 401),
        (&[("X-Original-Host", "box.example")], 401),
        (&[("X-Host", "box.example")], 401),
        (&[("X-Forward-For", "192.0.2.1")], 401),
        (&[("X-Originating-IP", "192.0.2.1")], 401),
        (&[("CDN-RequestId", "1")], 401),
        (&[("X-Url-Scheme", "https")], 401),
        (&[("X-Remote-User", "ann")], 401),
        (&[("Teleport-Jwt-Assertion", "e30.e30.e30")], 401),
        (&[("X-Teleport-Jwt", "e30.e30.e30")], 401),
        (&[("X_Forwarded_For", "192.0.2.1")], 401),
        (&[("Remote_User", "ann")], 401),
    ] {
        let answer = post_to(&address, "/rpc", headers, &ping);
        assert_eq!(answer.status, status, "{headers:?}: {answer:?}");
    }
}

/// Where the system does not tell the user's own connections from others, clients pass the token.
#[test]
fn clients_pass_the_token_where_users_are_not_named() {
    if !is_root("clients_pass_the_token_where_users_are_not_named") {
        return;
    }
    let workspace = Workspace::git();
    give(&workspace, NOBODY);
    let mut command = workspace.command(["up", "--quic", "off", "--http", "127.0.0.1:0"]);
    command.env("HOME", workspace.home());
    let process = Running::start(by(NOBODY, &command));
    let mut text = String::new();
    while !text.contains("ctrl-c") {
        text.push_str(&process.line().expect("more to read"));
        text.push('\n');
    }
    let token = said(by(NOBODY, &workspace.command(["token"])), "");
    let token = token.out.trim();
    let link = text
        .lines()
        .find(|line| line.contains("dashboard"))
        .unwrap();
    let (address, shown) = link.rsplit_once("/#token=").unwrap();
    assert_eq!(shown, token);
    assert_eq!(text.matches(token).count(), 1, "{text}");
    let port = address.rsplit(':').next().unwrap().parse().unwrap();
    let at = ("127.0.0.1", port);
    let held = format!("Authorization: Bearer {token}\r\n");
    for user in [NOBODY, 0, DAEMON] {
        assert_eq!(send(user, at, &list("")).status, 401, "{user}");
        assert_eq!(send(user, at, &list(&held)).status, 200, "{user}");
    }
    // The page exchanges the token for a cookie.
    let cookie = cookie(&send(NOBODY, at, &log_in(token, "")));
    assert_eq!(send(NOBODY, at, &list(&cookie)).status, 200);
    // Commands that ask the running program pass it as well.
    let servers = said(by(NOBODY, &workspace.command(["mcp", "list"])), "");
    assert_eq!(servers.code, Some(0), "{servers:?}");
    assert!(!servers.err.contains("asks for a token"), "{servers:?}");
}

#[test]
fn another_user_reaches_no_plugin_port_without_a_certificate() {
    if !is_root("another_user_reaches_no_plugin_port_without_a_certificate") {
        return;
    }
    let workspace = Workspace::git();
    let quic = format!("127.0.0.1:{}", free_port());
    let mut command = workspace.command(["up", "--json", "--http", "127.0.0.1:0", "--quic"]);
    command.arg(&quic);
    let process = Running::start(command);
    let ready = process.json();
    let certs = ready["certs_dir"].as_str().unwrap();
    let listed = said(script(DAEMON, &format!("ls {certs}")), "");
    assert_ne!(listed.code, Some(0), "{listed:?}");
    // Even where the directories above are open.
    let mode = fs::metadata(certs).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
    // A certificate of another authority is none here.
    let theirs = Workspace::git();
    give(&theirs, DAEMON);
    let founded = said(by(DAEMON, &theirs.command(["certs", "init"])), "");
    assert_eq!(founded.code, Some(0), "{founded:?}");
    let mut bridge = theirs.command(["stdio", "--orchestrator-addr"]);
    bridge.arg(&quic);
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let mut bridge = Running::start(by(DAEMON, &bridge));
    writeln!(bridge.stdin.as_mut().unwrap(), "{hello}").unwrap();
    let answer = bridge.json();
    assert!(answer.get("error").is_some(), "{answer}");
    assert!(bridge.end().success());
}

/// The socket of the process that runs plans asks for the user of its peer, and for a token.
#[test]
fn another_user_is_refused_at_an_open_socket_even_with_its_token() {
    if !is_root("another_user_is_refused_at_an_open_socket_even_with_its_token") {
        return;
    }
    let workspace = Workspace::git();
    let go = workspace.home().join("go");
    workspace.write("plan.yaml", &waits_for("waits", &go));
    let run = Running::start(workspace.command(["plan", "run", "plan.yaml", "--json"]));
    while run.json()["phase"] != "work" {}
    let told = found(&workspace.path(), "runner.json").unwrap();
    let mode = fs::metadata(&told).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let told: Value = serde_json::from_str(&fs::read_to_string(told).unwrap()).unwrap();
    let socket = Path::new(told["socket"].as_str().unwrap());
    let mode = fs::metadata(socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // Somebody has opened it and all directories above, and has told the token.
    fs::set_permissions(socket, fs::Permissions::from_mode(0o666)).unwrap();
    let outside = workspace.path().ancestors().nth(2).unwrap().to_owned();
    for directory in socket
        .ancestors()
        .skip(1)
        .take_while(|path| **path != *outside)
    {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let hello = json!({
        "type": "hello",
        "protocol": told["protocol"],
        "token": told["token"],
        "name": "test",
    });
    let greet = "$s = IO::Socket::UNIX->new($ARGV[0]) or die; $SIG{PIPE} = 'IGNORE'; \
                 print $s \"$ARGV[1]\\n\"; $s->flush; print scalar <$s>";
    let mut perl = Command::new("perl");
    perl.args(["-MIO::Socket::UNIX", "-e", greet])
        .arg(socket)
        .arg(hello.to_string())
        .env("PATH", "/usr/bin:/bin")
        .current_dir("/");
    let own = said(by(0, &perl), "");
    assert!(own.out.contains("hello"), "{own:?}");
    let other = said(by(DAEMON, &perl), "");
    assert!(other.code == Some(0) && other.out.is_empty(), "{other:?}");
    fs::write(&go, "").unwrap();
    assert!(run.end().success());
}

/// A file of this name below a directory.
pub(crate) fn found(directory: &Path, name: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).find_map(|path| {
        let is_directory = fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir());
        match is_directory {
            true => found(&path, name),
            false => path.ends_with(name).then_some(path),
        }
    })
}
