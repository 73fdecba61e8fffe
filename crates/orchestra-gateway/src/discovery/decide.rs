//! What becomes of each server that a file names: the strongest of a name is taken, and used when it
//! is sound, switched on, and trusted or approved.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    Found, LookedAt, Places, Replaced, Server, ServerState, Shadowed, exchanged,
    identity::{Identity, identify},
    plugins,
};
use crate::{
    approval::{Covered, Decisions, Fingerprint, SharedWork, Standing},
    config::{
        Contents, Diagnostic, Effect, File, MAX_WORKSPACE_BYTES, Pins, Place, PluginsFile,
        ServerConfig, Severity, Source, Trust, Written,
    },
    expand::Scope,
};

/// Message about an entry with the name of this program that is not this program.
const NAMESAKE: &str = "has the name of this program and is another; clients start it by that name";

/// What files said when they could be understood.
#[derive(Debug, Default)]
pub(crate) struct LastRead(BTreeMap<Arc<Path>, Said>);

#[derive(Debug)]
struct Said {
    servers: Vec<Written>,
    default: Option<Effect>,
    is_misread: bool,
    plugins_file: Option<PluginsFile>,
}

impl LastRead {
    fn or_before(&mut self, file: &File, now: Option<Contents>) -> Option<Contents> {
        let Some(mut now) = now else {
            self.0.remove(&file.path);
            return None;
        };
        if !now.is_broken {
            let said = Said {
                servers: now.servers.clone(),
                default: now.default,
                is_misread: now.is_misread,
                plugins_file: now.plugins_file.clone(),
            };
            self.0.insert(Arc::clone(&file.path), said);
        } else if let Some(said) = self.0.get(&file.path) {
            now.servers.clone_from(&said.servers);
            (now.default, now.is_misread) = (said.default, said.is_misread);
            now.plugins_file.clone_from(&said.plugins_file);
        }
        Some(now)
    }
}

impl Places {
    /// Reads every file and decides what becomes of each server. Nothing is started.
    #[must_use]
    pub fn find(&self, scope: &Scope, decisions: &Decisions) -> Found {
        self.find_again(scope, decisions, &mut LastRead::default())
    }

    /// As [`find`](Self::find); of a file that cannot be understood now, what it said when it
    /// could be is taken, so that one that somebody is writing stops no server.
    pub(crate) fn find_again(
        &self,
        scope: &Scope,
        decisions: &Decisions,
        last: &mut LastRead,
    ) -> Found {
        let mut found = Found::default();
        let files = self.files().into_iter();
        let mut left = MAX_WORKSPACE_BYTES;
        let read: Vec<(File, Option<Contents>)> = files
            .map(|file| {
                let now = match file.source {
                    Source::Workspace => file.read_within(&mut left),
                    _ => file.read(),
                };
                let contents = last.or_before(&file, now);
                (file, contents)
            })
            .collect();
        let (usual, misread) = usual(&read);
        // Numbers of the servers by their names.
        let mut numbers: HashMap<_, usize> = HashMap::new();
        let mut shared = SharedWork::default();
        for (file, contents) in read {
            found.files.push(LookedAt {
                path: Arc::clone(&file.path),
                source: file.source,
                servers: contents.as_ref().map(|contents| contents.servers.len()),
                is_broken: contents.as_ref().is_some_and(|contents| contents.is_broken),
            });
            let Some(contents) = contents else {
                found.diagnostics.extend(missing(&file));
                continue;
            };
            found.diagnostics.extend(contents.diagnostics);
            found.plugins_files.extend(contents.plugins_file);
            for mut written in contents.servers {
                if let Ok(config) = &mut written.config {
                    config.usual = usual;
                    config.misread.clone_from(&misread);
                }
                if let Some(number) = numbers.get(&written.name) {
                    let stronger = &mut found.servers[*number];
                    if stronger.origin.trust == Trust::Ask && written.origin.trust == Trust::Trusted
                    {
                        stronger.replaced.push(Replaced::of(&written));
                    }
                    found.diagnostics.extend(plugins::clash(&written, stronger));
                    let asks = written.origin.trust == Trust::Ask;
                    if asks
                        && written.name.is_of_program()
                        && self.identity(&written) != Identity::Own
                    {
                        found.diagnostics.push(hidden(&written, stronger));
                    }
                    found.shadowed.push(Shadowed {
                        name: written.name,
                        origin: written.origin,
                        by: stronger.origin.clone(),
                    });
                    continue;
                }
                numbers.insert(written.name.clone(), found.servers.len());
                let diagnostics = &mut found.diagnostics;
                let server = self.decide(written, scope, decisions, &mut shared, diagnostics);
                found.servers.push(server);
            }
        }
        exchanged::refuse(&mut found, scope);
        let disordered = plugins::disordered(&found);
        found.diagnostics.extend(disordered);
        found
    }

    /// Compares a server with this program, where other people may have written its file.
    fn identity(&self, written: &Written) -> Identity {
        let asks = written.origin.trust == Trust::Ask;
        let Some(config) = written.config.as_ref().ok().filter(|_| asks) else {
            return Identity::Other;
        };
        match (identify(config, &self.ports), &written.misreading) {
            (Identity::Other, _) => Identity::Other,
            (_, Some(why)) => Identity::Impostor(why.clone()),
            (identity, None) => identity,
        }
    }

    /// What becomes of a server.
    fn decide(
        &self,
        written: Written,
        scope: &Scope,
        decisions: &Decisions,
        shared: &mut SharedWork,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Server {
        let identity = self.identity(&written);
        let Written {
            name,
            shown_name,
            origin,
            config,
            ..
        } = written;
        let workspace = &self.workspace;
        let by_hand = decisions.enabled(workspace, &name);
        let mut files = BTreeSet::new();
        let mut report = |severity, message| {
            diagnostics.push(Diagnostic {
                severity,
                file: Arc::clone(&origin.file),
                place: origin.place,
                path: shown_name.clone(),
                server: Some(name.clone()),
                message,
            });
        };
        let asks = origin.trust == Trust::Ask;
        let trusted_by = self.trusted_by.clone().filter(|_| asks);
        let is_disabled = |config: &ServerConfig| by_hand.map_or(config.disabled, |is_on| !is_on);
        let covered = Arc::new(match (&config, &identity) {
            (Ok(config), Identity::Other | Identity::Namesake)
                if asks && trusted_by.is_none() && !is_disabled(config) =>
            {
                Covered::of_one(config, scope, shared)
            }
            _ => Covered::default(),
        });
        // The error is the reason to wait. The value is true if the approval has the notice about files.
        let waits = |config: &ServerConfig| {
            if !asks || trusted_by.is_some() {
                return Ok(false);
            }
            let fingerprint = Fingerprint::of(config, &covered);
            match decisions.standing(workspace, &name, &fingerprint) {
                Standing::Approved { has_notice } => Ok(has_notice),
                Standing::Waits(why) => Err((fingerprint, why)),
            }
        };
        if identity == Identity::Namesake {
            report(Severity::Warning, NAMESAKE.to_owned());
        }
        let state = match (config, identity, covered.gap()) {
            (Err(reason), ..) => ServerState::Invalid { reason },
            (Ok(_), Identity::Own, _) => ServerState::Own,
            (Ok(_), Identity::Impostor(why), _) => {
                let reason = format!("it has the name of this program, but {why}; remove it");
                report(Severity::Error, reason.clone());
                ServerState::Invalid { reason }
            }
            (Ok(config), ..) if is_disabled(&config) => ServerState::Disabled {
                config: Arc::from(config),
                by_hand: by_hand.is_some(),
            },
            (Ok(_), _, Some(gap)) => {
                let reason = format!(
                    "no approval can cover it: {gap}; write it in your own configuration, or list the workspace in \
                     your `trusted_directories`"
                );
                report(Severity::Error, reason.clone());
                ServerState::Invalid { reason }
            }
            (Ok(mut config), ..) => match waits(&config) {
                Err((fingerprint, why)) => ServerState::NeedsApproval {
                    fingerprint,
                    why,
                    config: Arc::from(config),
                },
                Ok(has_notice) => match scope.check(&config) {
                    Ok(()) => {
                        config.named = scope.named_files(&config);
                        files = named(&config);
                        let is_approved = asks && trusted_by.is_none();
                        config.covered =
                            is_approved.then(|| Arc::new(covered.approved(has_notice)));
                        if asks && decisions.follows(workspace, &name) {
                            config.pins = Pins::Follow;
                        }
                        ServerState::Usable(Arc::from(config))
                    }
                    Err(error) => {
                        let reason = error.to_string();
                        // Whoever mends it need not touch the configuration.
                        files = scope.secret_files(&config);
                        report(Severity::Error, reason.clone());
                        ServerState::Invalid { reason }
                    }
                },
            },
        };
        // A change of one of them asks for another approval.
        let below = covered.files().map(|(path, _)| workspace.join(path));
        files.extend(below);
        Server {
            restarts: decisions.restarts(workspace, &name),
            name,
            shown_name,
            origin,
            state,
            files,
            covered,
            trusted_by,
            replaced: Vec::new(),
        }
    }
}

/// Reports an entry that clients may start in place of a stronger one with the same name of this program.
fn hidden(written: &Written, stronger: &mut Server) -> Diagnostic {
    let severity = match stronger.state {
        ServerState::Own => {
            let reason = format!(
                "clients may start another program by its name, because of {}; remove that entry",
                written.origin
            );
            stronger.state = ServerState::Invalid { reason };
            Severity::Error
        }
        _ => Severity::Warning,
    };
    Diagnostic {
        severity,
        file: Arc::clone(&written.origin.file),
        place: written.origin.place,
        path: written.shown_name.clone(),
        server: Some(written.name.clone()),
        message: NAMESAKE.to_owned(),
    }
}

/// What the user says of calls that no rule is about: the strongest of their own files that says it.
/// One that cannot be understood may have said `deny`; it is named then.
fn usual(files: &[(File, Option<Contents>)]) -> (Effect, Option<Arc<Path>>) {
    let own = files
        .iter()
        .filter(|(file, _)| file.trust == Trust::Trusted);
    let mut said = own.filter_map(|(file, contents)| {
        let contents = contents.as_ref()?;
        let misread = contents.is_misread.then(|| Arc::clone(&file.path));
        Some((contents.default?, misread))
    });
    said.next().unwrap_or_default()
}

fn named(config: &ServerConfig) -> BTreeSet<PathBuf> {
    let named = config.named.iter();
    named.map(|file| file.path().to_owned()).collect()
}

/// A file that somebody named must be there.
fn missing(file: &File) -> Option<Diagnostic> {
    if !matches!(file.source, Source::CommandLine) {
        return None;
    }
    Some(Diagnostic {
        severity: Severity::Error,
        file: Arc::clone(&file.path),
        place: Place::START,
        path: String::new(),
        server: None,
        message: "there is no such file".to_owned(),
    })
}
