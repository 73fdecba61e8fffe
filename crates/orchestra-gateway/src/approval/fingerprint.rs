//! What of a server is approved.

use sha2::{Digest as _, Sha256};

use crate::config::{
    Auth, HttpConfig, InheritEnv, Sandbox, ServerConfig, StdioConfig, Template, Transport,
};

/// The hash of everything in a server that says what is run or reached with which rights: when it
/// changes, an approval is void.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// The fingerprint of a server.
    #[must_use]
    pub fn of(config: &ServerConfig) -> Self {
        let mut digest = Digest(Sha256::new());
        match &config.transport {
            Transport::Stdio(stdio) => digest.stdio(stdio),
            Transport::Http(http) => digest.http(http),
        }
        match &config.sandbox {
            Sandbox::None => digest.text("no sandbox"),
            Sandbox::Workspace { read, write } => {
                digest.text("sandbox");
                digest.texts(read);
                digest.texts(write);
            }
        }
        let bytes = digest.0.finalize();
        Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// The hash, as hexadecimal digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Each part with its length, so that no two servers look the same.
struct Digest(Sha256);

impl Digest {
    fn text(&mut self, text: &str) {
        self.0.update((text.len() as u64).to_le_bytes());
        self.0.update(text.as_bytes());
    }

    fn flag(&mut self, flag: bool) {
        self.0.update([u8::from(flag)]);
    }

    fn count(&mut self, count: usize) {
        self.0.update((count as u64).to_le_bytes());
    }

    fn texts<'a>(&mut self, texts: impl IntoIterator<Item = &'a Template>) {
        let texts: Vec<&Template> = texts.into_iter().collect();
        self.count(texts.len());
        for text in texts {
            self.text(text.written());
        }
    }

    fn stdio(&mut self, stdio: &StdioConfig) {
        self.text("stdio");
        self.texts([&stdio.command]);
        self.texts(&stdio.args);
        self.texts(&stdio.cwd);
        self.count(stdio.env.len());
        for (name, value) in &stdio.env {
            self.text(name);
            self.text(value.written());
        }
        self.texts(&stdio.env_file);
        self.text(match stdio.inherit_env {
            InheritEnv::Default => "default",
            InheritEnv::All => "all",
            InheritEnv::None => "none",
        });
    }

    fn http(&mut self, http: &HttpConfig) {
        self.text("http");
        self.texts([&http.url]);
        self.text(http.flavour.as_str());
        self.count(http.headers.len());
        for (name, value) in &http.headers {
            self.text(name);
            self.text(value.written());
        }
        self.texts(&http.ca_file);
        let certificate = http.client_cert.iter();
        self.texts(certificate.flat_map(|(certificate, key)| [certificate].into_iter().chain(key)));
        self.flag(http.allow_insecure);
        match &http.auth {
            None => self.text("no auth"),
            Some(Auth::Bearer(token)) => {
                self.text("bearer");
                self.texts([token]);
            }
            Some(Auth::Env(name)) => {
                self.text("env");
                self.text(name);
            }
            Some(Auth::Command { command, args }) => {
                self.text("command");
                self.texts([command]);
                self.texts(args);
            }
            Some(Auth::OAuth {
                client_id,
                client_secret,
                scopes,
                redirect_port,
            }) => {
                self.text("oauth");
                self.texts(client_id);
                self.texts(client_secret);
                self.count(scopes.len());
                for scope in scopes {
                    self.text(scope);
                }
                self.text(&redirect_port.unwrap_or(0).to_string());
            }
        }
    }
}
