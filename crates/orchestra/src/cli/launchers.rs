//! The names by which launchers of the past call the program, and the command lines that they write:
//! `orchestrator` and `transport-stdio`.
//!
//! Their flags are those of Go: `-flag value`, `-flag=value`, `--flag value` and `--flag=value` are the
//! same, and what follows the first word that is no flag is passed over.

use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
};

use clap::Parser;

use super::{Command, Common, Invocation};
use crate::commands::{launched, stdio};

/// The orchestrator of the past.
const ORCHESTRATOR: &str = "orchestrator";

/// The bridge of the past.
const TRANSPORT: &str = "transport-stdio";

/// The command line of the orchestrator.
#[derive(Debug, Parser)]
#[command(name = ORCHESTRATOR, version)]
#[command(about = "Run the plugins of a list and serve them over QUIC")]
struct OrchestratorCli {
    /// Plugin list
    #[arg(long, value_name = "FILE", default_value = "plugins.yaml")]
    config: PathBuf,
    /// Address to listen on [default: `listen_addr` in the plugin list, else localhost:50100]
    #[arg(long, value_name = "HOST:PORT")]
    listen_addr: Option<String>,
    /// Certificate directory [default: `certs_dir` in the plugin list, else ~/.orchestra/certs]
    #[arg(long, value_name = "DIR")]
    certs_dir: Option<String>,
}

/// The command line of the bridge.
#[derive(Debug, Parser)]
#[command(name = TRANSPORT, version)]
#[command(about = "Serve MCP over stdin and stdout, like `orchestra stdio --orchestrator-addr`")]
struct TransportCli {
    /// Address of the orchestrator
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:9100")]
    orchestrator_addr: String,
    /// Certificate directory [default: ~/.orchestra/certs]
    #[arg(long, value_name = "DIR")]
    certs_dir: Option<String>,
}

/// Understands a command line of a launcher; `None` where the program is called by another name.
pub(super) fn parse(
    name: Option<&OsStr>,
    words: &[OsString],
) -> Option<Result<Invocation, clap::Error>> {
    let command = if name == Some(OsStr::new(ORCHESTRATOR)) {
        let words = settled(words, &["config", "listen-addr", "certs-dir"]);
        OrchestratorCli::try_parse_from(words).map(OrchestratorCli::into_command)
    } else if name == Some(OsStr::new(TRANSPORT)) {
        let words = settled(words, &["orchestrator-addr", "certs-dir"]);
        TransportCli::try_parse_from(words).map(TransportCli::into_command)
    } else {
        return None;
    };
    let common = Common::default();
    Some(command.map(|command| Invocation { common, command }))
}

impl OrchestratorCli {
    fn into_command(self) -> Command {
        // What is empty is as if it were not given.
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        Command::Orchestrator(launched::Arguments {
            config: self.config,
            listen_addr: given(self.listen_addr),
            certs_dir: given(self.certs_dir),
        })
    }
}

impl TransportCli {
    fn into_command(self) -> Command {
        let certs = self.certs_dir.filter(|certs| !certs.is_empty());
        Command::Stdio(stdio::Arguments::bridge(self.orchestrator_addr, certs))
    }
}

/// A command line with each flag and its value in one word, up to the first word that is no flag.
fn settled(words: &[OsString], with_value: &[&str]) -> Vec<OsString> {
    let mut words = words.iter();
    let mut settled: Vec<OsString> = words.next().into_iter().cloned().collect();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        let flag = text.strip_prefix("--").or_else(|| text.strip_prefix('-'));
        let Some(flag) = flag.filter(|flag| !flag.is_empty()) else {
            break;
        };
        if matches!(flag, "h" | "help") {
            settled.push("--help".into());
            continue;
        }
        // None of theirs has one letter: what was typed is what is refused.
        if flag.chars().count() == 1 {
            settled.push(word.clone());
            continue;
        }
        let mut whole = OsString::from(format!("--{flag}"));
        if with_value.contains(&flag)
            && let Some(value) = words.next()
        {
            whole.push("=");
            whole.push(value);
        }
        settled.push(whole);
    }
    settled
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::CommandFactory as _;

    use super::*;

    fn parsed(line: &str) -> Result<Command, clap::Error> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let name = Path::new(&words[0]).file_stem();
        parse(name, &words)
            .unwrap()
            .map(|invocation| invocation.command)
    }

    #[test]
    fn the_descriptions_are_sound() {
        OrchestratorCli::command().debug_assert();
        TransportCli::command().debug_assert();
    }

    #[test]
    fn a_flag_has_four_forms() {
        for flags in [
            "--config a.yaml --listen-addr localhost:0 --certs-dir d",
            "--config=a.yaml --listen-addr=localhost:0 --certs-dir=d",
            "-config a.yaml -listen-addr localhost:0 -certs-dir d",
            "-config=a.yaml -listen-addr=localhost:0 -certs-dir=d",
            "-config=a.yaml --listen-addr localhost:0 -certs-dir d word --nope",
        ] {
            let Command::Orchestrator(arguments) =
                parsed(&format!("/usr/bin/orchestrator {flags}")).unwrap()
            else {
                panic!("{flags}");
            };
            assert_eq!(arguments.config, Path::new("a.yaml"), "{flags}");
            assert_eq!(arguments.listen_addr.as_deref(), Some("localhost:0"));
            assert_eq!(arguments.certs_dir.as_deref(), Some("d"));
        }
    }

    #[test]
    fn what_is_not_said_is_as_it_was() {
        let Command::Orchestrator(arguments) =
            parsed("orchestrator --listen-addr= --certs-dir=").unwrap()
        else {
            panic!("no orchestrator");
        };
        assert_eq!(arguments.config, Path::new("plugins.yaml"));
        assert_eq!((arguments.listen_addr, arguments.certs_dir), (None, None));
        let Command::Stdio(arguments) = parsed("transport-stdio").unwrap() else {
            panic!("no bridge");
        };
        assert_eq!(arguments.orchestrator(), Some("localhost:9100"));
    }

    #[test]
    fn unknown_flags_and_missing_values_are_errors() {
        for line in [
            "orchestrator --workspace=.",
            "orchestrator -nope",
            "orchestrator --config",
            "transport-stdio --listen-addr=localhost:0",
            "transport-stdio --manifest",
            "transport-stdio -certs-dir",
        ] {
            let error = parsed(line).unwrap_err();
            assert!(error.use_stderr(), "{line}");
        }
        let help = parsed("orchestrator -h").unwrap_err();
        assert_eq!(help.kind(), clap::error::ErrorKind::DisplayHelp);
    }
}
