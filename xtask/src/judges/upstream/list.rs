//! The servers of `judges/upstream/servers.json`: their programs, pins, calls and rules.
//!
//! In texts of the list, `${DIRECTORY}` is the directory in which the server runs, and `${PORT}` the port at which it
//! listens.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::compare::Rule;
use crate::{
    judges::{NEWEST_OF_EACH_ERA, others::Through},
    run, tools,
};

/// Project with the list, and with the servers that name no project.
const PROJECT: &str = "judges/upstream";

/// Proxies at a port where nothing listens: calls that need a network fail at once, and alike on each machine.
const NO_NETWORK: [(&str, &str); 4] = [
    ("HTTP_PROXY", "http://127.0.0.1:9"),
    ("HTTPS_PROXY", "http://127.0.0.1:9"),
    ("ALL_PROXY", "http://127.0.0.1:9"),
    ("NODE_USE_ENV_PROXY", "1"),
];

/// One server of the list.
pub(super) struct Server(Value);

/// Values of the placeholders in a server's texts.
pub(super) struct Places<'p> {
    pub(super) files: &'p Path,
    pub(super) home: &'p Path,
    pub(super) port: u16,
}

/// Command line and environment of a server.
pub(super) struct Start {
    pub(super) program: PathBuf,
    pub(super) args: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
}

/// Directories of the installed projects, by runtime and name. A failed installation is not tried for each server.
#[derive(Default)]
pub(super) struct Projects(BTreeMap<(bool, String), Result<PathBuf, String>>);

/// Returns the named servers of the list, or all.
///
/// # Errors
/// When the list cannot be read, or does not have a name.
pub(super) fn chosen(names: &[&str]) -> Result<Vec<Server>> {
    let path = run::root().join(PROJECT).join("servers.json");
    let text = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    let listed: Vec<Value> =
        serde_json::from_slice(&text).with_context(|| format!("reading {}", path.display()))?;
    let servers: Vec<Server> = listed.into_iter().map(Server).collect();
    for name in names {
        if !servers.iter().any(|server| server.name() == *name) {
            let known: Vec<&str> = servers.iter().map(Server::name).collect();
            bail!("no server {name:?}: there are {}", known.join(", "));
        }
    }
    let is_chosen = |server: &Server| names.is_empty() || names.contains(&server.name());
    Ok(servers.into_iter().filter(is_chosen).collect())
}

impl Server {
    pub(super) fn name(&self) -> &str {
        self.text("name")
    }

    fn project(&self) -> &str {
        self.0["project"].as_str().unwrap_or(PROJECT)
    }

    fn is_node(&self) -> bool {
        self.0["node"].is_string()
    }

    fn text(&self, member: &str) -> &str {
        self.0[member].as_str().unwrap_or_default()
    }

    /// Returns the pinned version of the server's package.
    ///
    /// # Errors
    /// When the project does not pin it.
    pub(super) fn version(&self) -> Result<String> {
        let package = self.text("package");
        let project = run::root().join(self.project());
        let read = |name: &str| {
            let path = project.join(name);
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
        };
        let version = if self.is_node() {
            let project: Value = serde_json::from_str(&read("package.json")?)?;
            let version = project["dependencies"][package].as_str();
            version.map(str::to_owned)
        } else {
            let list = read("requirements.txt")?;
            let pins = list.lines().filter_map(|line| line.split_once("=="));
            let mut pins = pins.filter(|(name, _)| *name == package);
            pins.next().map(|(_, version)| version.to_owned())
        };
        version.with_context(|| format!("{package} is not pinned in {}", self.project()))
    }

    /// Returns the revisions and transports in which the server is compared.
    pub(super) fn ways(&self) -> Vec<(&'static str, Through)> {
        let count = match self.0["stateless"].as_bool() {
            Some(true) => NEWEST_OF_EACH_ERA.len(),
            _ => 1,
        };
        let revisions = NEWEST_OF_EACH_ERA.into_iter().take(count);
        let over = [Through::Stdio, Through::Up].into_iter();
        let over = over.filter(|over| *over == Through::Stdio || self.0["http"].is_object());
        over.flat_map(|over| revisions.clone().map(move |revision| (revision, over)))
            .collect()
    }

    /// Returns the rules by which answers of the server are normalised.
    ///
    /// # Errors
    /// When a rule is unknown.
    pub(super) fn rules(&self) -> Result<Vec<Rule>> {
        let names = self.0["rules"].as_array().into_iter().flatten();
        names
            .map(|name| Rule::parse(name.as_str().unwrap_or_default()))
            .collect()
    }

    /// Returns names and texts of the files that exist before the server starts.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        let files = self.0["files"].as_object().into_iter().flatten();
        files.filter_map(|(name, text)| Some((name.as_str(), text.as_str()?)))
    }

    /// Returns the steps of the script.
    pub(super) fn steps(&self, places: &Places<'_>) -> Vec<Value> {
        let steps = self.0["steps"].as_array().into_iter().flatten();
        steps.map(|step| places.fill(step)).collect()
    }

    /// Returns the command line and environment over one transport. `http` of the list replaces the arguments and adds
    /// to the environment.
    pub(super) fn start(&self, program: &[PathBuf], over: Through, places: &Places<'_>) -> Start {
        let over_http = match over {
            Through::Stdio => &Value::Null,
            Through::Up => &self.0["http"],
        };
        let args = match over {
            Through::Stdio => &self.0["args"],
            Through::Up => &over_http["args"],
        };
        let args = args.as_array().into_iter().flatten();
        let args = args.map(|arg| places.fill_text(arg.as_str().unwrap_or_default()));
        let scripts = program
            .iter()
            .skip(1)
            .map(|path| path.display().to_string());
        let mut env: BTreeMap<String, String> = NO_NETWORK
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        env.insert("HOME".to_owned(), places.home.display().to_string());
        for variables in [&self.0["env"], &over_http["env"]] {
            let variables = variables.as_object().into_iter().flatten();
            env.extend(variables.map(|(name, value)| {
                let value = places.fill_text(value.as_str().unwrap_or_default());
                (name.clone(), value)
            }));
        }
        Start {
            program: program.first().cloned().unwrap_or_default(),
            args: scripts.chain(args).collect(),
            env,
        }
    }
}

impl Places<'_> {
    fn fill_text(&self, text: &str) -> String {
        text.replace("${DIRECTORY}", &self.files.to_string_lossy())
            .replace("${PORT}", &self.port.to_string())
    }

    fn fill(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.fill_text(text).into(),
            Value::Array(items) => items.iter().map(|item| self.fill(item)).collect(),
            Value::Object(members) => {
                let members = members.iter();
                members
                    .map(|(name, item)| (name.clone(), self.fill(item)))
                    .collect()
            }
            value => value.clone(),
        }
    }
}

impl Projects {
    /// Installs the program of a server at first use. Returns its path, or those of an interpreter and a script.
    ///
    /// # Errors
    /// When they cannot be installed.
    pub(super) fn program(&mut self, server: &Server) -> Result<Vec<PathBuf>> {
        let project = server.project();
        let home = self
            .0
            .entry((server.is_node(), project.to_owned()))
            .or_insert_with(|| {
                let installed = match server.is_node() {
                    true => tools::npm_project(project),
                    false => tools::python_of(project),
                };
                installed.map_err(|error| format!("{error:#}"))
            });
        let home = home.clone().map_err(anyhow::Error::msg)?;
        if server.is_node() {
            let name = server.text("node");
            // A script of this repository is beside its packages.
            let script = match name.ends_with(".mjs") {
                true => home.join(name),
                false => home.join("node_modules/.bin").join(name),
            };
            return Ok(vec![tools::node()?, script]);
        }
        let name = server.text("python");
        Ok(match name.ends_with(".py") {
            true => vec![home, run::root().join(project).join(name)],
            false => vec![home.with_file_name(name)],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_is_pinned_and_has_steps_and_known_rules() {
        let servers = chosen(&[]).unwrap();
        for server in &servers {
            let name = server.name();
            server.version().unwrap();
            server.rules().unwrap();
            assert!(server.0["steps"][0].is_object(), "{name} has no steps");
            let runtimes = [&server.0["node"], &server.0["python"]];
            let count = runtimes.iter().filter(|runtime| runtime.is_string());
            assert_eq!(count.count(), 1, "{name}");
        }
    }

    #[test]
    fn unknown_name_is_an_error_that_lists_the_known_ones() {
        let error = chosen(&["git", "nothing"]).err().unwrap().to_string();
        assert!(
            error.contains("\"nothing\": there are everything, "),
            "{error}"
        );
        let [git] = &chosen(&["git"]).unwrap()[..] else {
            panic!("one name chooses one server");
        };
        assert_eq!(git.name(), "git");
    }

    #[test]
    fn options_of_http_replace_arguments_and_add_to_the_environment() {
        let server = Server(serde_json::json!({
            "args": ["--in", "${DIRECTORY}"], "env": {"A": "1", "HOME": "${DIRECTORY}/h"},
            "http": {"args": ["--port=${PORT}"], "env": {"A": "2"}},
        }));
        let places = Places {
            files: Path::new("/f"),
            home: Path::new("/h"),
            port: 7,
        };
        let program = ["node", "x.js"].map(PathBuf::from);
        let start = server.start(&program, Through::Stdio, &places);
        assert_eq!(start.args, ["x.js", "--in", "/f"]);
        assert_eq!((&*start.env["A"], &*start.env["HOME"]), ("1", "/f/h"));
        let start = server.start(&program, Through::Up, &places);
        assert_eq!(start.args, ["x.js", "--port=7"]);
        assert_eq!((&*start.env["A"], &*start.env["HOME"]), ("2", "/f/h"));
        assert_eq!(start.env["NODE_USE_ENV_PROXY"], "1");
    }
}
