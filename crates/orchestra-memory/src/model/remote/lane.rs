//! One server, asked from threads that wait: the connection lives on a thread of its own, so that
//! nobody needs a runtime to ask.

use std::fmt;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Url, redirect};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::runtime::{self, Runtime};

use super::{RemoteOptions, authorization, shown};
use crate::causes::with_causes;
use crate::model::tokens::beginning;
use crate::model::{EmbedError, ModelError};

/// The longest answer: a full batch of the longest vectors, written out.
const MAX_ANSWER: usize = 32 << 20;
/// So much of a refusal is shown.
const MAX_SAID: usize = 300;
/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// How much longer than its own limit a request is waited for.
const MARGIN: Duration = Duration::from_secs(1);

/// The way to a server.
pub(super) struct Lane {
    client: Client,
    url: Url,
    server: String,
    /// Taken out of what is shown.
    key: Option<String>,
    /// Taken when it ends.
    runtime: Option<Runtime>,
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

impl Lane {
    pub(super) fn new(options: &RemoteOptions) -> Result<Self, ModelError> {
        let refused = |fault: String| ModelError::Remote(fault);
        let mut url = Url::parse(&options.url).map_err(|error| {
            refused(format!(
                "its address is none ({error}); expected is one such as http://127.0.0.1:11434"
            ))
        })?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(refused(format!(
                "{} is asked over http or https alone",
                shown(&options.url)
            )));
        }
        if options.model.is_empty() {
            return Err(refused("the name of a model is missing".to_owned()));
        }
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(options.api.path());
        }
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = &options.key {
            if url.scheme() == "http" && !is_local(&url) {
                return Err(refused(format!(
                    "a key is sent over https alone, and {} is not on this machine",
                    shown(&options.url)
                )));
            }
            headers.insert(AUTHORIZATION, authorization(key)?);
        }
        let client = client(&url, headers).map_err(refused)?;
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("memory-remote")
            .enable_all()
            .build()
            .map_err(|error| refused(format!("no thread can be started: {error}")))?;
        Ok(Self {
            client,
            url,
            server: shown(&options.url),
            key: options.key.clone().filter(|key| !key.is_empty()),
            runtime: Some(runtime),
        })
    }

    /// The server, as it may be shown.
    pub(super) fn server(&self) -> &str {
        &self.server
    }

    /// Sends a request and waits for its answer.
    pub(super) fn ask(&self, body: Vec<u8>, time: Duration) -> Result<Vec<u8>, EmbedError> {
        let server: Arc<str> = self.server.as_str().into();
        let unreachable = |fault: &str| EmbedError::Unreachable {
            server: self.server.clone(),
            fault: fault.to_owned(),
        };
        let Some(runtime) = &self.runtime else {
            return Err(unreachable("it is not asked any more"));
        };
        let request = self.client.post(self.url.clone()).timeout(time).body(body);
        let most_said = MAX_SAID + self.key.as_ref().map_or(0, String::len);
        let (sender, receiver) = mpsc::sync_channel(1);
        runtime.spawn(async move {
            // Who asked may have gone.
            let _ = sender.send(exchange(request, &server, most_said).await);
        });
        let late = |_| unreachable("it gave no answer in time");
        let answer = receiver.recv_timeout(time + MARGIN).map_err(late)?;
        answer.map_err(|fault| match fault {
            Fault::Told(error) => error,
            Fault::Refused { status, said } => EmbedError::Refused {
                server: self.server.clone(),
                status,
                said: quoted(said, self.key.as_deref()),
            },
        })
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        // Waiting for it would not be allowed everywhere.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Why there is no answer.
enum Fault {
    /// As it is told.
    Told(EmbedError),
    /// What the server said, as far as it was read.
    Refused { status: u16, said: Vec<u8> },
}

/// A refusal as it is shown: without the key, which some servers repeat that they refuse.
fn quoted(mut said: Vec<u8>, key: Option<&str>) -> String {
    let is_cut = said.len() > MAX_SAID;
    if let Some(key) = key.filter(|_| is_cut) {
        // A key may begin where the reading ended.
        let most = key.len().saturating_sub(1).min(said.len());
        let begun = (1..=most)
            .rev()
            .find(|len| said.ends_with(&key.as_bytes()[..*len]));
        said.truncate(said.len() - begun.unwrap_or(0));
    }
    let without_key = |said: String| match key {
        Some(key) => said.replace(key, "…"),
        None => said,
    };
    let said = without_key(String::from_utf8_lossy(&said).into_owned());
    // What was escaped there may be the key.
    let said = message(&said).map_or(said, without_key);
    in_a_line(beginning(&said, MAX_SAID))
}

/// What a refusal says to people, where it is JSON of a usual form.
fn message(said: &str) -> Option<String> {
    let said: serde_json::Value = serde_json::from_str(said).ok()?;
    let places = [&said["error"]["message"], &said["error"], &said["message"]];
    let text = places.into_iter().find_map(serde_json::Value::as_str)?;
    Some(text.to_owned())
}

/// With what is no sign of a script shown, not sent.
fn in_a_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\'' => line.push(c),
            _ => line.extend(c.escape_debug()),
        }
    }
    line
}

async fn exchange(
    request: reqwest::RequestBuilder,
    server: &str,
    most_said: usize,
) -> Result<Vec<u8>, Fault> {
    let unreachable = |error: reqwest::Error| {
        let error = error.without_url();
        let fault = match error.is_timeout() {
            true => "it gave no answer in time".to_owned(),
            false => with_causes(&error),
        };
        Fault::Told(EmbedError::Unreachable {
            server: server.to_owned(),
            fault,
        })
    };
    let mut response = request.send().await.map_err(unreachable)?;
    let status = response.status();
    let most = if status.is_success() {
        MAX_ANSWER
    } else {
        most_said
    };
    let mut answer = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        answer.extend_from_slice(&chunk);
        if answer.len() > most {
            break;
        }
    }
    if !status.is_success() {
        answer.truncate(most_said);
        return Err(Fault::Refused {
            status: status.as_u16(),
            said: answer,
        });
    }
    if answer.len() > MAX_ANSWER {
        return Err(Fault::Told(EmbedError::Answer {
            server: server.to_owned(),
            fault: format!("more than {MAX_ANSWER} bytes"),
        }));
    }
    Ok(answer)
}

/// How a server is trusted: as the machine does.
pub(in crate::model) fn trusting(url: &Url) -> Result<ClientConfig, String> {
    let no_tls = |error| format!("TLS cannot be set up: {error}");
    let config = || {
        ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(no_tls)
    };
    let trusting = match config()?.with_platform_verifier() {
        Ok(trusting) => trusting,
        // Where nobody is trusted, a server that needs no trust can be asked all the same.
        Err(_) if url.scheme() == "http" => {
            config()?.with_root_certificates(RootCertStore::empty())
        }
        Err(error) => return Err(no_tls(error)),
    };
    Ok(trusting.with_no_client_auth())
}

fn client(url: &Url, headers: HeaderMap) -> Result<Client, String> {
    let mut client = Client::builder()
        .tls_backend_preconfigured(trusting(url)?)
        .connect_timeout(CONNECT)
        .default_headers(headers)
        // Who is asked is who was named.
        .redirect(redirect::Policy::none())
        .user_agent(concat!("orchestra/", env!("CARGO_PKG_VERSION")));
    if is_local(url) {
        // No proxy leads to this machine.
        client = client.no_proxy();
    }
    client.build().map_err(|error| error.to_string())
}

/// Whether a server is on this machine, by how it is named.
pub(in crate::model) fn is_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || bare
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_a_key_is_shown_wherever_a_refusal_is_cut() {
        let key = "sk-0123456789";
        for before in MAX_SAID - 40..MAX_SAID + 40 {
            for times in 1..4 {
                let whole = format!("{}{}", " ".repeat(before), key.repeat(times));
                let read = whole.len().min(MAX_SAID + key.len());
                let said = quoted(whole.as_bytes()[..read].to_vec(), Some(key));
                assert!(!said.contains("sk-"), "{before}: {said}");
            }
        }
        let odd = quoted(b"bad \"sk-0123456789\"\n".to_vec(), Some(key));
        assert_eq!(odd, r#"bad "…"\n"#);
        let escaped = br#"{"error":{"message":"no \u0073k-0123456789"}}"#;
        assert_eq!(quoted(escaped.to_vec(), Some(key)), "no …");
    }

    #[test]
    fn a_refusal_in_json_is_shown_as_it_reads() {
        for (said, shown) in [
            (
                r#"{"error":"model \"x\" not found"}"#,
                r#"model "x" not found"#,
            ),
            (r#"{"error":{"message":"no key","code":1}}"#, "no key"),
            (r#"{"message":"a\nb"}"#, "a\\nb"),
            (r#"{"detail":1}"#, r#"{"detail":1}"#),
            ("<p>\u{1b}[2J", "<p>\\u{1b}[2J"),
        ] {
            assert_eq!(quoted(said.as_bytes().to_vec(), None), shown);
        }
    }
}
