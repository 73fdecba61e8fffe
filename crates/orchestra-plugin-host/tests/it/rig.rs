//! What the tests share: the fake plugin, its file of notes, and clients around connectors.

use std::{path::PathBuf, sync::Arc, time::Duration};

use orchestra_hub::Cx;
use orchestra_mcp::client::{
    Client, ClientConfig, ClientError, Connector, Launcher, Outgoing, Reply, ServerCall,
};
use orchestra_plugin_host::link::{PluginConnector, PluginSpec};
use orchestra_process::CHILD_COMMAND;
use orchestra_wire::{RawJson, RequestId};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Whether there is time for everything.
pub(crate) fn is_soak() -> bool {
    std::env::var_os("ORCHESTRA_SOAK").is_some()
}

/// Tells people what was seen, where the test runner shows it.
#[expect(clippy::print_stdout, reason = "a count for people")]
pub(crate) fn say(line: &str) {
    println!("{line}");
}

/// The program of the fake plugin, which is built with the tests.
pub(crate) fn program() -> PathBuf {
    let mut program = std::env::current_exe().unwrap();
    program.pop();
    program.pop();
    program.join("examples/fake_plugin")
}

/// A fake plugin, and what it notes.
pub(crate) struct Rig {
    home: TempDir,
    pub(crate) spec: PluginSpec,
}

impl Rig {
    pub(crate) fn new(mode: &str) -> Self {
        let program = program();
        let home = TempDir::new().unwrap();
        let certs = home.path().join("certs");
        let mut spec = PluginSpec::new("fake.plugin".parse().unwrap(), program.clone(), certs);
        spec.process.launcher = Some(Launcher::new(program, [CHILD_COMMAND]));
        spec.start_timeout = PATIENCE;
        let tally = home.path().join("tally");
        for (name, value) in [
            ("mode", mode),
            ("id", "fake.plugin"),
            ("tally", tally.to_str().unwrap()),
        ] {
            spec.process.args.push(format!("--{name}={value}").into());
        }
        Self { home, spec }
    }

    pub(crate) fn connector(&self) -> PluginConnector {
        PluginConnector::new(self.spec.clone())
    }

    pub(crate) fn client(&self) -> Client {
        client(Arc::new(self.connector()))
    }

    fn tally(&self) -> PathBuf {
        self.home.path().join("tally")
    }

    /// The lines that the plugin has noted.
    pub(crate) fn noted(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.tally()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits until the plugin notes something.
    pub(crate) async fn notes(&self, wanted: &str) {
        until(wanted, || self.noted().iter().any(|line| line == wanted)).await;
    }

    /// The processes that were started.
    pub(crate) fn processes(&self) -> Vec<Pid> {
        let noted = self.noted();
        let ids = noted.iter().filter_map(|line| line.strip_prefix("pid "));
        ids.map(|id| Pid::from_raw(id.parse().unwrap()).unwrap())
            .collect()
    }

    /// Waits until nothing is left of any of them.
    pub(crate) async fn all_gone(&self) {
        let processes = self.processes();
        assert!(!processes.is_empty());
        let is_gone = |process: &Pid| test_kill_process(*process).is_err();
        until("all processes gone", || processes.iter().all(is_gone)).await;
    }

    pub(crate) fn kill_last(&self) {
        self.signal_last(Signal::KILL);
    }

    pub(crate) fn signal_last(&self, signal: Signal) {
        let last = *self.processes().last().unwrap();
        // It may have gone by itself.
        let _ = kill_process(last, signal);
    }
}

pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "never: {what}");
        sleep(Duration::from_millis(2)).await;
    }
}

pub(crate) fn client(connector: Arc<dyn Connector>) -> Client {
    Client::new(
        connector,
        ClientConfig {
            name: "fake".to_owned(),
            start_timeout: PATIENCE,
            ..ClientConfig::default()
        },
    )
}

pub(crate) fn raw(value: &Value) -> RawJson {
    RawJson::of(value).unwrap()
}

pub(crate) async fn ask(
    client: &Client,
    method: &'static str,
    params: Value,
) -> Result<Value, ClientError> {
    let call = ServerCall::new(method, Some(raw(&params)), Cx::default());
    match client.call(call).await? {
        Reply::Result(result) => Ok(result.parse().unwrap()),
        Reply::InputRequired(input) => panic!("asked: {input:?}"),
    }
}

pub(crate) async fn call(
    client: &Client,
    tool: &str,
    arguments: Value,
) -> Result<Value, ClientError> {
    ask(
        client,
        "tools/call",
        json!({"name": tool, "arguments": arguments}),
    )
    .await
}

pub(crate) fn outgoing(id: u64, method: &str, params: Value) -> Outgoing {
    Outgoing {
        along: Default::default(),
        departure: None,
        id: RequestId::from_number(id),
        method: method.to_owned(),
        params: Some(raw(&params)),
        name: None,
        headers: Vec::new(),
    }
}

/// The first text of a result.
pub(crate) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}
