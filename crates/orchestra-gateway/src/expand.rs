//! What `${…}` stands for, found when it is used: at the start of a process, at the sending of a
//! request.
//!
//! `${VAR}`, `${VAR:-default}` and `${env:VAR}` are variables of our environment; `${input:ID}` is
//! the variable `ORCHESTRA_INPUT_ID`, or the default that the file gives it;
//! `${workspaceFolder}`, `${workspaceFolderBasename}` and `${userHome}` are directories;
//! `$$` is a `$`. A `$` before anything else is one as well.

mod env_file;
mod named;
mod parts;
mod plugin;
mod reached;
mod secret_file;
mod texts;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use parts::input_variable;
pub(crate) use parts::{Part, Parts, reference};
pub use plugin::Orchestrator;
pub(crate) use reached::normal;
pub use texts::references;
use texts::texts;

use crate::config::{
    Auth, Flavour, HttpConfig, InheritEnv, ServerConfig, StdioConfig, Template, Transport,
};

/// Maximum number of bytes of a text with everything put in. No file of servers is longer.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Looks a variable up.
type Lookup = dyn Fn(&str) -> Option<String> + Send + Sync;

/// What texts may refer to.
#[derive(Clone)]
pub struct Scope {
    variables: Arc<Lookup>,
    workspace: PathBuf,
    home: Option<PathBuf>,
    /// Paths that no server in a sandbox may reach.
    closed: Vec<PathBuf>,
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope")
            .field("workspace", &self.workspace)
            .finish_non_exhaustive()
    }
}

/// A text that refers to something that is not there. Tells names, never values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpandError {
    /// A variable.
    #[error(
        "the environment variable {0} is not set; set it, or give it a default value in the settings, such as `${{{0}:-value}}`"
    )]
    Variable(String),
    /// An input.
    #[error("the input {id} has no value; set the environment variable {variable}")]
    Input {
        /// Its id.
        id: String,
        /// The variable that gives it a value.
        variable: String,
    },
    /// Something else.
    #[error("the placeholder ${{{0}}} is not known; to write a dollar sign, use $$")]
    Unknown(String),
    /// An opening without an end.
    #[error(
        "a placeholder begins with ${{ and has no closing brace; to write a dollar sign, use $$"
    )]
    Open,
    /// A file of variables.
    #[error("the environment file {}: {what}", path.display())]
    EnvFile {
        /// The file.
        path: PathBuf,
        /// What is wrong, without a value.
        what: String,
    },
    /// A file that holds a secret.
    #[error("auth.{field}: the file {} {what}", path.display())]
    SecretFile {
        /// The key of the configuration that names it.
        field: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong, without its contents.
        what: String,
    },
    /// A path of a sandbox that leaves the workspace.
    #[error(
        "the sandbox path {} goes through a symbolic link out of the workspace, to {}; if the server may use that \
         target, name it as the sandbox path",
        path.display(), target.display()
    )]
    Outside {
        /// The path.
        path: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// A path of a sandbox that is closed to it.
    #[error(
        "the sandbox path {} is in Orchestra's state or configuration, which servers in a sandbox must not access; \
         remove this path",
        path.display()
    )]
    Closed {
        /// The path.
        path: PathBuf,
    },
    /// A path of a sandbox that leads elsewhere than when the server was approved.
    #[error(
        "the sandbox path {} changed while the server was started, and now leads to {}; find the program that changes \
         it, and start the server again",
        path.display(), target.display()
    )]
    Changed {
        /// The path.
        path: PathBuf,
        /// Target of the link now.
        target: PathBuf,
    },
    /// What came out cannot be used.
    #[error("{0}")]
    Unusable(&'static str),
}

/// Reads a file of `NAME=VALUE` lines.
pub(crate) fn variables_of(path: &Path) -> Result<Vec<(String, String)>, ExpandError> {
    env_file::read(path)
}

/// A text for people where it may hold a secret: what it refers to, by name, and `…` in the place of all else.
#[must_use]
pub fn references_alone(text: &Template) -> String {
    /// Schemes of credentials in headers.
    const SCHEMES: [&str; 3] = ["Bearer ", "Basic ", "Token "];
    let mut shown = String::new();
    for part in Parts(text.written()) {
        match part {
            Ok(Part::Reference(name)) => {
                let (name, has_default) = match name.split_once(":-") {
                    Some((name, _)) => (name, true),
                    None => (name, false),
                };
                let default = if has_default { ":-…" } else { "" };
                shown.push_str(&format!("${{{name}{default}}}"));
            }
            Ok(Part::Text(text)) if SCHEMES.contains(&text) => shown.push_str(text),
            Ok(Part::Text(_)) | Err(_) if shown.ends_with('…') => {}
            Ok(Part::Text(_)) | Err(_) => shown.push('…'),
        }
    }
    shown
}

/// Returns a text with the default of each reference in its place, and nothing in the place of a reference without a
/// default.
#[must_use]
pub fn with_defaults(text: &str) -> String {
    let parts = Parts(text).filter_map(|part| match part {
        Ok(Part::Text(text)) => Some(text),
        Ok(Part::Reference(name)) => Some(name.split_once(":-")?.1),
        Err(_) => None,
    });
    parts.collect()
}

/// Returns a text with the defaults that its file gives to variables and inputs, and a letter in the place of each other
/// reference: the file does not decide its value.
pub(crate) fn text_of_file(text: &Template, config: &ServerConfig) -> String {
    let mut shown = String::new();
    for part in Parts(text.written()).flatten() {
        match part {
            Part::Text(text) => shown.push_str(text),
            Part::Reference(name) => {
                let (name, default) = match name.split_once(":-") {
                    Some((name, default)) => (name, Some(default)),
                    None => (name, None),
                };
                let input = match reference(name) {
                    Some(Reference::Input(id)) => config.inputs.get(&id),
                    _ => None,
                };
                let of_input = input.and_then(|input| input.default.as_deref());
                shown.push_str(default.or(of_input).unwrap_or("x"));
            }
        }
    }
    shown
}

/// What a text refers to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reference {
    /// A variable of our environment.
    Variable(String),
    /// An input.
    Input(String),
    /// A directory.
    Directory(String),
}

impl Reference {
    /// The variable of our environment that it is taken from.
    #[must_use]
    pub fn variable(&self) -> Option<String> {
        match self {
            Self::Variable(name) => Some(name.clone()),
            Self::Input(id) => Some(input_variable(id)),
            Self::Directory(_) => None,
        }
    }
}

/// A process as it is started. Holds secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Process {
    /// The program: a name to be looked up in `PATH`, or an absolute path.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Where it runs.
    pub cwd: PathBuf,
    /// Its environment, beside what it inherits.
    pub env: Vec<(String, String)>,
    /// What it inherits.
    pub inherit_env: InheritEnv,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("command", &self.command)
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}

/// A server on the network as it is reached. Holds secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Where it is.
    pub url: String,
    /// How it is spoken to.
    pub flavour: Flavour,
    /// Headers of every request.
    pub headers: Vec<(String, String)>,
    /// Certificates to trust.
    pub ca_file: Option<PathBuf>,
    /// Our certificate and its key.
    pub client_cert: Option<(PathBuf, Option<PathBuf>)>,
    /// Whether plain HTTP may go to other machines.
    pub allow_insecure: bool,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("flavour", &self.flavour)
            .finish_non_exhaustive()
    }
}

impl Scope {
    /// Texts may refer to this workspace, this home and what `variables` knows.
    pub fn new(
        workspace: &Path,
        home: Option<&Path>,
        variables: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            variables: Arc::new(variables),
            workspace: workspace.to_owned(),
            home: home.map(Path::to_owned),
            closed: Vec::new(),
        }
    }

    /// The workspace.
    #[must_use]
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// A text of a server with everything put in.
    ///
    /// # Errors
    /// When it refers to something that is not there.
    pub fn expand(&self, text: &Template, config: &ServerConfig) -> Result<String, ExpandError> {
        let mut expanded = String::new();
        for part in Parts(text.written()) {
            match part? {
                Part::Text(text) => expanded.push_str(text),
                Part::Reference(text) => expanded.push_str(&self.value(text, config)?),
            }
            if expanded.len() > MAX_BYTES {
                let what = "a text is longer than 4 MiB with the values of its variables";
                return Err(ExpandError::Unusable(what));
            }
        }
        if expanded.contains('\0') {
            return Err(ExpandError::Unusable("a text holds a character 0"));
        }
        Ok(expanded)
    }

    /// Whether everything that a server refers to is there.
    ///
    /// # Errors
    /// What is not.
    pub fn check(&self, config: &ServerConfig) -> Result<(), ExpandError> {
        for text in texts(config) {
            self.expand(text, config)?;
        }
        if let Transport::Http(HttpConfig {
            auth: Some(Auth::Env(name)),
            ..
        }) = &config.transport
        {
            self.variable(name)?;
        }
        if let Transport::Http(HttpConfig {
            auth: Some(Auth::OAuth(oauth)),
            ..
        }) = &config.transport
        {
            for secret in oauth.secrets() {
                self.secret(secret, config)?;
            }
        }
        Ok(())
    }

    /// A process, ready to be started.
    ///
    /// # Errors
    /// When something that it refers to is not there.
    pub fn process(
        &self,
        stdio: &StdioConfig,
        config: &ServerConfig,
    ) -> Result<Process, ExpandError> {
        let cwd = match &stdio.cwd {
            Some(cwd) => self.path(cwd, config)?,
            None => config.origin.directory.clone(),
        };
        let command = self.expand(&stdio.command, config)?;
        let is_relative = command.contains('/') && !command.starts_with('/');
        let command = match is_relative {
            true => cwd.join(&command).to_string_lossy().into_owned(),
            false => command,
        };
        let mut env = match &stdio.env_file {
            Some(file) => env_file::read(&self.path(file, config)?)?,
            None => Vec::new(),
        };
        for (name, value) in &stdio.env {
            let value = self.expand(value, config)?;
            env.retain(|(other, _)| other != name);
            env.push((name.clone(), value));
        }
        Ok(Process {
            command,
            args: self.all(&stdio.args, config)?,
            cwd,
            env,
            inherit_env: stdio.inherit_env,
        })
    }

    /// A server on the network, ready to be reached.
    ///
    /// # Errors
    /// When something that it refers to is not there.
    pub fn endpoint(
        &self,
        http: &HttpConfig,
        config: &ServerConfig,
    ) -> Result<Endpoint, ExpandError> {
        let url = self.expand(&http.url, config)?;
        if !url.starts_with("http://") && !url.starts_with("https://") {
            let what = "the url must begin with http:// or https://";
            return Err(ExpandError::Unusable(what));
        }
        let mut headers = Vec::with_capacity(http.headers.len());
        for (name, value) in &http.headers {
            let value = self.expand(value, config)?;
            if value.contains(['\r', '\n']) {
                let what = "the value of a header has more than one line";
                return Err(ExpandError::Unusable(what));
            }
            headers.push((name.clone(), value));
        }
        let path = |text: &Template| self.path(text, config);
        let client_cert = match &http.client_cert {
            Some((certificate, key)) => {
                Some((path(certificate)?, key.as_ref().map(path).transpose()?))
            }
            None => None,
        };
        Ok(Endpoint {
            url,
            flavour: http.flavour,
            headers,
            ca_file: http.ca_file.as_ref().map(path).transpose()?,
            client_cert,
            allow_insecure: http.allow_insecure,
        })
    }

    /// Several texts of a server.
    ///
    /// # Errors
    /// When one refers to something that is not there.
    pub fn all(
        &self,
        texts: &[Template],
        config: &ServerConfig,
    ) -> Result<Vec<String>, ExpandError> {
        let expanded = texts.iter().map(|text| self.expand(text, config));
        expanded.collect()
    }

    /// A path of a server, made absolute by the directory of its file. `~/` is the home.
    ///
    /// # Errors
    /// When it refers to something that is not there.
    pub fn path(&self, text: &Template, config: &ServerConfig) -> Result<PathBuf, ExpandError> {
        let path = self.expand(text, config)?;
        if let (Some(rest), Some(home)) = (path.strip_prefix("~/"), &self.home) {
            return Ok(home.join(rest));
        }
        Ok(config.origin.directory.join(path))
    }

    /// A variable of our environment that must be there, and not empty.
    ///
    /// # Errors
    /// When it is not.
    pub fn variable(&self, name: &str) -> Result<String, ExpandError> {
        let value = (self.variables)(name).filter(|value| !value.is_empty());
        value.ok_or_else(|| ExpandError::Variable(name.to_owned()))
    }

    fn value(&self, text: &str, config: &ServerConfig) -> Result<String, ExpandError> {
        let (name, default) = match text.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (text, None),
        };
        let or_default = |value: Option<String>| {
            let value = value.filter(|value| !value.is_empty() || default.is_none());
            value.or_else(|| default.map(str::to_owned))
        };
        match reference(name).ok_or_else(|| ExpandError::Unknown(name.to_owned()))? {
            // An empty variable is set, as in a shell, where no default is given.
            Reference::Variable(name) => {
                or_default((self.variables)(&name)).ok_or(ExpandError::Variable(name))
            }
            Reference::Input(id) => {
                let variable = input_variable(&id);
                let known = config.inputs.get(&id);
                or_default((self.variables)(&variable))
                    .or_else(|| known.and_then(|input| input.default.clone()))
                    .ok_or(ExpandError::Input { id, variable })
            }
            Reference::Directory(name) => self.directory(&name),
        }
    }

    fn directory(&self, name: &str) -> Result<String, ExpandError> {
        let path = match name {
            "workspaceFolderBasename" => self.workspace.file_name().map(Path::new),
            "userHome" => self.home.as_deref(),
            _ => Some(self.workspace.as_path()),
        };
        let unknown = || ExpandError::Unknown(name.to_owned());
        let path = path.and_then(Path::to_str).ok_or_else(unknown)?;
        Ok(path.to_owned())
    }
}

#[cfg(test)]
mod tests;
