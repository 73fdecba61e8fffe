//! Fetching the files of a model from a hub, which has them below `OWNER/NAME/resolve/main/`.
//!
//! Only https is spoken, but to this machine, also where the hub sends on to another server; answers are
//! bounded, and no key is shown to anybody.

use std::fmt;
use std::io::Write;
use std::time::Duration;

use orchestra_remote::{is_local, shown, trusting, with_causes};
use reqwest::{Client, Url, redirect};
use tokio::runtime;
use tokio::time::timeout;

use super::ModelError;

/// The hub that is asked unless another is named.
pub const HUB: &str = "https://huggingface.co";

/// How often a hub may send on.
const MAX_REDIRECTS: usize = 5;
/// How long a connection may take, and how long nothing may come.
const CONNECT: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_secs(30);

/// The name of a model on a hub: `OWNER/NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubName {
    owner: String,
    name: String,
}

impl HubName {
    /// What a text names; `None` when it is no such name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (owner, name) = text.split_once('/')?;
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let is_part = |part: &str| {
            (1..=96).contains(&part.len()) && !part.starts_with('.') && part.chars().all(fits)
        };
        (is_part(owner) && is_part(name)).then(|| Self {
            owner: owner.to_owned(),
            name: name.to_owned(),
        })
    }

    /// The part after the owner.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for HubName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

/// A hub.
#[derive(Debug)]
pub struct Hub {
    client: Client,
    base: Url,
    runtime: runtime::Runtime,
}

impl Hub {
    /// The hub at an address. Must not be used inside a runtime.
    ///
    /// # Errors
    /// When the address is not a URL, or is not https and of another machine.
    pub fn at(address: &str) -> Result<Self, ModelError> {
        let refused = |fault: String| ModelError::Hub(fault);
        let base = Url::parse(address).map_err(|error| {
            refused(format!(
                "the address is not a URL ({error}); write it as {HUB}"
            ))
        })?;
        if !is_allowed(&base) {
            return Err(refused(format!("{} is not an https URL", shown(address))));
        }
        let policy = redirect::Policy::custom(|attempt| {
            if !is_allowed(attempt.url()) || attempt.previous().len() > MAX_REDIRECTS {
                return attempt.error(
                    "the redirect leads to an address that is not https, or is one too many",
                );
            }
            attempt.follow()
        });
        let mut client = Client::builder()
            .tls_backend_preconfigured(trusting(&base).map_err(refused)?)
            .connect_timeout(CONNECT)
            .redirect(policy)
            .user_agent(concat!("orchestra/", env!("CARGO_PKG_VERSION")));
        if is_local(&base) {
            client = client.no_proxy();
        }
        let client = client.build().map_err(|error| refused(error.to_string()))?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| refused(format!("it cannot be reached: {error}")))?;
        Ok(Self {
            client,
            base,
            runtime,
        })
    }

    /// Fetches a file of a model; how many bytes it has, or `None` where there is no such file. `told` is
    /// called with what came so far, and how much will.
    ///
    /// # Errors
    /// When the hub refuses or falls silent, the file is larger than `most`, or it cannot be written.
    pub fn fetch(
        &self,
        model: &HubName,
        file: &str,
        most: u64,
        into: &mut dyn Write,
        told: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<Option<u64>, ModelError> {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty()
                .extend([&model.owner, &model.name, "resolve", "main"])
                .extend(file.split('/'));
        }
        self.runtime.block_on(self.stream(url, most, into, told))
    }

    async fn stream(
        &self,
        url: Url,
        most: u64,
        into: &mut dyn Write,
        told: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<Option<u64>, ModelError> {
        let name = shown(url.as_str());
        let failed = |fault: &str| ModelError::Hub(format!("{name}: {fault}"));
        let broken = |error: reqwest::Error| failed(&with_causes(&error.without_url()));
        let silent = |_| failed("it gives no answer");
        let sent = timeout(SILENCE, self.client.get(url).send()).await;
        let mut response = sent.map_err(silent)?.map_err(broken)?;
        let status = response.status().as_u16();
        match status {
            200 => {}
            404 => return Ok(None),
            // This is also what is said of a model that is not there.
            401 | 403 => {
                return Err(failed(
                    "there is no such model, or it requires a login; download it in another way and install the directory",
                ));
            }
            status => return Err(failed(&format!("the hub returned status {status}"))),
        }
        let length = response.content_length();
        let mut bytes = 0;
        loop {
            let chunk = timeout(SILENCE, response.chunk()).await;
            let Some(chunk) = chunk.map_err(silent)?.map_err(broken)? else {
                break;
            };
            bytes += chunk.len() as u64;
            if bytes > most || length.is_some_and(|length| length > most) {
                return Err(failed(&format!("it has more than {most} bytes")));
            }
            into.write_all(&chunk)
                .map_err(|error| failed(&format!("it cannot be written: {error}")))?;
            told(bytes, length);
        }
        if length.is_some_and(|length| length != bytes) {
            return Err(failed("it ended before its end"));
        }
        Ok(Some(bytes))
    }
}

fn is_allowed(url: &Url) -> bool {
    match url.scheme() {
        "https" => url.host_str().is_some(),
        "http" => is_local(url),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_an_owner_and_leads_nowhere_else() {
        assert_eq!(
            HubName::parse("minishlab/potion-base-8M").map(|name| name.name),
            Some("potion-base-8M".to_owned())
        );
        for wrong in [
            "", "a", "a/", "/b", "a/b/c", "../b", "a/..", "a/b?c", "a b/c", "a/b#c",
        ] {
            assert_eq!(HubName::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_hub_elsewhere_is_asked_over_https() {
        assert!(Hub::at("http://127.0.0.1:1").is_ok());
        for wrong in [
            "http://example.org",
            "ftp://example.org",
            "file:///etc",
            "example",
        ] {
            assert!(Hub::at(wrong).is_err(), "{wrong}");
        }
    }
}
