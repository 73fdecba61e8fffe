//! Programs and modules of installed packages of Node.js.

use std::path::{Path, PathBuf};

use super::{Candidates, Entry, Tree, manifest};

/// Directory of installed packages.
const PACKAGES: &str = "node_modules";

/// Directory in it of the programs of the packages.
const PROGRAMS: &str = ".bin";

impl Tree {
    /// Returns the paths below the top of the files that decide which program a runner starts for a
    /// [package](crate::node_packages), which may have a version, as seen from a directory: the manifests of the
    /// package and the programs that these name. It is unclear where packages are installed, because the name of a
    /// package may differ from that of its directory. There are none where a program with the text of the package as
    /// its name is installed: it starts first, and [`candidates`](Self::candidates) has it.
    #[must_use]
    pub fn package(&mut self, from: &Path, package: &str) -> Candidates {
        let mut candidates = Candidates::default();
        if package.starts_with(['.', '/']) {
            // A directory.
            return candidates;
        }
        let directories = self.above(from);
        let has_program = |directory: &PathBuf| {
            let program = directory.join(PACKAGES).join(PROGRAMS).join(package);
            matches!(self.find(Path::new(""), &program), Some(Entry::File(_)))
        };
        if directories.iter().any(has_program) {
            return candidates;
        }
        // The first character may be that of a scope.
        let version = package.match_indices('@').find(|(at, _)| *at > 0);
        let name = version.map_or(package, |(at, _)| &package[..at]);
        let program = name.rsplit('/').next().unwrap_or(name);
        for directory in directories {
            let packages = directory.join(PACKAGES);
            if self.find(Path::new(""), &packages).is_none() {
                continue;
            }
            candidates.is_unclear = true;
            let programs = packages.join(PROGRAMS);
            candidates.paths.insert(programs.join(program));
            let directory = packages.join(name);
            let Some(Entry::Directory(below)) = self.find(Path::new(""), &directory) else {
                continue;
            };
            let Some(manifest) = self.manifest(&below) else {
                continue;
            };
            candidates.manifests.insert(directory.join(manifest::NAME));
            for (command, file) in manifest.files {
                // The others are exports, imports and patterns.
                if !command.starts_with(['.', '#']) && !command.contains('*') {
                    let command = command.rsplit('/').next().unwrap_or(&command);
                    candidates.paths.insert(programs.join(command));
                    candidates.paths.insert(directory.join(file));
                }
            }
        }
        candidates
    }

    /// Returns the paths below the top of the files that Node.js may load for a [module](crate::preloaded_modules) of
    /// an installed package, as seen from a directory.
    #[must_use]
    pub fn module(&mut self, from: &Path, module: &str) -> Candidates {
        let mut candidates = Candidates::default();
        let names = 1 + usize::from(module.starts_with('@'));
        let end = module.match_indices('/').nth(names - 1);
        let (package, rest) = end.map_or((module, ""), |(at, _)| module.split_at(at));
        for directory in self.above(from) {
            let packages = directory.join(PACKAGES);
            let Some(Entry::Directory(below)) = self.find(Path::new(""), &packages.join(package))
            else {
                // A module may be a file.
                candidates.put_all(&packages.join(module));
                continue;
            };
            self.put_named(Path::new(""), &packages.join(module), &mut candidates);
            let Some(manifest) = self.manifest(&below) else {
                continue;
            };
            candidates.manifests.insert(below.join(manifest::NAME));
            candidates.is_unclear |= manifest.is_unclear;
            let files = match rest {
                "" => manifest.files.into_iter().map(|(_, file)| file).collect(),
                rest => manifest.files_of(&format!(".{rest}")),
            };
            for file in files.iter().filter(|file| !file.contains('*')) {
                self.put_named(Path::new(""), &below.join(file), &mut candidates);
            }
        }
        candidates
    }

    /// Returns a directory and all directories above it, by their paths below the top.
    pub(super) fn above(&mut self, from: &Path) -> Vec<PathBuf> {
        let start = match from.as_os_str().is_empty() {
            true => Some(Entry::Directory(PathBuf::new())),
            false => self.find(Path::new(""), from),
        };
        let Some(Entry::Directory(start)) = start else {
            return Vec::new();
        };
        start.ancestors().map(Path::to_owned).collect()
    }
}
