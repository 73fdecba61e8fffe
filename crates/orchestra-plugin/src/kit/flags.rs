//! The flags that every plugin has, as launchers and orchestrators pass them.
//!
//! `--flag value`, `--flag=value`, `-flag value` and `-flag=value` are the same. What a flag means is
//! left to those who use it.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf};

/// Where a plugin listens when nobody says.
const LISTEN: &str = "localhost:0";

/// What was said on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Flags {
    /// The orchestrator's `host:port`; none for a plugin that does not call back.
    pub(super) orchestrator: Option<String>,
    pub(super) listen: String,
    /// The directory of certificates; empty for the user's.
    pub(super) certs: String,
    pub(super) workspace: PathBuf,
    pub(super) log_file: Option<PathBuf>,
    /// Whether the manifest is wanted, and nothing else.
    pub(super) manifest: bool,
    /// Whether help is wanted, and nothing else.
    pub(super) help: bool,
    /// The plugin's own flags, those that were not given with what they are then.
    pub(super) own: BTreeMap<String, String>,
}

/// A flag of the plugin's own.
#[derive(Debug, Clone)]
pub(super) struct OwnFlag {
    pub(super) name: String,
    pub(super) default: String,
    pub(super) help: String,
}

/// Why a command line is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum FlagError {
    #[error("the argument {0:?} is not UTF-8")]
    NotText(OsString),
    #[error("{0:?} is not an option: `--help` lists the options")]
    NoFlag(String),
    #[error("there is no option --{0}: `--help` lists the options")]
    Unknown(String),
    #[error("the flag --{0} needs a value")]
    NoValue(String),
    #[error("the flag --{name} is true or false, not {value:?}")]
    NoTruth { name: String, value: String },
}

/// Reads the command line, without the program's name.
pub(super) fn parse(
    args: impl IntoIterator<Item = OsString>,
    own: &[OwnFlag],
) -> Result<Flags, FlagError> {
    let mut flags = Flags {
        orchestrator: None,
        listen: LISTEN.to_owned(),
        certs: String::new(),
        workspace: PathBuf::from("."),
        log_file: None,
        manifest: false,
        help: false,
        own: own
            .iter()
            .map(|flag| (flag.name.clone(), flag.default.clone()))
            .collect(),
    };
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let arg = arg.into_string().map_err(FlagError::NotText)?;
        let flag = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-'));
        let Some(flag) = flag.filter(|flag| flag.starts_with(|c: char| c.is_alphanumeric())) else {
            return Err(FlagError::NoFlag(arg));
        };
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (flag, None),
        };
        match name {
            "manifest" => flags.manifest = truth(name, value)?,
            "help" | "h" => flags.help = truth(name, value)?,
            _ => {
                let value = match value {
                    Some(value) => value,
                    None if !flags.knows(name) => return Err(FlagError::Unknown(name.to_owned())),
                    None => args
                        .next()
                        .ok_or_else(|| FlagError::NoValue(name.to_owned()))?
                        .into_string()
                        .map_err(FlagError::NotText)?,
                };
                flags.set(name, value)?;
            }
        }
    }
    Ok(flags)
}

/// The text of `--help`.
pub(super) fn help(id: &str, own: &[OwnFlag]) -> String {
    let mut text = format!(
        "{id}: a plugin of Orchestra, started by an orchestrator\n\n\
         --orchestrator-addr HOST:PORT  the orchestrator to call back (none)\n\
         --listen-addr HOST:PORT        where to be called ({LISTEN})\n\
         --certs-dir DIR                the directory of certificates (~/.orchestra/certs)\n\
         --workspace DIR                the workspace (.)\n\
         --log-file FILE                where to write what would go to stderr (nowhere else)\n\
         --manifest                     print the manifest as JSON and end\n"
    );
    for OwnFlag {
        name,
        default,
        help,
    } in own
    {
        let flag = format!("--{name} VALUE");
        text.push_str(&format!("{flag:<30} {help} ({default})\n"));
    }
    text
}

impl Flags {
    fn knows(&self, name: &str) -> bool {
        matches!(
            name,
            "orchestrator-addr" | "listen-addr" | "certs-dir" | "workspace" | "log-file"
        ) || self.own.contains_key(name)
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), FlagError> {
        let path = |value: &String| (!value.is_empty()).then(|| PathBuf::from(value));
        match name {
            "orchestrator-addr" => self.orchestrator = (!value.is_empty()).then_some(value),
            "listen-addr" if value.is_empty() => LISTEN.clone_into(&mut self.listen),
            "listen-addr" => self.listen = value,
            "certs-dir" => self.certs = value,
            "workspace" => self.workspace = path(&value).unwrap_or_else(|| PathBuf::from(".")),
            "log-file" => self.log_file = path(&value),
            _ => match self.own.get_mut(name) {
                Some(own) => *own = value,
                None => return Err(FlagError::Unknown(name.to_owned())),
            },
        }
        Ok(())
    }
}

/// A flag that needs no value.
fn truth(name: &str, value: Option<String>) -> Result<bool, FlagError> {
    match value.as_deref() {
        None | Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(true),
        Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Ok(false),
        Some(value) => Err(FlagError::NoTruth {
            name: name.to_owned(),
            value: value.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<Flags, FlagError> {
        let own = [OwnFlag {
            name: "depth".to_owned(),
            default: "3".to_owned(),
            help: "how deep".to_owned(),
        }];
        parse(args.iter().map(OsString::from), &own)
    }

    #[test]
    fn a_flag_has_four_forms() {
        for args in [
            &["--certs-dir", "d"][..],
            &["--certs-dir=d"],
            &["-certs-dir", "d"],
            &["-certs-dir=d"],
        ] {
            let flags = parsed(args).unwrap();
            assert_eq!(flags.certs, "d", "{args:?}");
        }
    }

    #[test]
    fn what_is_empty_is_as_if_not_given() {
        let flags = parsed(&["--certs-dir=", "--listen-addr=", "--orchestrator-addr="]).unwrap();
        assert_eq!(flags, parsed(&[]).unwrap());
        assert_eq!(flags.listen, "localhost:0");
        assert_eq!(flags.own["depth"], "3");
    }

    #[test]
    fn own_flags_and_values_that_look_like_flags_are_taken() {
        let flags = parsed(&["--depth", "-1", "--manifest=false", "--workspace", "w"]).unwrap();
        assert_eq!(flags.own["depth"], "-1");
        assert!(!flags.manifest);
        assert_eq!(flags.workspace, PathBuf::from("w"));
        assert!(parsed(&["-manifest"]).unwrap().manifest);
    }

    #[test]
    fn what_is_no_flag_is_refused() {
        for (args, message) in [
            (
                &["--nope=1"][..],
                "there is no option --nope: `--help` lists the options",
            ),
            (
                &["--nope"],
                "there is no option --nope: `--help` lists the options",
            ),
            (
                &["word"],
                "\"word\" is not an option: `--help` lists the options",
            ),
            (
                &["--"],
                "\"--\" is not an option: `--help` lists the options",
            ),
            (&["--workspace"], "the flag --workspace needs a value"),
            (
                &["--manifest=x"],
                "the flag --manifest is true or false, not \"x\"",
            ),
        ] {
            assert_eq!(parsed(args).unwrap_err().to_string(), message);
        }
    }
}
