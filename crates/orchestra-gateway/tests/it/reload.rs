//! Files that change while servers run.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use orchestra_gateway::{
    discovery::{Change, Found, ServerState},
    watch::Watching,
};
use serde_json::json;
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval, timeout},
};

use crate::{
    played::{self, Bench, Played, tool},
    rig::{Rig, is_soak, say},
    support::{World, states},
};

const PATIENCE: Duration = Duration::from_secs(60);

fn watching(world: &World) -> (Watching, watch::Receiver<Arc<Found>>) {
    let watching = Watching::start(
        world.places.clone(),
        world.scope(),
        world.decisions(),
        watch::channel(true).1,
    )
    .unwrap();
    let found = watching.found();
    (watching, found)
}

async fn until(found: &mut watch::Receiver<Arc<Found>>, expected: &[(&str, &str)]) {
    let met = found.wait_for(|found| states(found) == expected);
    let met = timeout(PATIENCE, met).await.map(|met| met.is_ok());
    assert_eq!(met, Ok(true), "{:?}", states(&found.borrow()));
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_come_change_and_go_are_seen() {
    let world = World::new();
    let (_watching, mut found) = watching(&world);
    assert_eq!(states(&found.borrow()), []);
    // Neither the file nor its directories were there.
    let user = "home/.config/orchestra/mcp.json";
    let path = world.write(user, r#"{"mcpServers": {"a": {"command": "x"}}}"#);
    until(&mut found, &[("a", "enabled")]).await;
    world.write(
        "workspace/.vscode/mcp.json",
        r#"{"servers": {"b": {"command": "x"}}}"#,
    );
    until(&mut found, &[("b", "needs_approval"), ("a", "enabled")]).await;
    // What the user decides is seen as well.
    world.approve("b");
    until(&mut found, &[("b", "enabled"), ("a", "enabled")]).await;
    // As editors do it: another file takes its place.
    let before = Arc::clone(&found.borrow());
    let other = world.write("home/other", r#"{"mcpServers": {"a": {"command": "y"}}}"#);
    fs::rename(other, &path).unwrap();
    let changed = found.wait_for(|found| !found.changes_since(&before).is_empty());
    let changed = Arc::clone(&timeout(PATIENCE, changed).await.unwrap().unwrap());
    assert!(matches!(
        changed.changes_since(&before)[..],
        [Change::Changed(_)]
    ));
    fs::remove_dir_all(world.path().join("workspace/.vscode")).unwrap();
    until(&mut found, &[("a", "enabled")]).await;
    // A file that is broken for a moment is told, and stops nothing.
    world.write(user, "{");
    let told = found.wait_for(|found| found.diagnostics.len() == 1);
    drop(timeout(PATIENCE, told).await.unwrap().unwrap());
    assert_eq!(states(&found.borrow()), [("a", "enabled")]);
    world.write(user, r#"{"mcpServers": {"c": {"command": "y"}}}"#);
    until(&mut found, &[("c", "enabled")]).await;
    assert_eq!(found.borrow().diagnostics.len(), 0);
    fs::remove_file(&path).unwrap();
    until(&mut found, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn directories_of_the_workspace_and_of_the_system_are_watched() {
    let mut world = World::new();
    world.places.system = Some(world.path().join("etc"));
    let (_watching, mut found) = watching(&world);
    let server = |name: &str| format!(r#"{{"mcpServers": {{"{name}": {{"command": "x"}}}}}}"#);
    let file = world.write("workspace/.orchestra/mcp/one.json", &server("a"));
    until(&mut found, &[("a", "needs_approval")]).await;
    world.write("etc/mcp/one.json", &server("b"));
    until(&mut found, &[("a", "needs_approval"), ("b", "enabled")]).await;
    world.write("etc/mcp.json", &server("c"));
    let all = [("a", "needs_approval"), ("c", "enabled"), ("b", "enabled")];
    until(&mut found, &all).await;
    // One that comes into a directory that is there.
    world.write("workspace/.orchestra/mcp/zwei.yaml", &server("d"));
    let all = [all[0], ("d", "needs_approval"), all[1], all[2]];
    until(&mut found, &all).await;
    fs::remove_file(file).unwrap();
    until(&mut found, &all[1..]).await;
}

/// What a file holds that a server names belongs to its configuration.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_another_when_a_file_that_it_names_changes() {
    let world = World::new();
    let path = "home/.config/orchestra/mcp.json";
    let (a, b) = (
        r#""a": {"command": "a", "envFile": "secrets.env"}"#,
        r#""b": {"command": "b", "env": {"X": "1"}}"#,
    );
    world.write(path, &format!("{{\"mcpServers\": {{{a}, {b}}}}}"));
    // It is not there yet.
    let (_watching, mut found) = watching(&world);
    let (server, other) = (
        Played::new(vec![tool("get")]),
        Played::new(vec![tool("get")]),
    );
    let bench = Bench::new(&[("a", &server), ("b", &other)]);
    let apply = |found: &Found| {
        let usable = found.usable().map(|config| (**config).clone());
        bench.gateway.apply(usable.collect());
    };
    apply(&found.borrow_and_update());
    assert_eq!(bench.tools().await, ["a__get", "b__get"]);
    for (text, connects) in [("KEY=hunter-2", 2), ("KEY=hunter-3", 3)] {
        world.write("workspace/secrets.env", text);
        timeout(PATIENCE, found.changed()).await.unwrap().unwrap();
        let now = Arc::clone(&found.borrow_and_update());
        assert!(!format!("{now:?}").contains("hunter"));
        apply(&now);
        played::until(|| server.connects.load(Ordering::SeqCst) == connects).await;
    }
    assert_eq!(other.connects.load(Ordering::SeqCst), 1);
    // Written anew with what it held, it is the same.
    let before = world.find();
    world.write("workspace/secrets.env", "KEY=hunter-3");
    assert_eq!(world.find().changes_since(&before), []);
}

/// A secret that comes, or is made private, mends its server without a change of the configuration.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_used_as_soon_as_its_secret_can_be() {
    use std::os::unix::fs::PermissionsExt as _;

    let world = World::new();
    let secret = world.path().join("secrets/there");
    let auth = json!({
        "type": "client_credentials", "client_id": "me", "client_secret_file": secret,
    });
    let server = json!({"url": "https://example.com/mcp", "auth": auth});
    let servers = json!({"mcpServers": {"there": server}});
    world.write("home/.config/orchestra/mcp.json", &servers.to_string());
    let (_watching, mut found) = watching(&world);
    let reason = |found: &Found| match &found.server("there").unwrap().state {
        ServerState::Invalid { reason } => reason.clone(),
        ServerState::Usable(_) => "usable".to_owned(),
        other => panic!("{other:?}"),
    };
    assert!(reason(&found.borrow_and_update()).contains("cannot be read"));
    let path = world.write("secrets/there", "hunter");
    let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode));
    mode(0o604).unwrap();
    let is_open = |found: &Arc<Found>| reason(found).contains("chmod o= ");
    timeout(PATIENCE, found.wait_for(is_open))
        .await
        .unwrap()
        .unwrap();
    mode(0o640).unwrap();
    let is_usable = |found: &Arc<Found>| reason(found) == "usable";
    timeout(PATIENCE, found.wait_for(is_usable))
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_together_is_taken_together() {
    let world = World::new();
    let (_watching, mut found) = watching(&world);
    let path = "home/.config/orchestra/mcp.json";
    // Once it is found, the files are watched.
    world.write(path, r#"{"mcpServers": {"first": {"command": "x"}}}"#);
    let is_watched = |found: &Arc<Found>| found.server("first").is_some();
    timeout(PATIENCE, found.wait_for(is_watched))
        .await
        .unwrap()
        .unwrap();
    found.mark_unchanged();
    for n in 0..50 {
        let servers: Vec<String> = (0..=n)
            .map(|n| format!("\"s{n}\": {{\"command\": \"x\"}}"))
            .collect();
        world.write(
            path,
            &format!("{{\"mcpServers\": {{{}}}}}", servers.join(",")),
        );
    }
    timeout(PATIENCE, found.changed()).await.unwrap().unwrap();
    assert_eq!(found.borrow().servers.len(), 50);
}

/// Servers that stay while others come, change and go.
fn others_change(round: usize) -> String {
    let stays = |name: &str| format!("\"{name}\": {{\"command\": \"faulty\"}}");
    let changes =
        format!("\"changes\": {{\"command\": \"faulty\", \"description\": \"round {round}\"}}");
    let mut servers = vec![stays("one"), changes, stays("two")];
    if !round.is_multiple_of(2) {
        servers.insert(0, stays("guest"));
    }
    let space = "\n".repeat(round);
    format!("{{{space}\"mcpServers\": {{{}}}}}", servers.join(", "))
}

/// Neither of servers that stay, nor of one that is replaced each time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_is_dropped_while_the_configuration_changes() {
    let (world, rounds) = (World::new(), if is_soak() { 100 } else { 4 });
    let path = "home/.config/orchestra/mcp.json";
    world.write(path, &others_change(0));
    let (_watching, mut found) = watching(&world);
    let rig = Arc::new(Rig::new());
    let apply = |found: &Found| {
        let usable = found.usable().map(|config| (**config).clone());
        rig.gateway.apply(usable.collect());
    };
    apply(&found.borrow_and_update());
    for name in ["one", "changes", "two"] {
        rig.is_well(name).await;
    }
    let processes = ["one", "two"].map(|name| rig.process(name));
    let over = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..50)
        .map(|caller| {
            let (rig, over) = (Arc::clone(&rig), Arc::clone(&over));
            tokio::spawn(async move {
                let (mut calls, mut pace) = (0_usize, interval(Duration::from_millis(5)));
                pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
                while !over.load(Ordering::Relaxed) {
                    let server = ["one", "two", "changes"][(caller + calls) % 3];
                    let text = format!("{caller} {calls}");
                    let arguments = json!({ "text": text });
                    let told = rig.call(&format!("{server}__echo"), arguments).await;
                    assert_eq!(told.ok(), text);
                    calls += 1;
                    // Callers think in between.
                    pace.tick().await;
                }
                calls
            })
        })
        .collect();
    for round in 1..=rounds {
        world.write(path, &others_change(round));
        timeout(PATIENCE, found.changed()).await.unwrap().unwrap();
        apply(&found.borrow_and_update());
        rig.is_well("changes").await;
    }
    over.store(true, Ordering::Relaxed);
    let mut calls = 0;
    for caller in callers {
        calls += caller.await.unwrap();
    }
    assert_eq!(["one", "two"].map(|name| rig.process(name)), processes);
    say(&format!(
        "{rounds} reloads under 50 callers: {calls} calls, none dropped"
    ));
    let Ok(rig) = Arc::try_unwrap(rig) else {
        panic!("all callers have ended");
    };
    rig.close(&[]).await;
}
