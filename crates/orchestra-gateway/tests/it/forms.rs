//! A server of others in each form that it may have (either era, over stdio and over HTTP), used
//! through the hub: everything that a client may want of it comes through alike.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use orchestra_gateway::config::ServerConfig;
use orchestra_hub::{
    Attachment, CancelSource, CompletionRef, Cx, HubNotice, Later, ListKind, LogLevel, LongWork,
    Notices, Outcome, ProgressListener, ProgressSink, ProviderError, Request, Target,
};
use orchestra_wire::RawJson;
use serde_json::{Value, json};
use tokio::{sync::watch, time::timeout};

use crate::{
    played::tool_call,
    rig::{PATIENCE, Rig, child, example, http},
};

/// The fixture over HTTP, as a process of its own.
struct Endpoint {
    process: Child,
    url: String,
}

impl Endpoint {
    fn start(era: &str) -> Self {
        let mut process = Command::new(example("everything"))
            .args(["--http", "127.0.0.1:0", "--era", era])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = BufReader::new(process.stderr.take().unwrap());
        let mut url = String::new();
        told.read_line(&mut url).unwrap();
        // What else it says is read, so that it is never held up.
        std::thread::spawn(move || std::io::copy(&mut told, &mut std::io::sink()));
        let url = url.trim().to_owned();
        assert!(url.starts_with("http://"), "{url}");
        Self { process, url }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// What calls report.
#[derive(Default)]
struct Heard {
    progress: watch::Sender<Vec<f64>>,
    logs: Mutex<Vec<String>>,
}

impl ProgressListener for Heard {
    fn progress(&self, progress: f64, _: Option<f64>, _: Option<&str>) {
        self.progress.send_modify(|heard| heard.push(progress));
    }

    fn log(&self, _: LogLevel, logger: Option<&str>, data: &RawJson) {
        let line = format!("{}: {}", logger.unwrap_or_default(), data.as_str());
        self.logs.lock().unwrap().push(line);
    }
}

/// A client of the gateway.
struct Tour {
    rig: Rig,
    attachment: Attachment,
    notices: Notices,
}

impl Tour {
    async fn ask(&self, target: Target) -> Result<Value, ProviderError> {
        let cx = Cx::default();
        let asked = timeout(PATIENCE, self.attachment.call(Request { target, cx })).await;
        match asked.expect("an answer in time")? {
            Outcome::Verbatim { result, .. } => Ok(result.parse().unwrap()),
            other => panic!("as it came, and not {other:?}"),
        }
    }

    async fn hears(&mut self, what: impl Fn(&HubNotice) -> bool) -> HubNotice {
        loop {
            let notice = timeout(PATIENCE, self.notices.next()).await;
            let notice = notice.expect("a notice in time").expect("the hub lives");
            if what(&notice) {
                return notice;
            }
        }
    }

    async fn resources_prompts_and_completion(&self) {
        for (uri, expected) in [
            ("test://static-text", "Content of the static text."),
            ("test://template/7/data", "Data for 7"),
        ] {
            let read = self
                .ask(Target::Resource { uri: uri.into() })
                .await
                .unwrap();
            let text = read["contents"][0]["text"].as_str().unwrap();
            assert!(text.contains(expected), "{read}");
        }
        let uri = "test://gone".to_owned();
        let error = self.ask(Target::Resource { uri }).await.unwrap_err();
        let is_gone = matches!(
            error,
            ProviderError::NoResource { .. } | ProviderError::Unknown { .. }
        );
        assert!(is_gone, "{error:?}");
        let prompt = "s__test_prompt_with_arguments".to_owned();
        let arguments = [("arg1", "x"), ("arg2", "y")];
        let arguments: BTreeMap<String, String> = arguments
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        let told = self.ask(Target::Prompt {
            name: prompt.clone(),
            arguments,
        });
        let told = told.await.unwrap();
        let text = told["messages"][0]["content"]["text"].as_str().unwrap();
        assert_eq!(text, "Prompt with arguments: arg1='x', arg2='y'");
        for (reference, argument, value, expected) in [
            (
                CompletionRef::Prompt(prompt),
                "arg1",
                "par",
                json!(["paris", "park", "party"]),
            ),
            (
                CompletionRef::Resource("test://template/{id}/data".into()),
                "id",
                "",
                json!(["1", "2", "3"]),
            ),
        ] {
            let completed = self.ask(Target::Complete {
                reference,
                argument: argument.into(),
                value: value.into(),
                context: BTreeMap::new(),
            });
            let completed = completed.await.unwrap();
            assert_eq!(completed["completion"]["values"], expected);
        }
    }

    async fn progress_and_logging(&mut self) {
        let heard = Arc::new(Heard::default());
        let cx = || Cx {
            progress: ProgressSink::new(Arc::clone(&heard) as Arc<dyn ProgressListener>),
            log_level: Some(LogLevel::Debug),
            ..Cx::default()
        };
        let tool = "s__test_tool_with_progress";
        let told = self.rig.call_with(tool, json!({}), cx()).await;
        assert_eq!(told.ok(), "Progress test completed");
        let all = heard.progress.subscribe().borrow().clone();
        assert_eq!(all, [0.0, 50.0, 100.0]);
        self.attachment.set_log_level(Some(LogLevel::Debug));
        let tool = "s__test_tool_with_logging";
        // When a level has reached the server is nobody's to see: it is called until it is heard.
        let end = std::time::Instant::now() + PATIENCE;
        loop {
            let told = self.rig.call_with(tool, json!({}), cx()).await;
            assert_eq!(told.ok(), "Logging test completed");
            let logs = heard.logs.lock().unwrap().clone();
            let next = timeout(Duration::from_millis(50), self.notices.next()).await;
            let by_notice = matches!(&next, Ok(Some(HubNotice::Log { logger: Some(logger), .. }))
                if logger.contains("everything"));
            let by_call = logs.iter().any(|line| line.contains("everything"));
            if by_notice || by_call {
                break;
            }
            assert!(std::time::Instant::now() < end, "nothing is logged");
        }
    }

    async fn subscription_and_changes(&mut self) {
        let uri = "test://watched-resource";
        self.attachment.subscribe(uri).unwrap();
        let is_update = |notice: &HubNotice| matches!(notice, HubNotice::ResourceUpdated(_));
        // When a subscription has begun is nobody's to see: it is told until it is heard.
        let end = std::time::Instant::now() + PATIENCE;
        loop {
            let arguments = json!({ "uri": uri });
            self.rig
                .call("s__test_update_resource", arguments)
                .await
                .ok();
            let heard = timeout(Duration::from_millis(100), self.notices.next()).await;
            if heard.is_ok_and(|notice| notice.as_ref().is_some_and(is_update)) {
                break;
            }
            assert!(std::time::Instant::now() < end, "a change is not told");
        }
        self.attachment.unsubscribe(uri);
        let before = self.rig.list(ListKind::Tools).len();
        self.rig
            .call("s__test_trigger_tool_change", json!({}))
            .await
            .ok();
        self.hears(|notice| matches!(notice, HubNotice::CatalogChanged { tools: true, .. }))
            .await;
        let tools = self.rig.tools();
        assert_eq!(tools.len(), before + 1);
        let added = tools.last().unwrap();
        let name = added.strip_prefix("s__").unwrap();
        assert_eq!(self.rig.call(added, json!({})).await.ok(), name);
    }

    async fn cancellation(&self) {
        let source = CancelSource::default();
        let cx = Cx {
            cancel: source.signal(),
            ..Cx::default()
        };
        let target = tool_call("s__test_slow", &json!({"milliseconds": 600_000}));
        let call = tokio::spawn(self.attachment.call(Request { target, cx }));
        // It has begun.
        let is_sent = || self.rig.report("s").in_flight > 0;
        self.rig.until(is_sent).await;
        source.cancel();
        let ended = timeout(PATIENCE, call).await.unwrap().unwrap();
        assert!(matches!(ended, Err(ProviderError::Cancelled)), "{ended:?}");
        self.rig.until(|| !is_sent()).await;
    }

    /// A call that its server goes on with after it has answered, or that lasts where its server knows
    /// no such thing, is one call for its caller, who need not wait for it where that caller knows
    /// tasks.
    async fn task(&self) {
        let later = Later::default();
        let cx = Cx {
            long: true,
            later: Some(later.clone()),
            ..Cx::default()
        };
        let name = "s__slow_compute";
        let arguments = json!({"seconds": 0.4, "label": "it"});
        let long = self.attachment.long_work(&tool_call(name, &arguments));
        assert_eq!(long, LongWork::Later);
        let told = self.rig.call_with(name, arguments.clone(), cx).await;
        assert_eq!(told.ok(), "computed it");
        let told = self.rig.call(name, arguments).await;
        assert_eq!(told.ok(), "computed it");
        let begun = timeout(PATIENCE, later.begun()).await;
        assert!(begun.is_ok(), "nobody made a task of it");
    }
}

async fn tour(config: ServerConfig, revision: &str) {
    let mut config = config;
    config.features.elicitation = true;
    let rig = Rig::with(&[config]).await;
    assert_eq!(rig.report("s").protocol, Some(revision));
    let attachment = rig.attach();
    let notices = attachment.take_notices().unwrap();
    let mut tour = Tour {
        rig,
        attachment,
        notices,
    };
    let greeting = tour.rig.call("s__greet", json!({"name": "you"})).await;
    assert_eq!(greeting.ok(), "Hello, you!");
    tour.resources_prompts_and_completion().await;
    tour.progress_and_logging().await;
    tour.subscription_and_changes().await;
    tour.cancellation().await;
    tour.task().await;
    tour.rig.close(&[]).await;
}

const STATELESS: &str = "2026-07-28";
const SESSION: &str = "2025-11-25";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stateless_server_over_stdio() {
    let config = child("s", "everything", &["--era", "stateless"]);
    tour(config, STATELESS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_sessions_over_stdio() {
    let config = child("s", "everything", &["--era", "session"]);
    tour(config, SESSION).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stateless_server_over_http() {
    let endpoint = Endpoint::start("stateless");
    tour(http("s", &endpoint.url), STATELESS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_sessions_over_http() {
    let endpoint = Endpoint::start("session");
    tour(http("s", &endpoint.url), SESSION).await;
}
