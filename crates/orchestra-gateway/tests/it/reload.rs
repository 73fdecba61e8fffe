//! Files that change while servers run.

use std::{fs, sync::Arc, time::Duration};

use orchestra_gateway::{
    discovery::{Change, Found},
    watch::Watching,
};
use tokio::{sync::watch, time::timeout};

use crate::support::{World, states};

const PATIENCE: Duration = Duration::from_secs(60);

fn watching(world: &World) -> (Watching, watch::Receiver<Arc<Found>>) {
    let watching = Watching::start(world.places.clone(), world.scope(), world.decisions()).unwrap();
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
    // A file that is broken for a moment is told, and is back when it is mended.
    world.write(user, "{");
    until(&mut found, &[]).await;
    assert_eq!(found.borrow().diagnostics.len(), 1);
    world.write(user, r#"{"mcpServers": {"a": {"command": "y"}}}"#);
    until(&mut found, &[("a", "enabled")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_together_is_taken_together() {
    let world = World::new();
    let (_watching, mut found) = watching(&world);
    found.mark_unchanged();
    let path = "home/.config/orchestra/mcp.json";
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
