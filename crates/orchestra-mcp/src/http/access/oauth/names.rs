//! The names that OAuth goes by: URLs of issuers, resources and keys, and scopes.

use std::{fmt, str::FromStr};

use reqwest::Url;

/// The most characters of a URL or a scope: they stand in headers.
const MOST: usize = 1_024;

/// The URL that names an issuer or a resource (RFC 8414, section 2; RFC 9728, section 1.2): https,
/// or http on this machine, without a query and a fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceUrl {
    /// As it was written, for it is compared like that.
    text: String,
    url: Url,
}

/// Where keys are fetched: https, or http on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeysUrl(Url);

/// What a token may be good for (RFC 6749, section 3.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope(String);

/// Text that is no such name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OAuthNameError {
    /// No issuer and no resource.
    #[error("expected {}", self.expected())]
    Service,
    /// No place of keys.
    #[error("expected {}", self.expected())]
    Keys,
    /// No scope.
    #[error("expected {}", self.expected())]
    Scope,
}

impl OAuthNameError {
    /// What is expected instead.
    #[must_use]
    pub const fn expected(self) -> &'static str {
        match self {
            Self::Service => {
                "a URL such as https://login.example/main, or http:// on this machine, without a \
                 query or fragment"
            }
            Self::Keys => "a URL such as https://login.example/keys, or http:// on this machine",
            Self::Scope => "one scope, such as orchestra:use, without spaces and quotes",
        }
    }
}

impl ServiceUrl {
    /// Whether a route can have its path: parts that begin so were patterns in earlier versions of
    /// axum, which refuses them.
    pub(super) fn can_be_routed(&self) -> bool {
        let mut parts = self.url.path().split('/');
        parts.all(|part| !part.starts_with([':', '*']))
    }
}

impl FromStr for ServiceUrl {
    type Err = OAuthNameError;

    fn from_str(text: &str) -> Result<Self, OAuthNameError> {
        let url = secure(text).filter(|url| url.query().is_none());
        let url = url.ok_or(OAuthNameError::Service)?;
        Ok(Self {
            text: text.to_owned(),
            url,
        })
    }
}

impl FromStr for KeysUrl {
    type Err = OAuthNameError;

    fn from_str(text: &str) -> Result<Self, OAuthNameError> {
        secure(text).map(Self).ok_or(OAuthNameError::Keys)
    }
}

impl FromStr for Scope {
    type Err = OAuthNameError;

    fn from_str(text: &str) -> Result<Self, OAuthNameError> {
        let is_allowed = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
        if text.is_empty() || text.len() > MOST || !text.bytes().all(is_allowed) {
            return Err(OAuthNameError::Scope);
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for ServiceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for KeysUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ServiceUrl {
    /// As it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The host that it names, without a port.
    #[must_use]
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    pub(super) const fn url(&self) -> &Url {
        &self.url
    }

    /// Whether another text is the same URL, however its scheme and host are written. A slash where
    /// the path would be otherwise empty says nothing.
    pub(super) fn is(&self, text: &str) -> bool {
        text == self.text
            || text
                .parse::<Self>()
                .is_ok_and(|other| other.url == self.url)
    }

    /// The path, empty if it says nothing.
    pub(super) fn path(&self) -> &str {
        match self.url.path() {
            "/" => "",
            path => path,
        }
    }

    /// The URL of what is well known of it, put between host and path (RFC 8615).
    pub(super) fn well_known(&self, name: &str) -> Url {
        let path = format!("/.well-known/{name}{}", self.path());
        self.with_path(&path)
    }

    /// The same, put behind the path, as `OpenID` Connect has it.
    pub(super) fn well_known_behind(&self, name: &str) -> Url {
        let path = self.path().trim_end_matches('/');
        let path = format!("{path}/.well-known/{name}");
        self.with_path(&path)
    }

    /// This issuer with no slash at its end, for well-known places (RFC 8414, section 3.1).
    pub(super) fn without_last_slash(&self) -> Self {
        let path = self.path().trim_end_matches('/').to_owned();
        Self {
            text: self.text.clone(),
            url: self.with_path(&path),
        }
    }

    fn with_path(&self, path: &str) -> Url {
        let mut url = self.url.clone();
        url.set_path(path);
        url
    }
}

impl KeysUrl {
    pub(super) const fn url(&self) -> &Url {
        &self.0
    }
}

impl Scope {
    /// As it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A URL that nobody on the way can read or change.
fn secure(text: &str) -> Option<Url> {
    // The parser of URLs would repair these.
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !br#""\<>"#.contains(&byte);
    if text.len() > MOST || !text.bytes().all(is_plain) {
        return None;
    }
    let url = Url::parse(text).ok()?;
    let is_bare = url.username().is_empty() && url.password().is_none();
    let is_secure = match url.scheme() {
        "https" => true,
        "http" => is_local(&url),
        _ => false,
    };
    (is_secure && is_bare && url.has_host() && url.fragment().is_none()).then_some(url)
}

/// Whether it leads to this machine.
pub(super) fn is_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<std::net::IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_could_read_on_the_way_is_no_service() {
        for text in [
            "https://login.example",
            "https://login.example:8443/realms/main/",
            "http://127.0.0.1:7420/mcp",
            "http://[::1]:1",
            "http://localhost",
        ] {
            assert!(text.parse::<ServiceUrl>().is_ok(), "{text}");
        }
        for text in [
            "",
            "login.example",
            "http://login.example",
            "http://localhost.example",
            "ftp://localhost",
            "https://",
            "https://a b",
            "https://login.example?a",
            "https://login.example#a",
            "https://me@login.example",
            "https://login.example/\"",
            "https://login.example\\a",
        ] {
            assert!(text.parse::<ServiceUrl>().is_err(), "{text}");
        }
        let keys = "https://login.example/keys?p=main";
        assert!(keys.parse::<KeysUrl>().is_ok());
        assert!("http://login.example/keys".parse::<KeysUrl>().is_err());
    }

    #[test]
    fn one_service_may_be_written_in_several_ways() {
        let is = |one: &str, other: &str| one.parse::<ServiceUrl>().unwrap().is(other);
        assert!(is("https://box.example", "https://box.example/"));
        assert!(is("https://box.example/mcp", "HTTPS://Box.Example:443/mcp"));
        assert!(!is("https://box.example/mcp", "https://box.example/mcp/"));
        assert!(!is("https://box.example/mcp", "https://box.example/MCP"));
        assert!(!is("https://box.example/mcp", "https://box.example"));
        assert!(!is("https://box.example", "https://box.example:8443"));
        assert!(!is("https://box.example", "https://box.example?"));
    }

    #[test]
    fn what_is_well_known_stands_before_or_behind_the_path() {
        let url = |text: &str| text.parse::<ServiceUrl>().unwrap();
        for (text, before, behind) in [
            (
                "https://login.example",
                "https://login.example/.well-known/x",
                "https://login.example/.well-known/x",
            ),
            (
                "https://login.example:1/a/b/",
                "https://login.example:1/.well-known/x/a/b",
                "https://login.example:1/a/b/.well-known/x",
            ),
        ] {
            let issuer = url(text).without_last_slash();
            assert_eq!(issuer.well_known("x").as_str(), before);
            assert_eq!(issuer.well_known_behind("x").as_str(), behind);
        }
        let resource = url("https://box.example/mcp");
        assert_eq!(
            resource.well_known("y").as_str(),
            "https://box.example/.well-known/y/mcp"
        );
    }

    #[test]
    fn a_scope_is_one_word() {
        for text in ["a", "orchestra:use", "https://box.example/use"] {
            assert!(text.parse::<Scope>().is_ok(), "{text}");
        }
        for text in ["", "a b", "a\"", "a\\", "ä"] {
            assert!(text.parse::<Scope>().is_err(), "{text}");
        }
    }
}
