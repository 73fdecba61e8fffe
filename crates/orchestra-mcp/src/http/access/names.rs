//! The names of hosts and origins, and which of them are let in: a page of somebody else in a
//! browser here must not reach the server, not even under a name that leads here (DNS rebinding).

use std::{fmt, net::IpAddr, str::FromStr};

use axum::http::{HeaderMap, HeaderValue, Method, Uri, header, uri::Authority};

use super::{AccessRules, peer::Peer};

/// The name of a host, without a port: a domain or an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostName(Name);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    Address(IpAddr),
    /// In lower case, without the dot at the end.
    Domain(String),
}

/// The origin of a page: scheme, host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebOrigin {
    scheme: String,
    host: HostName,
    port: Option<u16>,
}

/// Text that names no host or no origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No host.
    #[error("expected {}", self.expected())]
    Host,
    /// No origin.
    #[error("expected {}", self.expected())]
    Origin,
}

impl NameError {
    /// What is expected instead.
    #[must_use]
    pub const fn expected(self) -> &'static str {
        match self {
            Self::Host => "a host such as box.example or 192.168.1.20, without a port",
            Self::Origin => "an origin such as https://app.example or http://localhost:3000",
        }
    }
}

/// The longest domain (RFC 1035, section 2.3.4).
const DOMAIN_BYTES: usize = 253;

const WRONG_HOST: &str = "the Host header must name this machine: localhost, 127.0.0.1, [::1], or \
    a host that is allowed here (`orchestra up --allow-host`)";

const FOREIGN_LOCALHOST: &str = "the Host header names localhost, which may lead to another program: it listens on the \
    same port of the other loopback address; use the address that `orchestra up` prints";

const WRONG_ORIGIN: &str = "requests from pages of this origin are refused, unless it is allowed \
    here (`orchestra up --allow-origin`)";

const WRONG_SITE: &str = "requests from pages of other sites are refused; a link may lead to a page of the \
    dashboard";

impl FromStr for HostName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let bare = text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        if let Ok(address) = bare.unwrap_or(text).parse() {
            return Ok(Self(Name::Address(address)));
        }
        let domain = text.strip_suffix('.').unwrap_or(text);
        let is_label = |label: &str| {
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            !label.is_empty() && label.bytes().all(is_allowed)
        };
        if domain.len() > DOMAIN_BYTES || !domain.split('.').all(is_label) {
            return Err(NameError::Host);
        }
        Ok(Self(Name::Domain(domain.to_ascii_lowercase())))
    }
}

impl From<IpAddr> for HostName {
    fn from(address: IpAddr) -> Self {
        Self(Name::Address(address))
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Name::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Name::Address(address) => write!(f, "{address}"),
            Name::Domain(domain) => f.write_str(domain),
        }
    }
}

impl HostName {
    fn is_local(&self) -> bool {
        match &self.0 {
            Name::Address(address) => address.is_loopback(),
            Name::Domain(_) => self.is_localhost(),
        }
    }

    fn is_localhost(&self) -> bool {
        matches!(&self.0, Name::Domain(domain) if domain == "localhost")
    }
}

impl FromStr for WebOrigin {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let uri: Uri = text.parse().map_err(|_| NameError::Origin)?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(NameError::Origin);
        };
        if uri.path() != "/" || uri.query().is_some() || authority.as_str().contains('@') {
            return Err(NameError::Origin);
        }
        let port = port(authority).ok_or(NameError::Origin)?;
        let scheme = scheme.to_ascii_lowercase();
        let usual = usual_port(&scheme);
        Ok(Self {
            host: host(authority).ok_or(NameError::Origin)?,
            port: port.filter(|port| Some(*port) != usual),
            scheme,
        })
    }
}

impl fmt::Display for WebOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.host)?;
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

/// Refuses a request for another host. HTTP/2 names it in the target, HTTP/1 in a header, and in
/// the target as well if it likes.
pub(super) fn check_host(
    headers: &HeaderMap,
    target: &Uri,
    rules: &AccessRules,
) -> Result<(), &'static str> {
    let mut named = headers.get_all(header::HOST).iter();
    let header = named.next();
    if named.next().is_some() {
        return Err(WRONG_HOST);
    }
    let check = |authority: &Authority| match host(authority) {
        Some(host) if rules.hosts.contains(&host) => Ok(()),
        Some(host) if host.is_localhost() && rules.is_localhost_foreign => Err(FOREIGN_LOCALHOST),
        Some(host) if host.is_local() => Ok(()),
        _ => Err(WRONG_HOST),
    };
    if let Some(header) = header {
        check(&parsed::<Authority>(header).ok_or(WRONG_HOST)?)?;
    }
    match target.authority() {
        Some(authority) => check(authority),
        None if header.is_some() => Ok(()),
        None => Err(WRONG_HOST),
    }
}

/// Refuses a request from a page of an origin that is neither allowed nor our own; the host was checked before. Returns
/// the origin if it is one that may read the answer. Any user of this machine can serve a page at another of its ports,
/// and anyone on the way a page without TLS, so such a page is refused like any other.
pub(super) fn check_origin(
    headers: &HeaderMap,
    target: &Uri,
    peer: Peer,
    rules: &AccessRules,
) -> Result<Option<HeaderValue>, &'static str> {
    let mut values = headers.get_all(header::ORIGIN).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let origin: WebOrigin = parsed(value).ok_or(WRONG_ORIGIN)?;
    if values.next().is_some() {
        return Err(WRONG_ORIGIN);
    }
    if rules.origins.contains(&origin) {
        return Ok(Some(value.clone()));
    }
    if peer.serves(&origin.scheme, headers) && is_own(&origin, headers, target) {
        return Ok(None);
    }
    Err(WRONG_ORIGIN)
}

/// Refuses a request that a browser sends without an `Origin` header for a page of another site or port: an image, a
/// script, a frame, a download (Fetch Metadata). Links to pages, which the browser shows in place of that page, stay
/// allowed where `links` is set. A request with an origin is left to [`check_origin`].
pub(super) fn check_site(
    method: &Method,
    headers: &HeaderMap,
    links: bool,
) -> Result<(), &'static str> {
    let mut sites = headers.get_all("sec-fetch-site").iter();
    let is_own = sites.all(|site| matches!(site.as_bytes(), b"same-origin" | b"none"));
    let is = |name: &str, value: &str| headers.get(name).is_some_and(|is| is == value);
    let is_link = matches!(*method, Method::GET | Method::HEAD)
        && is("sec-fetch-mode", "navigate")
        && is("sec-fetch-dest", "document");
    match is_own || headers.contains_key(header::ORIGIN) || (links && is_link) {
        true => Ok(()),
        false => Err(WRONG_SITE),
    }
}

/// Whether the page comes from where the request goes to.
fn is_own(origin: &WebOrigin, headers: &HeaderMap, target: &Uri) -> bool {
    let named = headers.get(header::HOST).and_then(parsed::<Authority>);
    let Some(authority) = named.or_else(|| target.authority().cloned()) else {
        return false;
    };
    let usual = usual_port(&origin.scheme);
    host(&authority).as_ref() == Some(&origin.host)
        && port(&authority).is_some_and(|port| port.or(usual) == origin.port.or(usual))
}

fn parsed<T: FromStr>(value: &HeaderValue) -> Option<T> {
    value.to_str().ok()?.parse().ok()
}

fn host(authority: &Authority) -> Option<HostName> {
    if authority.as_str().contains('@') {
        return None;
    }
    let host = authority.host();
    // An address of IPv6 without its brackets is cut in the middle.
    let is_whole =
        authority.as_str().len() == host.len() || authority.as_str()[host.len()..].starts_with(':');
    host.parse().ok().filter(|_| is_whole)
}

/// The port, if it names one; `None` when what it names is none.
fn port(authority: &Authority) -> Option<Option<u16>> {
    let rest = authority.as_str().strip_prefix(authority.host())?;
    match rest.strip_prefix(':') {
        None | Some("") => Some(None),
        Some(digits) => digits.parse().ok().map(Some),
    }
}

fn usual_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use orchestra_process::PeerUser;

    use super::*;

    const TARGET: &str = "/mcp";

    fn rules() -> AccessRules {
        AccessRules {
            hosts: ["box.example", "192.168.1.20", "fd00::1"]
                .map(|host| host.parse().unwrap())
                .into(),
            origins: [
                "https://app.example",
                "http://localhost:3000",
                "vscode-webview://0a1b",
            ]
            .map(|origin| origin.parse().unwrap())
            .into(),
            ..AccessRules::default()
        }
    }

    fn host_is(rules: &AccessRules, host: Option<&str>, target: &str) -> bool {
        let mut headers = HeaderMap::new();
        if let Some(host) = host {
            headers.insert(header::HOST, host.parse().unwrap());
        }
        check_host(&headers, &target.parse().unwrap(), rules).is_ok()
    }

    /// Whether a page is let in, and whether it may read the answer.
    fn page(rules: &AccessRules, host: &str, origin: &str) -> Option<bool> {
        page_over(rules, &[("host", host), ("origin", origin)], false)
    }

    /// As [`page`], of a request with any headers, over TLS or not.
    fn page_over(
        rules: &AccessRules,
        headers: &[(&'static str, &str)],
        is_tls: bool,
    ) -> Option<bool> {
        let headers = headers.iter().map(|(name, value)| {
            let name = header::HeaderName::from_static(name);
            (name, value.parse().unwrap())
        });
        let peer = Peer {
            address: None,
            user: PeerUser::Unknown,
            is_tls,
        };
        let checked = check_origin(&headers.collect(), &TARGET.parse().unwrap(), peer, rules);
        checked.ok().map(|page| page.is_some())
    }

    #[test]
    fn own_pages_have_the_scheme_of_the_server() {
        let rules = rules();
        let at = |host, origin, is_tls| {
            let headers = [("host", host), ("origin", origin)];
            page_over(&rules, &headers, is_tls)
        };
        let (host, bare) = ("box.example:7420", "box.example");
        for (host, origin, is_tls) in [
            (host, "http://box.example:7420", false),
            (host, "https://box.example:7420", true),
            (bare, "http://box.example", false),
            (bare, "https://box.example", true),
        ] {
            assert_eq!(at(host, origin, is_tls), Some(false), "{origin}");
            assert_eq!(at(host, origin, !is_tls), None, "{origin}");
        }
        // A proxy may serve TLS in front of a server without TLS.
        let forwarded = ("x-forwarded-proto", "https");
        let headers = [("host", bare), ("origin", "https://box.example"), forwarded];
        assert_eq!(page_over(&rules, &headers, false), Some(false));
        let headers = [("host", bare), ("origin", "http://box.example"), forwarded];
        assert_eq!(page_over(&rules, &headers, true), None);
        assert_eq!(at(bare, "https://app.example", false), Some(true), "listed");
    }

    #[test]
    fn this_machine_is_reached_under_all_its_names_and_no_other() {
        let none = AccessRules::default();
        for host in [
            "localhost",
            "LOCALHOST:7420",
            "localhost.",
            "127.0.0.1:7420",
            "127.8.8.8",
            "[::1]:1",
            "[::1]",
        ] {
            assert!(host_is(&none, Some(host), TARGET), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:7420",
            "localhost.evil.example",
            "10.0.0.1",
            "192.168.1.20",
            "a@localhost",
            "",
            "::1",
            "localhost:1:2",
        ] {
            assert!(!host_is(&none, Some(host), TARGET), "{host}");
        }
        assert!(!host_is(&none, None, TARGET));
    }

    #[test]
    fn localhost_is_refused_where_another_program_may_listen_unless_it_is_allowed() {
        let mut rules = AccessRules {
            is_localhost_foreign: true,
            ..AccessRules::default()
        };
        for host in ["localhost:7420", "LOCALHOST", "localhost."] {
            assert!(!host_is(&rules, Some(host), TARGET), "{host}");
        }
        assert!(!host_is(&rules, Some("127.0.0.1"), "http://localhost/mcp"));
        assert!(host_is(&rules, Some("127.0.0.1:7420"), TARGET));
        rules.hosts.push("localhost".parse().unwrap());
        assert!(host_is(&rules, Some("localhost:7420"), TARGET));
    }

    #[test]
    fn a_host_that_is_allowed_is_one_under_any_port() {
        let rules = rules();
        for host in [
            "box.example",
            "BOX.example.:1",
            "192.168.1.20:7420",
            "[fd00::1]:7420",
        ] {
            assert!(host_is(&rules, Some(host), TARGET), "{host}");
        }
        for host in [
            "a.box.example",
            "box.example.evil",
            "192.168.1.2",
            "[fd00::2]",
        ] {
            assert!(!host_is(&rules, Some(host), TARGET), "{host}");
        }
    }

    #[test]
    fn the_host_of_the_target_counts_as_well() {
        let none = AccessRules::default();
        assert!(host_is(&none, None, "http://localhost/mcp"));
        assert!(host_is(&none, Some("localhost"), "http://127.0.0.1/mcp"));
        assert!(!host_is(
            &none,
            Some("localhost"),
            "http://evil.example/mcp"
        ));
        assert!(!host_is(
            &none,
            Some("evil.example"),
            "http://localhost/mcp"
        ));
    }

    #[test]
    fn only_our_own_pages_are_let_in_without_being_allowed() {
        let none = AccessRules::default();
        for (host, origin) in [
            ("localhost", "http://localhost"),
            ("localhost:7420", "http://localhost:7420"),
            ("[::1]:1", "http://[::1]:1"),
        ] {
            assert_eq!(page(&none, host, origin), Some(false), "{origin}");
        }
        for origin in [
            "http://localhost:3001",
            "http://127.0.0.1",
            "http://127.0.0.1:3000",
            "https://[::1]:1",
            "null",
            "",
            "http://evil.example",
            "http://localhost.evil.example",
            "file://localhost",
            "http://a@localhost",
            "http://localhost/path",
            "https://app.example",
        ] {
            assert_eq!(page(&none, "localhost", origin), None, "{origin}");
        }
    }

    #[test]
    fn request_of_another_site_without_an_origin_is_refused_unless_it_is_a_link_to_a_page() {
        let is_admitted = |method: &Method, links, fetch: &[(&'static str, &str)]| {
            let headers = fetch.iter();
            let headers = headers.map(|(name, value)| {
                (
                    header::HeaderName::from_static(name),
                    value.parse().unwrap(),
                )
            });
            check_site(method, &headers.collect(), links).is_ok()
        };
        let site = |site| ("sec-fetch-site", site);
        let link = [
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        for links in [false, true] {
            assert!(is_admitted(&Method::POST, links, &[]), "a program");
            for own in ["same-origin", "none"] {
                assert!(is_admitted(&Method::POST, links, &[site(own)]), "{own}");
            }
            for other in ["cross-site", "same-site", "unknown", ""] {
                for method in [Method::GET, Method::POST] {
                    assert!(
                        !is_admitted(&method, links, &[site(other)]),
                        "{method} {other}"
                    );
                }
                let origin = ("origin", "https://app.example");
                assert!(
                    is_admitted(&Method::GET, links, &[site(other), origin]),
                    "{other}"
                );
                let followed = [&[site(other)][..], &link].concat();
                assert_eq!(
                    is_admitted(&Method::GET, links, &followed),
                    links,
                    "{other}"
                );
                assert!(!is_admitted(&Method::POST, links, &followed), "{other}");
                let frame = [site(other), link[0], ("sec-fetch-dest", "iframe")];
                assert!(!is_admitted(&Method::GET, links, &frame), "{other}");
            }
        }
    }

    #[test]
    fn pages_of_origins_that_are_allowed_may_read() {
        let rules = rules();
        for origin in [
            "https://app.example",
            "https://APP.example:443",
            "http://localhost:3000",
            "vscode-webview://0a1b",
        ] {
            assert_eq!(page(&rules, "localhost", origin), Some(true), "{origin}");
        }
        for origin in [
            "http://app.example",
            "https://app.example:1",
            "https://a.app.example",
            "http://localhost:3001",
        ] {
            assert_eq!(page(&rules, "localhost", origin), None, "{origin}");
        }
    }

    #[test]
    fn our_own_pages_are_let_in() {
        let rules = rules();
        assert_eq!(
            page(&rules, "box.example:7420", "http://box.example:7420"),
            Some(false)
        );
        assert_eq!(
            page(&rules, "box.example", "http://box.example"),
            Some(false)
        );
        assert_eq!(page(&rules, "box.example:7420", "http://box.example"), None);
        assert_eq!(
            page(&rules, "box.example:7420", "http://192.168.1.20:7420"),
            None
        );
    }

    #[test]
    fn names_are_written_as_they_are_compared() {
        for (text, shown) in [
            ("https://App.example:443", "https://app.example"),
            ("http://[::1]:80", "http://[::1]"),
            ("http://localhost:3000/", "http://localhost:3000"),
        ] {
            assert_eq!(text.parse::<WebOrigin>().unwrap().to_string(), shown);
        }
        for text in [
            "*",
            "null",
            "app.example",
            "https://",
            "https://a/b",
            "https://a?b",
            "http://a:99999",
        ] {
            assert!(text.parse::<WebOrigin>().is_err(), "{text}");
        }
        for text in [
            "",
            "*",
            "a b",
            "box.example:1",
            "http://box",
            "a..b",
            "*.example",
        ] {
            assert!(text.parse::<HostName>().is_err(), "{text}");
        }
    }
}
