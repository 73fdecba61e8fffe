//! Sandbox and limits of a server that is in no file of servers, read as those of one that is.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{File, FileKind, Limits, Sandbox, Source};

/// Reads the keys `sandbox` and `limits` of a server.
///
/// # Errors
/// The first thing that is wrong with them.
pub fn bounds(keys: &Map<String, Value>) -> Result<(Sandbox, Limits), String> {
    let mut server = keys.clone();
    server.insert("command".to_owned(), json!("server"));
    let file = File {
        path: Path::new("mcp.json").into(),
        source: Source::CommandLine,
        trust: Source::CommandLine.trust(),
        directory: PathBuf::new(),
        kind: FileKind::Servers,
        owners: None,
    };
    let contents = file.understand(&json!({"mcpServers": {"server": server}}).to_string());
    if let Some(wrong) = contents.diagnostics.first() {
        let path = wrong.path.trim_start_matches("mcpServers.server.");
        return Err(format!("{path}: {}", wrong.message));
    }
    let server = contents.servers.into_iter().next();
    let server = server.ok_or("there is no server")?.config?;
    Ok((server.sandbox, server.limits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(keys: &Value) -> Result<(Sandbox, Limits), String> {
        bounds(keys.as_object().unwrap())
    }

    #[test]
    fn sandbox_and_limits_are_those_of_a_configured_server() {
        let keys =
            json!({"sandbox": "workspace", "limits": {"files": 64, "address_space": "1GiB"}});
        let (sandbox, limits) = read(&keys).unwrap();
        assert!(sandbox.is_some());
        let process = limits.process;
        assert_eq!(
            (process.open_files, process.address_space),
            (Some(64), Some(1 << 30))
        );
        assert_eq!(read(&json!({})), Ok((Sandbox::None, Limits::default())));
    }

    #[test]
    fn wrong_limit_is_named() {
        for (keys, part) in [
            (json!({"limits": {"files": 1}}), "limits.files"),
            (json!({"limits": {"fils": 64}}), "limits.fils"),
            (json!({"limits": 1}), "limits"),
            (json!({"sandbox": "open"}), "sandbox"),
        ] {
            let error = read(&keys).unwrap_err();
            assert!(error.starts_with(part), "{keys}: {error}");
        }
    }
}
