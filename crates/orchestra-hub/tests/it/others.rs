//! Providers that speak for servers of others: not known at once, of names that may be taken, and
//! told what callers want.

use std::{
    num::NonZeroUsize,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use orchestra_hub::{
    BoxFuture, Catalog, Cx, Hub, HubConfig, HubNotice, ListKind, LogLevel, LongWork, Notice,
    Offers, Outcome, PeerReport, PeerStatus, Provider, ProviderError, ProviderId, Request, Target,
    Toolset,
};
use orchestra_wire::{RawJson, Revision};
use serde_json::json;
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

use crate::provider::{call, call_of, caller, hub, provider, resources, text, tools};

/// A provider over another that knows later what it offers.
pub(crate) struct Late {
    inner: Arc<crate::provider::TestProvider>,
    is_ready: AtomicBool,
    wanted: AtomicUsize,
    served: AtomicUsize,
    levels: Mutex<Vec<Option<LogLevel>>>,
    peer: Mutex<Option<PeerReport>>,
}

pub(crate) fn late(id: &str) -> Arc<Late> {
    Arc::new(Late {
        inner: provider(id, Catalog::default()),
        is_ready: AtomicBool::new(false),
        wanted: AtomicUsize::new(0),
        served: AtomicUsize::new(0),
        peer: Mutex::default(),
        levels: Mutex::default(),
    })
}

/// Resolves when something was counted.
async fn comes(count: &AtomicUsize) {
    while count.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
}

impl Late {
    /// Resolves when somebody waits for what it offers.
    async fn is_waited_for(&self) {
        comes(&self.wanted).await;
    }

    pub(crate) fn know(&self, catalog: Catalog) {
        self.is_ready.store(true, Ordering::SeqCst);
        self.inner.catalog.send_replace(Arc::new(catalog));
    }
}

impl Provider for Late {
    fn id(&self) -> &ProviderId {
        self.inner.id()
    }

    fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.inner.catalog()
    }

    fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::SeqCst)
    }

    fn peer(&self) -> Option<PeerReport> {
        self.peer.lock().unwrap().clone()
    }

    fn may_know(&self, name: &str) -> bool {
        !self.is_ready() && name.starts_with("late__")
    }

    fn list_wanted(&self) {
        self.wanted.fetch_add(1, Ordering::SeqCst);
    }

    fn may_offer(&self) -> Offers {
        Offers {
            prompts: !self.is_ready(),
            ..Offers::default()
        }
    }

    fn server(&self) -> Option<&str> {
        Some("late")
    }

    fn concurrency(&self) -> Option<NonZeroUsize> {
        NonZeroUsize::new(1)
    }

    fn serve(&self, request: Request) -> BoxFuture<Result<Outcome, ProviderError>> {
        self.served.fetch_add(1, Ordering::SeqCst);
        self.inner.serve(request)
    }

    fn notices(&self) -> Option<mpsc::Receiver<Notice>> {
        self.inner.notices()
    }

    fn set_log_level(&self, level: Option<LogLevel>) {
        self.levels.lock().unwrap().push(level);
    }
}

fn list() -> Request {
    list_of(ListKind::Tools)
}

fn list_of(kind: ListKind) -> Request {
    let revision = Revision::NEWEST;
    let target = Target::List {
        kind,
        revision,
        start: 0,
        limit: 10,
    };
    let cx = Cx::default();
    Request { target, cx }
}

async fn listed(hub: &Hub) -> String {
    let attachment = hub.attach(caller(), Toolset::All);
    let Ok(Outcome::List { items, .. }) = attachment.call(list()).await else {
        panic!("a list")
    };
    String::from_utf8(items.to_vec()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_list_waits_for_who_does_not_know_yet_and_not_for_long() {
    let late = late("late");
    let hub = Hub::new(HubConfig::default());
    hub.register(late.clone()).unwrap();
    let attachment = hub.attach(caller(), Toolset::All);
    assert!(attachment.offers().prompts, "there may be prompts");
    assert!(hub.toolset("server:late").is_ok());
    assert!(!attachment.is_settled());
    let (waiting, begun) = (tokio::spawn(attachment.call(list())), Instant::now());
    late.is_waited_for().await;
    late.know(tools(&["one"]));
    let Outcome::List { items, next, .. } = waiting.await.unwrap().unwrap() else {
        panic!("a list")
    };
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert_eq!(
        (items.starts_with(b"{\"name\":\"one\""), next),
        (true, None)
    );
    assert_eq!(late.wanted.load(Ordering::SeqCst), 1);
    assert!(attachment.is_settled());
}

/// The only provider that offers resources would answer that there is none.
#[tokio::test(start_paused = true)]
async fn read_waits_for_each_provider_that_starts() {
    let (late, never) = (late("late"), late("never"));
    let mut here = resources();
    here.resources[0].uri = "here://one".into();
    here.templates.clear();
    let hub = hub(&[&provider("here", here)]);
    hub.register(never.clone()).unwrap();
    hub.register(late.clone()).unwrap();
    let attachment = hub.attach(caller(), Toolset::All);
    let read = |uri: &str| {
        let target = Target::Resource { uri: uri.into() };
        let cx = Cx::default();
        attachment.call(Request { target, cx })
    };
    let (listed, by_template) = (read("test://one"), read("test://many/7"));
    let reading = tokio::spawn(async move { (listed.await, by_template.await) });
    late.is_waited_for().await;
    tokio::time::advance(HubConfig::default().list_wait * 2).await;
    late.know(resources());
    let (listed, by_template) = reading.await.unwrap();
    for answer in [listed, by_template] {
        let said = text(answer.unwrap());
        assert!(said.starts_with("late Resource"), "{said}");
    }
    // A read of a listed resource does not wait, and a read of an unlisted resource does not wait forever.
    let begun = Instant::now();
    let said = text(read("here://one").await.unwrap());
    assert!(said.starts_with("here Resource"), "{said}");
    assert_eq!(begun.elapsed(), Duration::ZERO);
    let error = read("other://one").await.unwrap_err();
    assert!(matches!(error, ProviderError::Unknown { .. }), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn reads_of_unknown_uris_wait_once_for_a_provider_that_starts() {
    let (first, second) = (late("first"), late("second"));
    let hub = hub(&[&provider("here", tools(&["a"]))]);
    hub.register(first.clone()).unwrap();
    let attachment = hub.attach(caller(), Toolset::All);
    let read = async |uri: &str| {
        let target = Target::Resource { uri: uri.into() };
        let cx = Cx::default();
        let begun = Instant::now();
        let answer = attachment.call(Request { target, cx }).await;
        (answer.map(text), begun.elapsed())
    };
    let is_about = |waited: Duration, seconds: u64| {
        let difference = waited.abs_diff(Duration::from_secs(seconds));
        assert!(difference < Duration::from_millis(100), "{waited:?}");
    };
    // Reads at once wait together.
    let (one, two) = tokio::join!(read("other://one"), read("other://two"));
    for (answer, waited) in [one, two] {
        let error = answer.unwrap_err();
        assert!(matches!(error, ProviderError::Unknown { .. }), "{error}");
        is_about(waited, 5);
    }
    let (answer, waited) = read("other://three").await;
    answer.unwrap_err();
    is_about(waited, 0);
    // Another provider is waited for as well.
    hub.register(second.clone()).unwrap();
    let (answer, waited) = read("other://one").await;
    answer.unwrap_err();
    is_about(waited, 5);
    first.know(resources());
    let (answer, waited) = read("test://one").await;
    let said = answer.unwrap();
    assert!(said.starts_with("first Resource"), "{said}");
    is_about(waited, 0);
}

#[tokio::test]
async fn call_of_a_tool_that_is_not_listed_yet_may_last() {
    let late = late("late");
    let hub = hub(&[&provider("here", tools(&["here"]))]);
    hub.register(late.clone()).unwrap();
    let attachment = hub.attach(caller(), Toolset::All);
    let long = |name: &str| attachment.long_work(&call_of(name, &json!({})).target);
    assert_eq!(long("here"), LongWork::Never);
    assert_eq!(long("there"), LongWork::Later);
    late.know(tools(&["there"]));
    assert_eq!(long("there"), LongWork::Never);
    assert_eq!(long("nowhere"), LongWork::Never);
}

#[tokio::test(start_paused = true)]
async fn who_never_knows_is_waited_for_once() {
    let late = late("late");
    let hub = hub(&[&provider("here", tools(&["a"]))]);
    hub.register(late.clone()).unwrap();
    let begun = Instant::now();
    assert!(listed(&hub).await.contains("\"a\""));
    let waited = begun.elapsed();
    let most = HubConfig::default().list_wait;
    assert!((most..most + Duration::from_millis(10)).contains(&waited));
    assert!(listed(&hub).await.contains("\"a\""));
    assert_eq!(begun.elapsed(), waited);
    assert_eq!(late.wanted.load(Ordering::SeqCst), 1);
    // What comes later is told.
    let attachment = hub.attach(caller(), Toolset::All);
    let mut notices = attachment.take_notices().unwrap();
    late.know(tools(&["b"]));
    let notice = notices.next().await;
    assert!(matches!(
        notice,
        Some(HubNotice::CatalogChanged { tools: true, .. })
    ));
}

#[tokio::test]
async fn an_empty_list_is_not_shown_for_those_that_failed() {
    let (away, well) = (late("away"), provider("well", Catalog::default()));
    away.know(Catalog::default());
    let report = PeerReport {
        status: PeerStatus::Offline,
        reason: Some("exit code 3; the end of its stderr: \"boom\"".into()),
        own_reason: Some("exit code 3, api_key=abcdef0123".into()),
        ..PeerReport::default()
    };
    *away.peer.lock().unwrap() = Some(report);
    let hub = hub(&[&well]);
    assert!(listed(&hub).await.is_empty(), "there are none");
    hub.register(away.clone()).unwrap();
    let attachment = hub.attach(caller(), Toolset::All);
    let error = attachment.call(list()).await.unwrap_err().to_string();
    assert!(
        error.contains("away is offline (exit code 3, api_key=***)"),
        "{error}"
    );
    for (kind, what) in [
        (ListKind::Prompts, "no prompts are known: away is offline"),
        (
            ListKind::Resources,
            "no resources are known: away is offline",
        ),
        (
            ListKind::Templates,
            "no resource templates are known: away is offline",
        ),
    ] {
        let error = attachment
            .call(list_of(kind))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(what), "{error}");
    }
    // One that is bad hides nobody.
    well.catalog.send_replace(Arc::new(tools(&["a"])));
    while !listed(&hub).await.contains("\"a\"") {
        tokio::task::yield_now().await;
    }
    // What is known of one is shown, but for what it could not list.
    let report = |unlisted| PeerReport {
        status: PeerStatus::Ready,
        is_known: true,
        unlisted,
        ..PeerReport::default()
    };
    *away.peer.lock().unwrap() = Some(report(vec![ListKind::Prompts]));
    let error = attachment.call(list_of(ListKind::Prompts)).await;
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("away is ready and cannot list them"),
        "{error}"
    );
    *away.peer.lock().unwrap() = Some(report(Vec::new()));
    for kind in [ListKind::Prompts, ListKind::Resources, ListKind::Templates] {
        attachment.call(list_of(kind)).await.unwrap();
    }
}

#[tokio::test]
async fn unknown_name_is_refused_with_the_servers_whose_lists_are_not_known() {
    let late = late("late");
    late.know(Catalog::default());
    let hub = hub(&[&provider("here", tools(&["a"]))]);
    hub.register(late.clone()).unwrap();
    let ask = async |target: Target, tools: &str| {
        let attachment = hub.attach(caller(), Toolset::parse(tools).unwrap());
        let cx = Cx::default();
        attachment.call(Request { target, cx }).await.unwrap_err()
    };
    let tool = |name: &str| call_of(name, &json!({})).target;
    let prompt = || Target::Prompt {
        name: "review".into(),
        arguments: std::collections::BTreeMap::new(),
    };
    let resource = || Target::Resource {
        uri: "other://one".into(),
    };
    let report = |status: PeerStatus, is_known: bool, reason: Option<&str>| {
        *late.peer.lock().unwrap() = Some(PeerReport {
            status,
            is_known,
            reason: reason.map(|reason| format!("{reason}: \"call late__b\"")),
            own_reason: reason.map(str::to_owned),
            unlisted: vec![ListKind::Prompts],
            ..PeerReport::default()
        });
    };
    report(PeerStatus::Starting, false, None);
    let error = ask(tool("b"), "all").await.to_string();
    assert_eq!(
        error,
        "unknown tool: b; a server whose current tools are not known may have it: late is starting"
    );
    let error = ask(tool("b"), "test,server:other").await.to_string();
    assert_eq!(error, "unknown tool: b", "it shows no tool of the server");
    report(PeerStatus::Offline, false, Some("exit code 3"));
    let ProviderError::NoResource { message, data } = ask(resource(), "all").await else {
        panic!("an unknown resource")
    };
    assert_eq!(
        message,
        "unknown resource: other://one; a server whose current resources are not known may have it: \
         late is offline (exit code 3)"
    );
    assert_eq!(data.unwrap().as_str(), r#"{"uri":"other://one"}"#);
    // One of its lists failed.
    let why = "its prompts cannot be listed";
    report(PeerStatus::Ready, true, Some(why));
    let error = ask(prompt(), "all").await.to_string();
    assert_eq!(
        error,
        format!(
            "unknown prompt: review; a server whose current prompts are not known may have it: late is \
             ready ({why})"
        )
    );
    for (target, expected) in [
        (tool("b"), "unknown tool: b"),
        (tool("late__b"), "unknown tool: late__b"),
        (resource(), "unknown resource: other://one"),
    ] {
        assert_eq!(ask(target, "all").await.to_string(), expected);
    }
    // The list of a server that is away may be out of date, and the name is its own.
    report(PeerStatus::Restarting, true, Some("exit code 3"));
    assert_eq!(ask(tool("b"), "all").await.to_string(), "unknown tool: b");
    let error = ask(tool("late__b"), "all").await.to_string();
    assert!(
        error.ends_with(r#"late is restarting (exit code 3: "call late__b")"#),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_a_tool_that_may_be_of_who_does_not_know_yet() {
    let late = late("late");
    let hub = hub(&[&provider("here", tools(&["a"]))]);
    hub.register(late.clone()).unwrap();
    let begun = Instant::now();
    assert_eq!(call(&hub, "a").await.unwrap(), "here a {}");
    assert_eq!(begun.elapsed(), Duration::ZERO, "known already");
    let attachment = hub.attach(caller(), Toolset::All);
    let waiting = tokio::spawn(attachment.call(call_of("one", &json!({}))));
    late.is_waited_for().await;
    late.know(tools(&["one"]));
    assert_eq!(text(waiting.await.unwrap().unwrap()), "late one {}");
    let error = call(&hub, "none").await.unwrap_err();
    assert_eq!(error.to_string(), "unknown tool: none");
}

#[tokio::test]
async fn names_that_are_taken_are_left_out_and_told() {
    let hub = hub(&[&provider("first", tools(&["same"]))]);
    let second = provider("second", tools(&["other", "same"]));
    let collisions = hub.register_beside(second).unwrap();
    let told: Vec<String> = collisions.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        ["tool same of provider second is already offered by provider first"]
    );
    let names = hub.tools(&Toolset::All).into_iter().map(|tool| tool.name);
    assert_eq!(names.collect::<Vec<_>>(), ["same", "other"]);
    assert_eq!(call(&hub, "same").await.unwrap(), "first same {}");
    let again = hub.register_beside(provider("second", tools(&[])));
    assert!(again.is_err(), "its id is taken");
}

#[tokio::test(start_paused = true)]
async fn a_provider_says_how_many_of_its_calls_run_at_once() {
    let late = late("late");
    late.know(tools(&["wait", "a"]));
    let hub = Hub::new(HubConfig::default());
    hub.register(late.clone()).unwrap();
    let attachment = hub.attach(caller(), Toolset::All);
    let first = tokio::spawn(attachment.call(call_of("wait", &json!({}))));
    comes(&late.served).await;
    let mut second = tokio::spawn(attachment.call(call_of("a", &json!({}))));
    let waits = tokio::time::timeout(Duration::from_secs(1), &mut second).await;
    assert!(waits.is_err());
    late.inner.gate.notify_one();
    first.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
}

#[tokio::test]
async fn providers_hear_the_least_severe_level_that_anybody_wants() {
    let (early, later) = (late("early"), late("later"));
    let hub = Hub::new(HubConfig::default());
    hub.register(early.clone()).unwrap();
    let one = hub.attach(caller(), Toolset::All);
    let two = hub.attach(caller(), Toolset::All);
    one.set_log_level(Some(LogLevel::Error));
    two.set_log_level(Some(LogLevel::Debug));
    one.set_log_level(Some(LogLevel::Warning));
    hub.register(later.clone()).unwrap();
    drop(two);
    drop(one);
    let expected = [
        Some(LogLevel::Error),
        Some(LogLevel::Debug),
        Some(LogLevel::Warning),
        None,
    ];
    assert_eq!(*early.levels.lock().unwrap(), expected);
    assert_eq!(*later.levels.lock().unwrap(), expected[1..]);
}

#[tokio::test]
async fn notifications_that_nobody_knows_reach_all() {
    let p = provider("p", tools(&["a"]));
    let hub = hub(&[&p]);
    let attachment = hub.attach(caller(), Toolset::All);
    let mut notices = attachment.take_notices().unwrap();
    let notice = Notice::Other {
        method: "notifications/custom".into(),
        params: Some(RawJson::empty_object()),
        client: None,
    };
    p.notices.send(notice).await.unwrap();
    let Some(HubNotice::Other { method, params }) = notices.next().await else {
        panic!("a notification")
    };
    assert_eq!(
        (&*method, params.unwrap().as_str()),
        ("notifications/custom", "{}")
    );
}

#[tokio::test]
async fn resources_that_are_not_listed_go_to_who_reads_such() {
    let open = |scheme: &str| {
        let mut catalog = resources();
        catalog.reads_unlisted = true;
        catalog.resources[0].uri = format!("{scheme}://one");
        catalog.templates.clear();
        catalog
    };
    let (closed, files) = (
        provider("closed", resources()),
        provider("files", open("file")),
    );
    let hub = hub(&[&closed, &files]);
    let reader = |hub: &Hub, uri: &str| {
        let attachment = hub.attach(caller(), Toolset::All);
        let target = Target::Resource { uri: uri.into() };
        let call = attachment.call(Request {
            target,
            cx: Cx::default(),
        });
        async move {
            let answer = call.await.map(text);
            answer.map(|text| text.split(' ').next().unwrap().to_owned())
        }
    };
    assert_eq!(reader(&hub, "file://else").await.unwrap(), "files");
    assert_eq!(reader(&hub, "new://x").await.unwrap(), "files");
    assert!(
        reader(&hub, "test://unlisted").await.is_err(),
        "its owner lists all"
    );
    hub.register(provider("web", open("http"))).unwrap();
    assert_eq!(reader(&hub, "http://x").await.unwrap(), "web");
    assert_eq!(reader(&hub, "file://else").await.unwrap(), "files");
    assert!(
        reader(&hub, "new://x").await.is_err(),
        "nobody knows whose it is"
    );
}
