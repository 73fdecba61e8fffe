//! How a request says who sends it, and what is done when that is not enough.

use std::{path::PathBuf, sync::Arc};

use orchestra_hub::BoxFuture;
use orchestra_process::Launcher;
use reqwest::{
    Method, StatusCode, Url,
    header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue},
};
use tokio::{sync::Mutex, time::Instant};

use super::{
    config::{Auth, Check, HttpConfig, sensitive},
    oauth::{OAuth, OAuthConfig, Tokens},
    program,
    template::{self, Secrets, Template},
};
use crate::client::ClientError;

/// Says who sends a request, in ways of its own.
pub trait Authorizer: Send + Sync + 'static {
    /// The headers of a request.
    ///
    /// # Errors
    /// [`ClientError::NeedsAuth`] when somebody has to sign in first.
    fn headers(&self, request: AuthRequest) -> BoxFuture<Result<AuthHeaders, ClientError>>;

    /// The server refused a request that had these headers. `Ok(true)`: something has changed, and
    /// the request may be sent once more.
    ///
    /// # Errors
    /// [`ClientError::NeedsAuth`] when somebody has to sign in.
    fn refused(&self, refusal: Refusal) -> BoxFuture<Result<bool, ClientError>>;

    /// A response came; it may bring something for the requests after it (a nonce).
    fn observe(&self, _headers: &HeaderMap) {}
}

/// The headers that say who sends a request.
pub type AuthHeaders = Vec<(HeaderName, HeaderValue)>;

/// A request that is about to be sent.
#[derive(Debug, Clone)]
pub struct AuthRequest {
    /// Its method.
    pub method: Method,
    /// Where it goes.
    pub url: Url,
}

/// A request that was refused.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// 401 or 403.
    pub status: u16,
    /// The values of `WWW-Authenticate`.
    pub challenges: Vec<String>,
    /// What its header `Authorization` was.
    pub shown: Option<HeaderValue>,
    /// The request.
    pub request: AuthRequest,
    /// How often this request was refused before.
    pub before: u32,
    /// Other headers of the response (a nonce).
    pub headers: HeaderMap,
}

/// What a connection uses.
pub(super) struct Authorization {
    name: String,
    secrets: Arc<dyn Secrets>,
    way: Way,
}

enum Way {
    None,
    Template(Template),
    Command {
        program: String,
        args: Vec<String>,
        directory: PathBuf,
        check: Check,
        launcher: Option<Launcher>,
        /// Held while the program runs, so that one has it run for all.
        printed: Box<Mutex<Printed>>,
    },
    Through(Arc<dyn Authorizer>),
}

/// What a program that prints a token came to the last time.
#[derive(Default)]
struct Printed {
    token: Option<HeaderValue>,
    /// When it ended without one, and why.
    failed: Option<(Instant, ClientError)>,
}

impl Authorization {
    /// What a configuration says.
    ///
    /// # Errors
    /// When a file of the configuration cannot be used.
    pub(super) fn new(config: &HttpConfig) -> Result<Self, ClientError> {
        let way = match &config.auth {
            Auth::None => Way::None,
            Auth::Bearer(template) => Way::Template(template.clone()),
            Auth::Env(name) => match Template::parse(&format!("${{env:{name}}}")) {
                Ok(template) => Way::Template(template),
                // Such a name belongs to no variable; asking for it says so.
                Err(_) => Way::Template(Template::verbatim("")),
            },
            Auth::Command {
                program,
                args,
                directory,
                check,
            } => Way::Command {
                program: program.clone(),
                args: args.clone(),
                directory: directory.clone(),
                check: Arc::clone(check),
                launcher: config.launcher.clone(),
                printed: Box::default(),
            },
            Auth::OAuth(oauth) => {
                let oauth = OAuth::new(config, OAuthConfig::clone(oauth))?;
                Way::Through(Arc::new(Tokens(Arc::new(oauth))))
            }
            Auth::Through(authorizer) => Way::Through(Arc::clone(authorizer)),
        };
        Ok(Self {
            name: config.name.clone(),
            secrets: Arc::clone(&config.secrets),
            way,
        })
    }

    /// Adds to the headers of a request what says who sends it.
    pub(super) async fn add(
        &self,
        method: &Method,
        url: &Url,
        headers: &mut HeaderMap,
    ) -> Result<(), ClientError> {
        match &self.way {
            Way::None => {}
            Way::Template(template) => {
                let value = bearer(template, &*self.secrets)?;
                headers.insert(AUTHORIZATION, value);
            }
            Way::Command {
                program,
                args,
                directory,
                check,
                launcher,
                printed,
            } => {
                let came = Instant::now();
                // single-flight: the others wait for what the program prints for the first.
                let mut printed = printed.lock().await;
                if printed.token.is_none() {
                    // Whoever waited while it failed is told so, and does not have it run again.
                    if let Some((at, failed)) = &printed.failed
                        && *at >= came
                    {
                        return Err(failed.clone());
                    }
                    let token = async {
                        check().await?;
                        program::token(program, args, directory, launcher.as_ref()).await
                    };
                    match token.await {
                        Ok(token) => printed.token = Some(token),
                        Err(error) => {
                            printed.failed = Some((Instant::now(), error.clone()));
                            return Err(error);
                        }
                    }
                }
                headers.extend(printed.token.clone().map(|token| (AUTHORIZATION, token)));
            }
            Way::Through(authorizer) => {
                let request = AuthRequest {
                    method: method.clone(),
                    url: url.clone(),
                };
                headers.extend(authorizer.headers(request).await?);
            }
        }
        Ok(())
    }

    /// Whether a refusal for lack of rights may be answered with more of them.
    pub(super) fn may_ask_for_more(&self) -> bool {
        matches!(self.way, Way::Through(_))
    }

    /// What to do about a refusal: whether to send the request once more.
    pub(super) async fn refused(&self, refusal: Refusal) -> Result<bool, ClientError> {
        match &self.way {
            Way::None => Ok(false),
            Way::Through(authorizer) => authorizer.refused(refusal).await,
            _ if refusal.before > 0 => Ok(false),
            // Whoever sets the variable may have done so meanwhile.
            Way::Template(template) => Ok(Some(bearer(template, &*self.secrets)?) != refusal.shown),
            Way::Command { printed, .. } => {
                // single-flight: the program may be at it for another request.
                let mut printed = printed.lock().await;
                if printed.token == refusal.shown {
                    printed.token = None;
                }
                Ok(true)
            }
        }
    }

    /// A response came.
    pub(super) fn observe(&self, headers: &HeaderMap) {
        if let Way::Through(authorizer) = &self.way {
            authorizer.observe(headers);
        }
    }

    /// Nobody lets us in.
    pub(super) fn lost(&self, status: StatusCode) -> ClientError {
        let name = &self.name;
        let what = match &self.way {
            Way::None | Way::Through(_) => {
                format!("HTTP status {status}: run `orchestra mcp login {name}`")
            }
            Way::Template(_) => {
                format!("HTTP status {status}: it does not take the token of `auth`; renew it")
            }
            Way::Command { program, .. } => {
                format!("HTTP status {status}: it does not take the token that {program} prints")
            }
        };
        ClientError::NeedsAuth { what }
    }
}

fn bearer(template: &Template, secrets: &dyn Secrets) -> Result<HeaderValue, ClientError> {
    let token = template
        .expand(secrets)
        .map_err(|error| template::invalid("auth", &error))?;
    bearer_value(token.trim()).ok_or_else(|| ClientError::InvalidConfig {
        what: "auth: the token is empty, or has characters that a header cannot have".into(),
    })
}

/// A token as the value of `Authorization`.
pub(super) fn bearer_value(token: &str) -> Option<HeaderValue> {
    let token = token.strip_prefix("Bearer ").unwrap_or(token);
    if token.is_empty() {
        return None;
    }
    sensitive(&format!("Bearer {token}"))
}
