//! What may be the matter with a server that does not start, beyond what it says itself: that it is
//! fetched first, that it does not get what it needs to reach the network, that its sandbox closes
//! what it needs.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use orchestra_mcp::client::ClientError;
use orchestra_process::{Environment, PROXIES, SYSTEM_PATHS};

use crate::{
    config::{InheritEnv, Sandbox, ServerConfig, StdioConfig, Template, Transport},
    expand::{Process, Scope},
    runners::PACKAGE_RUNNERS,
};

/// Programs that fetch what they run with these first words, beside [`PACKAGE_RUNNERS`].
const RUNNERS_WITH: [(&str, &[&str]); 6] = [
    ("npm", &["exec", "x"]),
    ("pnpm", &["dlx"]),
    ("yarn", &["dlx"]),
    ("bun", &["x"]),
    ("uv", &["tool", "run"]),
    ("docker", &["run"]),
];

/// Variables, beside [`PROXIES`], without which whatever runs may not reach the network.
const NETWORK: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// Variables by which programs of Node find what they fetch.
const NODE: [&str; 8] = [
    "NODE_EXTRA_CA_CERTS",
    "npm_config_registry",
    "npm_config_cafile",
    "npm_config_userconfig",
    "NPM_CONFIG_REGISTRY",
    "NPM_CONFIG_CAFILE",
    "NPM_CONFIG_USERCONFIG",
    "YARN_NPM_REGISTRY_SERVER",
];

/// Variables by which programs that fetch packages of Python find them.
const PYTHON: [&str; 11] = [
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_CERT",
    "PIP_CONFIG_FILE",
    "UV_INDEX_URL",
    "UV_DEFAULT_INDEX",
    "UV_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_NATIVE_TLS",
];

/// The most of a file that says what a virtual environment is made of.
const MAX_BYTES: u64 = 64 * 1024;

/// What a person is told when a server does not start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hints {
    /// Why it may be slow.
    slow: String,
    /// How to give it more time.
    longer: String,
    /// Variables that it may lack, in words.
    withheld: String,
    /// What its sandbox closes that it needs.
    sandbox: Vec<String>,
    /// How to write a command line that stands in the place of a program.
    command: Option<String>,
}

impl Hints {
    /// What is known of a server before it is started.
    #[must_use]
    pub fn of(config: &ServerConfig, scope: &Scope) -> Self {
        let longer = format!(
            "`start_timeout` gives it more time (now {} s; `timeout` is that of calls)",
            config.start_timeout.as_secs_f64()
        );
        let Transport::Stdio(stdio) = &config.transport else {
            return Self {
                longer,
                ..Self::default()
            };
        };
        let slow = match runner(stdio) {
            Some(runner) => {
                format!("`{runner}` fetches what it runs, which takes longer the first time: ")
            }
            None => "a first start may install something, and takes longer then: ".to_owned(),
        };
        let withheld = withheld(stdio, scope);
        let withheld = match withheld.is_empty() {
            true => String::new(),
            false => format!(
                "; it does not inherit {}, set here: name in `env` what it needs of them",
                withheld.join(", ")
            ),
        };
        Self {
            slow,
            longer,
            withheld,
            sandbox: sandbox(config, stdio, scope),
            command: command_line(stdio),
        }
    }

    /// The same for a start whose time comes from a flag of the command line.
    #[must_use]
    pub fn within(self, flag: &str, time: Duration) -> Self {
        let longer = format!("`{flag}` gives it more time (now {} s)", time.as_secs_f64());
        Self { longer, ..self }
    }

    /// What its sandbox closes that it needs, and what to do.
    #[must_use]
    pub fn sandbox(&self) -> &[String] {
        &self.sandbox
    }

    /// What may be behind an error of a start.
    #[must_use]
    pub fn about_start(&self, error: &ClientError) -> Option<String> {
        match error {
            ClientError::Timeout { .. } => self.told(true),
            ClientError::CircuitOpen {
                last: Some(last), ..
            } => self.about_start(last),
            ClientError::NotYet { last, .. } => self.about_start(last),
            error => self.about(error),
        }
    }

    /// What may be behind an error, if that is one of a start.
    #[must_use]
    pub fn about(&self, error: &ClientError) -> Option<String> {
        match error {
            ClientError::SlowStart { .. } => self.told(true),
            ClientError::Crashed(_)
            | ClientError::Closed
            | ClientError::Unreachable { .. }
            | ClientError::Unlisted { .. }
            | ClientError::Handshake { .. } => self.told(false),
            ClientError::CircuitOpen {
                last: Some(last), ..
            } => self.about(last),
            ClientError::NotYet { last, .. } => self.about(last),
            _ => None,
        }
    }

    fn told(&self, is_slow: bool) -> Option<String> {
        match self.sandbox.is_empty() {
            // Time does not help against that.
            false => Some(self.sandbox.join("; ")),
            true if self.command.is_some() => self.command.clone(),
            true => (is_slow && !self.longer.is_empty())
                .then(|| [&*self.slow, &self.longer, &self.withheld].concat()),
        }
    }
}

/// How to write a command whose name has blanks, which no program of that name has.
fn command_line(stdio: &StdioConfig) -> Option<String> {
    let written = stdio.command.written();
    let mut words = written.split_ascii_whitespace();
    let program = words.next()?;
    let args: Vec<&str> = words.collect();
    if args.is_empty() || Path::new(written).exists() {
        return None;
    }
    let args = serde_json::to_string(&args).ok()?;
    Some(format!(
        "`command` must be one program, not `{written}`; write \"command\": \"{program}\", \"args\": {args}"
    ))
}

/// The program that fetches what it runs, where a server is started by one.
fn runner(stdio: &StdioConfig) -> Option<&str> {
    let name = Path::new(stdio.command.written()).file_name()?.to_str()?;
    if PACKAGE_RUNNERS.contains(&name) {
        return Some(name);
    }
    let first = stdio.args.first().map(Template::written)?;
    let mut with = RUNNERS_WITH.iter();
    with.any(|(program, words)| *program == name && words.contains(&first))
        .then_some(name)
}

/// The variables that a program reads to find what it fetches; those of others are no affair of its.
fn read_by(stdio: &StdioConfig) -> &'static [&'static str] {
    let name = Path::new(stdio.command.written()).file_stem();
    match name.and_then(OsStr::to_str).unwrap_or_default() {
        "node" | "npx" | "npm" | "pnpm" | "pnpx" | "yarn" | "bun" | "bunx" => &NODE,
        "pip" | "pip3" | "pipx" | "uv" | "uvx" => &PYTHON,
        "deno" => &["DENO_CERT"],
        _ => &[],
    }
}

/// Variables that are set here, say how the network is reached, and do not reach the server.
fn withheld(stdio: &StdioConfig, scope: &Scope) -> Vec<&'static str> {
    let environment = match stdio.inherit_env {
        InheritEnv::Default => Environment::Default,
        InheritEnv::All => Environment::All,
        InheritEnv::None => Environment::None,
    };
    let names = PROXIES.into_iter().chain(NETWORK);
    let names = names.chain(read_by(stdio).iter().copied());
    names
        .filter(|name| !environment.inherits(OsStr::new(name)))
        .filter(|name| !stdio.env.contains_key(*name))
        .filter(|name| scope.variable(name).is_ok())
        .collect()
}

fn sandbox(config: &ServerConfig, stdio: &StdioConfig, scope: &Scope) -> Vec<String> {
    let Sandbox::Workspace { read, write } = &config.sandbox else {
        return Vec::new();
    };
    let mut hints = Vec::new();
    if let Some(runner) = runner(stdio) {
        hints.push(format!(
            "`{runner}` fetches what it runs from the network, which `sandbox` closes: install the \
             server before and name its own program, or leave `sandbox` out"
        ));
    }
    let Ok(process) = scope.process(stdio, config) else {
        return hints;
    };
    let listed = read.iter().chain(write);
    let listed = listed.filter_map(|path| scope.path(path, config).ok());
    let open: Vec<PathBuf> = SYSTEM_PATHS
        .iter()
        .map(PathBuf::from)
        .chain([process.cwd.clone()])
        .chain(listed)
        .map(real)
        .collect();
    let program = program(&process, scope);
    let (of, mut closed) = match program.as_deref().map(virtual_environment) {
        Some(needed) if !needed.is_empty() => ("a virtual environment", needed),
        _ => {
            let needed = program.as_deref().and_then(installation);
            ("an installation", needed.into_iter().collect())
        }
    };
    closed.retain(|path| !open.iter().any(|open| real(path.clone()).starts_with(open)));
    if !closed.is_empty() {
        let paths = closed
            .iter()
            .map(|path| format!("{:?}", path.display().to_string()));
        let paths = paths.collect::<Vec<_>>().join(", ");
        let command = &process.command;
        hints.push(format!(
            "`{command}` is of {of} that `sandbox` closes: let it read {paths}, by `read` in `sandbox` of its \
             configuration, or start the server by a program of the system, such as one in /usr/bin"
        ));
    }
    hints
}

/// Where a program is.
fn program(process: &Process, scope: &Scope) -> Option<PathBuf> {
    if process.command.contains('/') {
        return Some(PathBuf::from(&process.command));
    }
    let own = process.env.iter().find(|(name, _)| name == "PATH");
    let path = own.map(|(_, value)| value.clone());
    let path = path.or_else(|| scope.variable("PATH").ok())?;
    let mut places = std::env::split_paths(&path).map(|place| place.join(&process.command));
    places.find(|place| place.is_file())
}

/// What a program of a virtual environment of Python reads: the environment, and what that is made of.
fn virtual_environment(program: &Path) -> Vec<PathBuf> {
    let Some(environment) = program.parent().and_then(Path::parent) else {
        return Vec::new();
    };
    let Some(made_of) = read(&environment.join("pyvenv.cfg")) else {
        return Vec::new();
    };
    let home = made_of.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "home").then(|| PathBuf::from(value.trim()))
    });
    let base = home.and_then(|home| home.parent().map(Path::to_owned));
    let base = base.filter(|base| *base != Path::new("/"));
    std::iter::once(environment.to_owned())
        .chain(base)
        .collect()
}

/// Directory that a program reads which a version manager (pyenv, asdf, rbenv) has installed: that of its shims, which
/// run others beside them, or for Python that of its library.
fn installation(program: &Path) -> Option<PathBuf> {
    let is_shim = program.parent()?.ends_with("shims");
    let (program, directory) = match is_shim {
        true => (program.to_owned(), "shims"),
        false => (real(program.to_owned()), "bin"),
    };
    let is_python = program
        .file_name()
        .and_then(OsStr::to_str)
        .is_some_and(|name| name.starts_with("python"));
    let above = program.parent().filter(|above| above.ends_with(directory));
    let above = above?.parent().filter(|above| *above != Path::new("/"))?;
    (is_shim || is_python).then(|| above.to_owned())
}

fn read(path: &Path) -> Option<String> {
    let is_small = fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() < MAX_BYTES);
    is_small.then(|| fs::read_to_string(path).ok()).flatten()
}

/// A path without links, where that can be known.
fn real(path: PathBuf) -> PathBuf {
    path.canonicalize().unwrap_or(path)
}
