//! Where the kit comes from by which plugins are written.

use std::path::{Path, PathBuf};

use crate::{exit::Failure, files::Root};

/// The crate that plugins are written with.
const CRATE: &str = "orchestra-plugin";

/// Where that crate lay when this program was built.
const BUILT_FROM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../orchestra-plugin");

/// The kit as a plugin depends on it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kit {
    /// The sources, in this directory.
    Sources(PathBuf),
    /// What is published.
    Registry,
}

impl Kit {
    /// That in a directory, if one is named; else the sources that this program was built from, if
    /// they are still there; else what is published.
    ///
    /// # Errors
    /// When it is not in the directory that is named.
    pub(super) fn find(named: Option<&Path>) -> Result<Self, Failure> {
        if let Some(named) = named {
            return sources(named).map(Self::Sources).ok_or_else(|| {
                Failure::usage_text(format!(
                    "--kit {}: does not contain the crate {CRATE}; pass the directory of its Cargo.toml",
                    named.display()
                ))
            });
        }
        Ok(sources(Path::new(BUILT_FROM)).map_or(Self::Registry, Self::Sources))
    }

    /// What stands in a manifest behind `orchestra-plugin =`.
    pub(super) fn dependency(&self) -> String {
        match self {
            Self::Sources(path) => {
                let path = toml::Value::from(path.display().to_string());
                format!("{{ path = {path} }}")
            }
            Self::Registry => toml::Value::from(env!("CARGO_PKG_VERSION")).to_string(),
        }
    }

    /// A file of the workspace that the sources are of, if there is one.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn beside(&self, file: &str) -> Result<Option<String>, Failure> {
        let Self::Sources(path) = self else {
            return Ok(None);
        };
        // The crate lies two directories below.
        match path.ancestors().nth(2) {
            Some(workspace) => Ok(Root::new(workspace).read(Path::new(file))?),
            None => Ok(None),
        }
    }
}

/// The directory, without links, if the crate is there.
fn sources(directory: &Path) -> Option<PathBuf> {
    let directory = directory.canonicalize().ok()?;
    directory.to_str()?;
    let manifest = Root::new(&directory).read(Path::new("Cargo.toml")).ok()??;
    let manifest: toml::Table = manifest.parse().ok()?;
    let name = manifest.get("package")?.get("name")?.as_str()?;
    (name == CRATE).then_some(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_a_path_and_the_registry_a_version() {
        let kit = Kit::find(None).unwrap();
        assert!(matches!(kit, Kit::Sources(_)), "{kit:?}");
        assert!(kit.beside("Cargo.lock").unwrap().is_some());
        let written = format!("x = {}", kit.dependency());
        let read: toml::Table = written.parse().unwrap();
        assert!(read["x"]["path"].as_str().unwrap().ends_with(CRATE));
        assert_eq!(
            Kit::Registry.dependency(),
            format!("{:?}", env!("CARGO_PKG_VERSION"))
        );
        assert!(Kit::find(Some(Path::new("/nowhere"))).is_err());
    }
}
