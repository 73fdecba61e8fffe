//! Two servers of one program, which offer resources of the same URIs.

use std::{collections::BTreeMap, time::Instant};

use orchestra_hub::{
    Attachment, CompletionRef, Cx, HubNotice, ListKind, Notices, Outcome, ProviderError, Request,
    Target,
};
use serde_json::{Value, json};
use tokio::time::{Duration, timeout};

use crate::rig::{PATIENCE, Rig, child};

const WATCHED: &str = "test://watched-resource";

/// The first that is configured, and the second; their names are in the other order.
const TWINS: [&str; 2] = ["zeta", "alpha"];

struct Pair {
    rig: Rig,
    attachment: Attachment,
}

impl Pair {
    async fn start(era: &str) -> Self {
        let twin = |name: &str| child(name, "everything", &["--era", era]);
        let rig = Rig::with(&TWINS.map(twin)).await;
        rig.until(|| TWINS.iter().all(|name| rig.report(name).is_known))
            .await;
        let attachment = rig.attach();
        Self { rig, attachment }
    }

    /// The URIs of a list, in their order.
    fn uris(&self, kind: ListKind, key: &str) -> Vec<String> {
        let items = self.rig.list(kind);
        let uris = items.iter().map(|item| item[key].as_str().unwrap());
        uris.map(str::to_owned).collect()
    }

    async fn ask(&self, target: Target) -> Result<Value, ProviderError> {
        let cx = Cx::default();
        let asked = timeout(PATIENCE, self.attachment.call(Request { target, cx })).await;
        match asked.expect("an answer in time")? {
            Outcome::Verbatim { result, .. } => Ok(result.parse().unwrap()),
            other => panic!("as it came, and not {other:?}"),
        }
    }

    /// What is answered, and by whom.
    async fn asked_of(&self, target: Target) -> (Value, &'static str) {
        let count = |name: &str| self.rig.report(name).calls.answered;
        let before = TWINS.map(count);
        let answer = self.ask(target).await.unwrap();
        let after = TWINS.map(count);
        let who = TWINS.iter().zip(before.iter().zip(after));
        let mut who = who.filter(|(_, (before, after))| after > before);
        let (name, _) = who.next().expect("one of them answers");
        assert!(who.next().is_none(), "one of them answers");
        (answer, name)
    }

    /// Has a server announce a change of its resource until somebody hears of one, under which URI.
    async fn announced_by(&self, server: &str, notices: &mut Notices) -> String {
        let end = Instant::now() + PATIENCE;
        let tool = format!("{server}__test_update_resource");
        loop {
            assert!(Instant::now() < end, "a change is not told");
            self.rig.call(&tool, json!({ "uri": WATCHED })).await.ok();
            let heard = timeout(Duration::from_millis(100), notices.next()).await;
            if let Ok(Some(HubNotice::ResourceUpdated(uri))) = heard {
                return uri.to_string();
            }
        }
    }
}

async fn both_are_reachable(era: &str) {
    let pair = Pair::start(era).await;
    let resources = pair.uris(ListKind::Resources, "uri");
    let plain: Vec<_> = resources
        .iter()
        .filter(|uri| uri.starts_with("test://"))
        .cloned()
        .collect();
    assert!(plain.iter().any(|uri| uri == WATCHED), "{resources:?}");
    // Each once as it is, of the first, and once as that of the second.
    for uri in &plain {
        let other = format!("mcp+alpha:{uri}");
        let count = |wanted: &str| resources.iter().filter(|uri| *uri == wanted).count();
        assert_eq!((count(uri), count(&other)), (1, 1), "{uri}: {resources:?}");
    }
    assert!(!resources.iter().any(|uri| uri.contains("zeta")));
    let templates = pair.uris(ListKind::Templates, "uriTemplate");
    let template = "test://template/{id}/data";
    let other = format!("mcp+alpha:{template}");
    assert!(templates.contains(&template.to_owned()) && templates.contains(&other));
    for (prefix, owner) in [("", "zeta"), ("mcp+alpha:", "alpha")] {
        for (uri, text) in [
            ("test://static-text", "Content of the static text."),
            ("test://template/7/data", "Data for 7"),
        ] {
            let uri = format!("{prefix}{uri}");
            let (read, by) = pair.asked_of(Target::Resource { uri: uri.clone() }).await;
            assert_eq!(
                (read["contents"][0]["uri"].as_str(), by),
                (Some(&*uri), owner)
            );
            let said = read["contents"][0]["text"].as_str().unwrap();
            assert!(said.contains(text), "{read}");
        }
        let (completed, by) = pair
            .asked_of(Target::Complete {
                reference: CompletionRef::Resource(format!("{prefix}{template}")),
                argument: "id".into(),
                value: String::new(),
                context: BTreeMap::new(),
            })
            .await;
        assert_eq!(completed["completion"]["values"], json!(["1", "2", "3"]));
        assert_eq!(by, owner);
    }
    let uri = "mcp+nobody:test://static-text".to_owned();
    pair.ask(Target::Resource { uri }).await.unwrap_err();
    watched(&pair).await;
    pair.rig.close(&[]).await;
}

/// The next resource that is announced as changed.
async fn updated(notices: &mut Notices) -> String {
    let updated = async {
        loop {
            if let Some(HubNotice::ResourceUpdated(uri)) = notices.next().await {
                return uri.to_string();
            }
        }
    };
    timeout(PATIENCE, updated).await.expect("it is announced")
}

/// Each is told as what it is watched as, and to nobody who watches the other.
async fn watched(pair: &Pair) {
    let other = format!("mcp+alpha:{WATCHED}");
    let (first, second) = (pair.rig.attach(), pair.rig.attach());
    let (mut of_first, mut of_second) = (
        first.take_notices().unwrap(),
        second.take_notices().unwrap(),
    );
    let is_update = |notice: &HubNotice| matches!(notice, HubNotice::ResourceUpdated(_));
    first.subscribe(WATCHED).unwrap();
    second.subscribe(&other).unwrap();
    // The beginning of each subscription is announced.
    assert_eq!(updated(&mut of_first).await, WATCHED);
    assert_eq!(updated(&mut of_second).await, other);
    assert_eq!(pair.announced_by("alpha", &mut of_second).await, other);
    while let Ok(Some(notice)) = timeout(Duration::from_millis(100), of_first.next()).await {
        assert!(!is_update(&notice), "another's: {notice:?}");
    }
    assert_eq!(pair.announced_by("zeta", &mut of_first).await, WATCHED);
    while let Ok(Some(notice)) = timeout(Duration::from_millis(1), of_second.next()).await {
        assert!(
            !is_update(&notice)
                || matches!(&notice, HubNotice::ResourceUpdated(uri) if **uri == *other)
        );
    }
    // It is over for who leaves it.
    second.unsubscribe(&other);
    assert_eq!(pair.announced_by("zeta", &mut of_first).await, WATCHED);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_of_two_servers_with_sessions_are_reachable() {
    both_are_reachable("session").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_of_two_stateless_servers_are_reachable() {
    both_are_reachable("stateless").await;
}
