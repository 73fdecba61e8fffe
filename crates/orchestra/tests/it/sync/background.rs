//! Exchanges of a board in the background, by `[sync]`.

use std::{fs, path::Path, process::Stdio};

use super::{Clones, tip};
use crate::one_board::git;
use crate::support::{Running, get, run_directory, until};

/// Sets `[sync]` in the user's own configuration.
pub(super) fn configure(clones: &Clones, text: &str) {
    let file = clones.repository.workspace.home();
    let file = file.join(".config/orchestra/orchestra.toml");
    let text = format!("board = \"repository\"\n[sync]\n{text}\n");
    fs::write(file, text).unwrap();
}

/// Starts `orchestra up`, which exchanges the board once the background work has begun. Returns its address as well.
fn up(clones: &Clones, clone: &Path) -> (Running, String) {
    let words = ["up", "--http", "127.0.0.1:0", "--quic", "off", "--json"];
    let up = Running::with_stderr(clones.command(clone, &words), Stdio::null());
    let ready = up.json();
    let address = ready["http"].as_str().unwrap();
    let address = address.trim_start_matches("http://").to_owned();
    (up, address)
}

/// Waits for a status of the background exchange in `/health`.
fn await_status(address: &str, status: &str) {
    until(|| {
        let health = get(address, "/health").json();
        let parts = health["parts"].as_array().cloned().unwrap_or_default();
        let sync = parts.into_iter().find(|part| part["name"] == "sync")?;
        (sync["status"] == status).then_some(())
    });
}

#[test]
fn board_is_exchanged_in_the_background() {
    let clones = Clones::new();
    let (one, two) = (clones.one(), clones.clone_as("two"));
    clones.sync(&one, &[]);
    clones.rename(&one, "MA-3", "Renamed");
    configure(&clones, "remote = \"origin\"");
    let (_up, address) = up(&clones, &one);
    await_status(&address, "connected");
    configure(&clones, "");
    clones.sync(&two, &[]);
    assert_eq!(clones.get(&two, "MA-3")["title"], "Renamed");
}

/// Checks that `up` exchanges nothing before the user runs `orchestra sync`.
pub(super) fn check_refused_in_the_background(clones: &Clones, clone: &Path) {
    let (mut running, address) = up(clones, clone);
    await_status(&address, "error");
    running.kill();
    let doctor = clones.run(clone, &["doctor"]);
    assert!(
        doctor.out.contains("run `orchestra sync` once"),
        "{doctor:?}"
    );
}

#[test]
fn remote_of_a_repository_is_not_reached_in_the_background_before_the_user_has_used_it() {
    let clones = Clones::new();
    let one = clones.one();
    configure(&clones, "remote = \"origin\"");
    check_refused_in_the_background(&clones, &one);
    let board = ["for-each-ref", "refs/orchestra"];
    assert_eq!(git(&clones.remote(), &board), "");
    clones.forget_attempt(&one);
    let trusted = format!(
        "trusted_directories = [\"{}\"]\nboard = \"repository\"\n[sync]\nremote = \"origin\"\n",
        one.display()
    );
    let file = clones.repository.workspace.home();
    fs::write(file.join(".config/orchestra/orchestra.toml"), trusted).unwrap();
    let (_up, address) = up(&clones, &one);
    await_status(&address, "connected");
    assert_eq!(tip(&clones.remote()), tip(&one));
}

#[test]
fn settings_of_a_repository_do_not_divert_background_exchanges() {
    let clones = Clones::new();
    let one = clones.one();
    clones.sync(&one, &[]);
    let shared = tip(&one);
    configure(&clones, "remote = \"origin\"");
    let included = one.with_file_name("included");
    fs::write(&included, "[http]\n\tproxy = http://127.0.0.1:1\n").unwrap();
    let included = included.display().to_string();
    let elsewhere = format!("url.{}.insteadOf", one.display());
    for (number, (key, value, part)) in [
        ("http.proxy", "http://127.0.0.1:1", "http.proxy"),
        ("http.https://example.org.sslVerify", "false", "sslverify"),
        ("http.cookieFile", "cookies", "http.cookiefile"),
        (elsewhere.as_str(), "/", "insteadof"),
        ("protocol.allow", "always", "protocol.allow"),
        ("remote.origin.proxy", "http://127.0.0.1:1", "origin.proxy"),
        ("credential.username", "ada", "credential.username"),
        ("fetch.bundleURI", "http://127.0.0.1:1", "fetch.bundleuri"),
        ("include.path", included.as_str(), "http.proxy"),
    ]
    .into_iter()
    .enumerate()
    {
        clones.rename(&one, "MA-3", &format!("Renamed {number}"));
        git(&one, &["config", key, value]);
        let (mut running, address) = up(&clones, &one);
        await_status(&address, "error");
        running.kill();
        let doctor = clones.run(&one, &["doctor"]);
        assert!(doctor.out.contains(part), "{key}: {doctor:?}");
        assert_eq!(tip(&clones.remote()), shared, "{key}");
        git(&one, &["config", "--unset", key]);
        clones.forget_attempt(&one);
    }
    // A command of the user uses the configuration as git does.
    git(&one, &["config", "http.proxy", "http://127.0.0.1:1"]);
    clones.sync(&one, &[]);
}

#[test]
fn failed_background_exchange_is_reported_until_one_succeeds() {
    let clones = Clones::new();
    let one = clones.one();
    clones.sync(&one, &[]);
    configure(&clones, "remote = \"../none-such\"");
    let (mut running, address) = up(&clones, &one);
    await_status(&address, "error");
    running.kill();
    let doctor = clones.run(&one, &["doctor"]);
    assert!(doctor.out.contains("sync: "), "{doctor:?}");
    assert!(doctor.out.contains("../none-such"), "{doctor:?}");
    // A remote that the command names is another one than that of the configuration.
    clones.sync(&one, &["origin"]);
    let doctor = clones.run(&one, &["doctor"]);
    assert!(!doctor.out.contains("sync: "), "{doctor:?}");
}

#[test]
fn repository_without_the_remote_of_the_user_has_nothing_to_exchange() {
    let clones = Clones::new();
    let one = clones.one();
    let attempt = run_directory(&one, &clones.repository.workspace.home()).join("sync.json");
    configure(&clones, "remote = \"elsewhere\"");
    let (_up, address) = up(&clones, &one);
    until(|| attempt.exists().then_some(()));
    await_status(&address, "available");
    let doctor = clones.run(&one, &["doctor"]);
    assert!(!doctor.out.contains("sync: "), "{doctor:?}");
}

#[test]
fn workspace_sets_no_background_exchange_unless_the_user_trusts_it() {
    let clones = Clones::new();
    let one = clones.one();
    fs::write(one.join("orchestra.toml"), "[sync]\nremote = \"origin\"\n").unwrap();
    let shown = clones.run(&one, &["config", "show"]);
    assert!(!shown.out.contains("remote = \"origin\""), "{shown:?}");
    assert!(shown.err.contains("[sync] is not used"), "{shown:?}");
    let (_up, address) = up(&clones, &one);
    let health = get(&address, "/health").json();
    assert!(!health["parts"].to_string().contains("sync"), "{health}");
    let file = clones.repository.workspace.home();
    let trusted = format!(
        "board = \"repository\"\ntrusted_directories = [\"{}\"]\n",
        one.display()
    );
    fs::write(file.join(".config/orchestra/orchestra.toml"), trusted).unwrap();
    let shown = clones.run(&one, &["config", "show"]);
    assert!(shown.out.contains("remote = \"origin\""), "{shown:?}");
}
