//! Fake plugins behind a gateway and a hub, as the program has them.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use orchestra_gateway::{
    Gateway, GatewayOptions, Reach,
    config::{
        DEFAULT_SHUTDOWN, InheritEnv, Origin, Permit, Place, PluginConfig, ServerConfig, Source,
        Template, Transport, Trust,
    },
    hints::Hints,
};
use orchestra_hub::{
    Attachment, Caller, Content, Cx, Hub, HubConfig, Outcome, PeerReport, ProviderError, Request,
    Target, ToolResult, Toolset,
};
use orchestra_plugin_host::link::{Links, PluginConnector};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::rig::{PATIENCE, Rig, program, raw, until};

/// A plugin as a server is configured, under a name that its tools have before theirs.
pub(crate) fn config(name: &str) -> ServerConfig {
    let origin = Origin {
        file: Path::new("orchestra.toml").into(),
        place: Place::START,
        source: Source::User,
        trust: Trust::Trusted,
        directory: ".".into(),
    };
    let transport = Transport::Plugin(PluginConfig {
        id: "fake.plugin".parse().unwrap(),
        binary: Template::new(program().to_str().unwrap()),
        directory: ".".into(),
        args: Vec::new(),
        env: Default::default(),
        inherit_env: InheritEnv::Default,
        cwd: None,
        config: Default::default(),
        provides_storage: Vec::new(),
        provides_ai: Vec::new(),
        depends_on: Vec::new(),
        permit: Permit::default(),
        shutdown: DEFAULT_SHUTDOWN,
        is_legacy: false,
    });
    let mut config = ServerConfig::new(name.parse().unwrap(), origin, transport);
    config.start_timeout = PATIENCE;
    config.prefix = true;
    config
}

/// What a call was told.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) text: String,
    pub(crate) is_error: bool,
    /// `_meta["orchestra/error"]`.
    pub(crate) error: Value,
}

impl Told {
    pub(crate) fn may_have_run(&self) -> bool {
        self.error["mayHaveRun"] == true
    }
}

pub(crate) struct Gated {
    pub(crate) hub: Hub,
    pub(crate) gateway: Gateway,
    pub(crate) plugins: Vec<Rig>,
    /// The way to each of them beside their calls.
    pub(crate) links: Vec<Links>,
    pub(crate) attachment: Attachment,
    _state: tempfile::TempDir,
}

impl Gated {
    /// A gateway with these plugins, all of which are there.
    pub(crate) async fn with(plugins: Vec<(ServerConfig, Rig)>) -> Self {
        let state = tempfile::tempdir().unwrap();
        let hub = Hub::new(HubConfig::default());
        let (configs, plugins): (Vec<ServerConfig>, Vec<Rig>) = plugins.into_iter().unzip();
        let specs: Vec<_> = configs
            .iter()
            .zip(&plugins)
            .map(|(config, rig)| (config.name.clone(), rig.spec.clone(), Links::new()))
            .collect();
        let links = specs.iter().map(|(.., links)| links.clone()).collect();
        let connect = move |config: &ServerConfig| {
            let mut specs = specs.iter();
            let (_, spec, links) = specs.find(|(name, ..)| *name == config.name).unwrap();
            let connector = PluginConnector::new(spec.clone()).with_links(links.clone());
            Ok(Reach {
                connector: Arc::new(connector),
                roots: Vec::new(),
                hints: Hints::default(),
            })
        };
        let options = GatewayOptions {
            state: state.path().join("state"),
            connect: Arc::new(connect),
            grace: Duration::from_secs(1),
            once: false,
            relay: false,
        };
        let gateway = Gateway::new(hub.clone(), options);
        let caller = Caller {
            face: "test",
            client: None,
        };
        let attachment = hub.attach(caller, Toolset::All);
        let names: Vec<String> = configs
            .iter()
            .map(|config| config.name.to_string())
            .collect();
        gateway.apply(configs);
        let gated = Self {
            hub,
            gateway,
            plugins,
            links,
            attachment,
            _state: state,
        };
        for name in names {
            until(&format!("{name} is there"), || gated.report(&name).is_known).await;
        }
        gated
    }

    /// The names of the tools of now.
    pub(crate) fn tools(&self) -> Vec<String> {
        let tools = self.hub.tools(&Toolset::All).into_iter();
        tools.map(|tool| tool.name).collect()
    }

    pub(crate) fn report(&self, name: &str) -> PeerReport {
        let mut reports = self.hub.peers().into_iter();
        let found = reports.find(|(id, _)| id.to_string() == name);
        found.unwrap().1
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Told {
        told(&self.attachment, tool, arguments, Cx::default()).await
    }

    /// Whether a plugin answers what it is asked.
    pub(crate) async fn is_well(&self, name: &str) {
        let told = self.call(&format!("{name}__echo"), json!({"a": 1})).await;
        assert!(!told.is_error && told.text == r#"{"a":1}"#, "{told:?}");
    }

    /// Calls until that succeeds.
    pub(crate) async fn recovers(&self, name: &str) {
        let end = Instant::now() + PATIENCE;
        loop {
            let told = self.call(&format!("{name}__echo"), json!({})).await;
            if !told.is_error {
                return;
            }
            assert!(Instant::now() < end, "{name} does not recover: {told:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Ends all, and looks whether a process is left.
    pub(crate) async fn close(self) {
        timeout(PATIENCE, self.gateway.close(PATIENCE))
            .await
            .unwrap();
        for plugin in &self.plugins {
            plugin.all_gone().await;
        }
    }
}

/// Calls a tool, as somebody who is attached.
pub(crate) async fn told(attachment: &Attachment, tool: &str, arguments: Value, cx: Cx) -> Told {
    let target = Target::Tool {
        name: tool.to_owned(),
        arguments: raw(&arguments),
    };
    let called = timeout(PATIENCE, attachment.call(Request { target, cx })).await;
    let result: Result<ToolResult, ProviderError> =
        match called.unwrap_or_else(|_| panic!("{tool} is not answered")) {
            Ok(Outcome::Tool(result)) => Ok(result),
            Ok(Outcome::Verbatim {
                result, is_error, ..
            }) => Ok(ToolResult::of_verbatim(&result, is_error)),
            Ok(other) => panic!("a tool's result, and not {other:?}"),
            Err(error) => Err(error),
        };
    let result = result.unwrap_or_else(|error| panic!("{tool}: {error}"));
    let meta: Value = match &result.meta {
        Some(meta) => meta.parse().unwrap(),
        None => Value::Null,
    };
    let text = match result.content.into_iter().next() {
        Some(Content::Text(text)) => text,
        _ => String::new(),
    };
    Told {
        text,
        is_error: result.is_error,
        error: meta["orchestra/error"].clone(),
    }
}
