//! One server.

use std::{fmt, time::Duration};

use bytes::Bytes;
use reqwest::{
    Client, Method, Response, Url,
    header::{
        ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue,
    },
    redirect,
};
use tokio::time::timeout;

use crate::{
    trust::{is_local, trusting},
    words::{MAX_SAID, masked, quoted, shown, with_causes},
};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);

/// How long it may take to read why a server refuses.
const REFUSAL: Duration = Duration::from_secs(10);

/// A server that is asked.
pub struct Endpoint {
    client: Client,
    url: Url,
    server: String,
    /// Taken out of what is shown.
    key: Option<String>,
}

/// Why an address or a key is of no use, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EndpointError(String);

/// How long an answer may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Until it begins.
    pub first: Duration,
    /// Until more of it comes.
    pub next: Duration,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The server cannot be reached.
    #[error("{0}")]
    Unreachable(String),
    /// It said nothing for so long.
    #[error("no data arrived for {} seconds", .0.as_secs())]
    Late(Duration),
    /// The answer broke off.
    #[error("{0}")]
    Broken(String),
    /// It refuses.
    #[error("{status}: {said}")]
    Refused {
        /// Its status.
        status: u16,
        /// What it said, in a line and without the key.
        said: String,
    },
    /// It answered more than may be.
    #[error("more than {0} bytes")]
    TooLong(usize),
    /// Its answer is compressed, although the request asked for an answer that is not.
    #[error(
        "the response is compressed ({0:?}), which is not supported; switch compression off at the server"
    )]
    Compressed(String),
}

/// An answer, piece by piece.
#[derive(Debug)]
pub struct Answer {
    response: Response,
    next: Duration,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

impl Endpoint {
    /// A server at an address over http or https, and the key that it is shown, if it wants one.
    ///
    /// # Errors
    /// When the address is not a URL, or a key would go over a network where others can read it.
    pub fn new(url: &str, key: Option<&str>) -> Result<Self, EndpointError> {
        let refused = |fault: String| EndpointError(fault);
        let address = Url::parse(url).map_err(|error| {
            refused(format!(
                "the address is not a URL ({error}); write it as http://127.0.0.1:11434"
            ))
        })?;
        if !matches!(address.scheme(), "http" | "https") || address.host_str().is_none() {
            return Err(refused(format!(
                "{} is not an http or https URL",
                shown(url)
            )));
        }
        let key = key.filter(|key| !key.is_empty());
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // Without the header, a server may choose any coding.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some(key) = key {
            if address.scheme() == "http" && !is_local(&address) {
                return Err(refused(format!(
                    "a key is sent only over https, and {} is not on this machine",
                    shown(url)
                )));
            }
            headers.insert(AUTHORIZATION, authorization(key)?);
        }
        Ok(Self {
            client: client(&address, headers).map_err(refused)?,
            server: shown(url),
            key: key.map(str::to_owned),
            url: address,
        })
    }

    /// The server, as it may be shown.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Whether it is on this machine, by how it is named.
    #[must_use]
    pub fn is_local(&self) -> bool {
        is_local(&self.url)
    }

    /// Returns the beginning of a text of the server, without secrets and without the key.
    #[must_use]
    pub fn masked(&self, text: &str) -> String {
        masked(text, self.key.as_deref())
    }

    /// Asks something below the address: with a body, else without.
    ///
    /// # Errors
    /// When it cannot be reached, does not begin to answer in time, or refuses.
    pub async fn ask(
        &self,
        path: &[&str],
        body: Option<Vec<u8>>,
        limits: Limits,
    ) -> Result<Answer, Fault> {
        let mut url = self.url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        let request = match body {
            Some(body) => self.client.request(Method::POST, url).body(body),
            None => self.client.request(Method::GET, url),
        };
        let sent = timeout(limits.first, request.send()).await;
        let response = sent.map_err(|_| Fault::Late(limits.first))?;
        let response = response.map_err(|error| Fault::Unreachable(told(error)))?;
        let status = response.status();
        if status.is_success() {
            if let Some(coding) = coding(response.headers()) {
                return Err(Fault::Compressed(self.masked(&coding)));
            }
            let next = limits.next;
            return Ok(Answer { response, next });
        }
        Err(Fault::Refused {
            status: status.as_u16(),
            said: self.refusal(response).await,
        })
    }

    /// Why it refuses, as far as it says.
    async fn refusal(&self, mut response: Response) -> String {
        let most = MAX_SAID + self.key.as_ref().map_or(0, String::len);
        let mut said = Vec::new();
        let read = async {
            while let Ok(Some(chunk)) = response.chunk().await {
                said.extend_from_slice(&chunk);
                if said.len() > most {
                    break;
                }
            }
        };
        // What was read by then says enough.
        let _ = timeout(REFUSAL, read).await;
        said.truncate(most);
        quoted(said, self.key.as_deref())
    }
}

impl Answer {
    /// More of it; `None` at its end.
    ///
    /// # Errors
    /// When it breaks off, or nothing comes in time.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Fault> {
        let chunk = timeout(self.next, self.response.chunk()).await;
        let chunk = chunk.map_err(|_| Fault::Late(self.next))?;
        chunk.map_err(|error| Fault::Broken(told(error)))
    }

    /// All of it, where that is not more than so many bytes.
    ///
    /// # Errors
    /// As [`Self::chunk`], or when it is more.
    pub async fn whole(mut self, most: usize) -> Result<Vec<u8>, Fault> {
        let mut all = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if all.len() + chunk.len() > most {
                return Err(Fault::TooLong(most));
            }
            all.extend_from_slice(&chunk);
        }
        Ok(all)
    }
}

/// The coding of an answer that has one.
fn coding(headers: &HeaderMap) -> Option<String> {
    let values = headers.get_all(CONTENT_ENCODING).into_iter();
    let names = values.flat_map(|value| value.to_str().unwrap_or("unknown").split(','));
    let mut names = names.map(|name| name.trim().to_ascii_lowercase());
    names.find(|name| !name.is_empty() && name != "identity")
}

fn told(error: reqwest::Error) -> String {
    with_causes(&error.without_url())
}

/// The header that a key goes into.
fn authorization(key: &str) -> Result<HeaderValue, EndpointError> {
    let value = HeaderValue::from_str(&format!("Bearer {key}"));
    let mut value = value
        .map_err(|_| EndpointError("its key has characters that no header may have".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_of_no_use_is_refused_without_its_secrets() {
        for (url, key, part) in [
            ("nowhere", None, "the address is not a URL"),
            ("ftp://host/x", None, "not an http or https URL"),
            (
                "http://me:pw@far.example/v1?q=s",
                Some("sk-1"),
                "only over https",
            ),
            ("https://far.example", Some("a\nb"), "no header may have"),
        ] {
            let told = Endpoint::new(url, key).unwrap_err().to_string();
            assert!(told.contains(part), "{told}");
            for secret in ["pw", "sk-1", "q=s"] {
                assert!(!told.contains(secret), "{told}");
            }
        }
        let local = Endpoint::new("http://127.0.0.1:1/v1", Some("sk-1")).unwrap();
        assert!(local.is_local() && !format!("{local:?}").contains("sk-1"));
    }
}
