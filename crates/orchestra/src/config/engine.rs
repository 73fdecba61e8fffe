//! Whether there is a memory engine.

use std::{num::NonZeroU16, path::PathBuf};

use clap::Args;

use super::{Entry, Origin, Setting, file::ConfigFile, flag, settle};
use crate::{env::Variable, exit::Failure, output};

/// So much is shown of what is no port.
const MAX_SHOWN: usize = 40;

/// Use of the memory engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum EngineUse {
    /// For `up`, and for `stdio` with a configured model.
    #[default]
    Auto,
    /// For every program that serves a board.
    Always,
    /// For no program.
    Off,
}

/// Use of the memory engine
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct EngineFlags {
    /// When to use the memory engine, a background process that all Orchestra processes of the workspace share:
    /// always, off, or auto (for `up`, and for `stdio` if a model is configured) [default: auto]
    #[arg(long, value_enum, value_name = "WHEN", hide_possible_values = true)]
    engine: Option<EngineUse>,
}

impl EngineUse {
    const ALL: [Self; 3] = [Self::Auto, Self::Always, Self::Off];

    /// Its name.
    const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Off => "off",
        }
    }

    /// What a text names.
    pub(super) fn named(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.name() == text)
    }
}

impl Setting<EngineUse> {
    /// What the flag says, or the environment, or a file.
    pub(super) fn of_engine(
        flags: &EngineFlags,
        files: &[(PathBuf, ConfigFile)],
    ) -> Result<Self, Failure> {
        let variable = match Variable::Engine.read() {
            Some(text) => {
                let choice = text.to_str().and_then(EngineUse::named);
                let choice = choice.ok_or_else(|| {
                    let found = text.to_string_lossy();
                    Failure::usage_text(format!(
                        "{}: auto, always or off, not `{found}`",
                        Variable::Engine
                    ))
                })?;
                Some((choice, Origin::Environment(Variable::Engine)))
            }
            None => None,
        };
        Ok(settle(
            flag(flags.engine).or(variable),
            files,
            |file| file.engine,
            EngineUse::default,
        ))
    }

    pub(super) fn engine_entry(&self) -> Entry {
        Entry {
            key: "engine",
            value: toml::Value::from(self.value.name()).to_string(),
            meaning: "when to use the memory engine, a background process that all Orchestra processes of the workspace share: auto, always or off",
            origin: self.origin.clone(),
        }
    }
}

/// The port that a memory engine listens on if it can; what is no port counts as none, as it did for
/// the first engine.
pub(crate) fn engine_port() -> Option<u16> {
    let text = Variable::EnginePort.read()?;
    let port: NonZeroU16 = text.to_str()?.trim().parse().ok()?;
    Some(port.get())
}

/// What is said where the environment names a port that is none.
pub(crate) fn wrong_engine_port() -> Option<String> {
    let text = Variable::EnginePort.read()?;
    let text = text.to_string_lossy();
    let is_none = engine_port().is_none() && !text.trim().is_empty();
    is_none.then(|| {
        let shown: String = text.chars().take(MAX_SHOWN).collect();
        format!(
            "{}: `{}` is not a port and is ignored; set one from 1 to 65535",
            Variable::EnginePort,
            output::in_a_line(&shown)
        )
    })
}
