//! Files that an approval covers, compared directly before each start.

use std::{fmt, sync::Arc};

use orchestra_hub::BoxFuture;
use orchestra_mcp::client::{ClientError, Connected, Connector, TransportType};

use crate::{
    approval::{Covered, Fingerprint},
    config::ServerConfig,
    discovery::refusal,
    expand::Scope,
};

/// Compares the files that the approval of a server covers with what was approved. Reads them. Also checks that no server
/// in a sandbox may write its code.
///
/// # Errors
/// When one of them differs, they cannot be compared, or a server in a sandbox may write the code.
pub(super) fn compare(config: &ServerConfig, scope: &Scope) -> Result<(), ClientError> {
    let Some(approved) = &config.covered else {
        return Ok(());
    };
    let found = Covered::of(config, scope);
    let now = found.approved(approved.is_unclear());
    if now == **approved {
        // Links and directories may have appeared since the servers were compared.
        return match refusal(config, &found, scope) {
            None => Ok(()),
            Some(what) => Err(ClientError::Unreachable { what }),
        };
    }
    if let Some(gap) = now.gap() {
        return Err(incomparable(&gap));
    }
    let before = Fingerprint::of(config, approved);
    let changes = before.changes(&Fingerprint::of(config, &now)).join(", ");
    let name = &config.name;
    // It may be changed back, so the start is tried again.
    Err(ClientError::Unreachable {
        what: format!(
            "it needs approval, because it changed since it was approved: {}; `orchestra mcp approve {name}` shows \
             and approves it",
            changes.escape_debug()
        ),
    })
}

/// Runs what reads covered files where it may block.
pub(super) async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, ClientError> + Send + 'static,
) -> Result<T, ClientError> {
    let read = tokio::task::spawn_blocking(read).await;
    read.unwrap_or_else(|error| Err(incomparable(&error)))
}

fn incomparable(why: &dyn fmt::Display) -> ClientError {
    ClientError::Unreachable {
        what: format!("the files that its approval covers cannot be compared: {why}"),
    }
}

/// Connector of an approved server that is no process of its own, such as one on the network with a program that
/// prints its token.
pub(super) struct Compared {
    pub(super) inner: Arc<dyn Connector>,
    pub(super) config: Arc<ServerConfig>,
    pub(super) scope: Scope,
}

impl Connector for Compared {
    fn transport(&self) -> TransportType {
        self.inner.transport()
    }

    fn connect(&self) -> BoxFuture<Result<Connected, ClientError>> {
        let inner = Arc::clone(&self.inner);
        let (config, scope) = (Arc::clone(&self.config), self.scope.clone());
        Box::pin(async move {
            blocking(move || compare(&config, &scope)).await?;
            inner.connect().await
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, fs, path::Path};

    use serde_json::{Value, json};

    use super::*;
    use crate::{
        config::{File, FileKind, Source},
        connect::LateChild,
        discovery::Writer,
    };

    fn config(workspace: &Path, server: &Value) -> ServerConfig {
        let file = File {
            path: workspace.join(".mcp.json").into(),
            source: Source::Workspace,
            trust: Source::Workspace.trust(),
            directory: workspace.to_owned(),
            kind: FileKind::Servers,
            owners: None,
        };
        let text = json!({"mcpServers": {"a": server}}).to_string();
        let config = file.understand(&text).servers.remove(0).config;
        ServerConfig::clone(&config.unwrap())
    }

    #[test]
    fn approved_server_without_a_sandbox_reads_no_bytecode_of_the_workspace() {
        const VARIABLE: &str = "PYTHONPYCACHEPREFIX";
        let workspace = tempfile::tempdir().unwrap();
        let variable = |server: Value, host: Option<&'static str>| {
            let mut config = config(workspace.path(), &server);
            let read = move |name: &str| host.filter(|_| name == VARIABLE).map(str::to_owned);
            let scope = Scope::new(workspace.path(), None, read);
            config.covered = Some(Arc::new(Covered::of(&config, &scope).approved(false)));
            let child = LateChild {
                scope,
                config: Arc::new(config),
                log: Some("/state/a/log".into()),
            };
            let variables = child.expanded().unwrap().variables;
            let mut found = variables.into_iter().filter(|(name, _)| name == VARIABLE);
            found.next().map(|(_, value)| value)
        };
        let plain = json!({"command": "python3"});
        let own = json!({"command": "python3", "env": {VARIABLE: "/own"}});
        let sandboxed = json!({"command": "python3", "sandbox": "workspace"});
        for (server, host, expected) in [
            (plain.clone(), None, Some("/state/a/bytecode")),
            // It does not inherit the variable.
            (plain, Some("/host"), Some("/state/a/bytecode")),
            (own, None, Some("/own")),
            (sandboxed, None, None),
        ] {
            let found = variable(server.clone(), host);
            assert_eq!(
                found.as_deref(),
                expected.map(OsStr::new),
                "{server} {host:?}"
            );
        }
    }

    #[test]
    fn approved_server_starts_until_a_covered_file_changes() {
        let workspace = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = workspace.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("one/Cargo.toml", "[package]\nname = \"server\"\n");
        let server = json!({"command": "cargo", "args": ["run", "-p", "server"]});
        let mut config = config(workspace.path(), &server);
        let scope = Scope::new(workspace.path(), None, |_| None);
        config.covered = Some(Arc::new(Covered::of(&config, &scope).approved(false)));
        let refusal = || match compare(&config, &scope) {
            Ok(()) => String::new(),
            Err(error) => error.explain(),
        };
        assert_eq!(refusal(), "");
        // A manifest that cannot be parsed may be one of another package with the same name.
        write("two/Cargo.toml", "[");
        let notice = "cannot tell which files this command runs is new";
        assert!(refusal().contains(notice), "{}", refusal());
        write("two/Cargo.toml", "");
        assert_eq!(refusal(), "");
        write("one/build.rs", "");
        assert!(refusal().contains("one/build.rs is new"), "{}", refusal());
        fs::remove_dir_all(workspace.path()).unwrap();
        assert!(refusal().contains("cannot be compared"), "{}", refusal());
    }

    #[test]
    fn approved_server_does_not_start_once_a_link_leads_to_files_of_a_sandboxed_server() {
        let workspace = tempfile::tempdir().unwrap();
        let at = |path: &str| workspace.path().join(path);
        fs::write(at("server.js"), "").unwrap();
        for directory in ["node_modules", "writable"] {
            fs::create_dir(at(directory)).unwrap();
        }
        let server = json!({"command": "node", "args": ["-r", "package", "server.js"]});
        let mut config = config(workspace.path(), &server);
        let scope = Scope::new(workspace.path(), None, |_| None);
        config.covered = Some(Arc::new(Covered::of(&config, &scope).approved(false)));
        let writer = Writer {
            name: config.name.clone(),
            writable: vec![at("writable")],
        };
        config.writers = [writer].into();
        assert!(compare(&config, &scope).is_ok());
        std::os::unix::fs::symlink("../writable", at("node_modules/package")).unwrap();
        let refusal = compare(&config, &scope).unwrap_err().explain();
        assert!(
            refusal.contains("may write `node_modules/package`"),
            "{refusal}"
        );
    }
}
