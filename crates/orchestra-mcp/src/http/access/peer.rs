//! The other end of a request's connection.

use std::net::{IpAddr, SocketAddr};

use axum::{
    extract::ConnectInfo,
    http::{Extensions, HeaderMap, HeaderName},
};
use orchestra_process::PeerUser;

use crate::http::OverTls;

/// The other end of a connection, as far as it is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer {
    pub(super) address: Option<IpAddr>,
    pub(super) user: PeerUser,
    pub(super) is_tls: bool,
}

/// The connection of a browser's login: a login is valid only over connections alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PeerSession {
    /// User of the connection, where the system names that user: of the browser, or of the proxy before it.
    pub(super) user: PeerUser,
    /// Whether a proxy has forwarded the request.
    pub(super) is_forwarded: bool,
    pub(super) is_tls: bool,
}

impl Peer {
    pub(super) fn of(extensions: &Extensions) -> Self {
        let address = extensions.get::<ConnectInfo<SocketAddr>>();
        let user = extensions.get::<PeerUser>();
        Self {
            address: address.map(|ConnectInfo(address)| address.ip().to_canonical()),
            user: user.copied().unwrap_or(PeerUser::Unknown),
            is_tls: extensions.get::<OverTls>().is_some(),
        }
    }

    /// Returns whether it is another machine.
    pub(super) fn is_foreign(self) -> bool {
        self.address.is_some_and(|address| !address.is_loopback())
    }

    /// Returns whether a request with these headers is one of the user who runs this program. A proxy
    /// of this user may forward requests of anybody.
    pub(super) fn is_own_user(self, headers: &HeaderMap) -> bool {
        self.user == PeerUser::Same && !is_forwarded(headers)
    }

    /// The connection of the browser that sent these headers.
    pub(super) fn session(self, headers: &HeaderMap) -> PeerSession {
        PeerSession {
            user: self.user,
            is_forwarded: is_forwarded(headers),
            is_tls: self.is_tls,
        }
    }

    /// Returns whether pages of this scheme at the address of a request come from this program. A proxy
    /// may add or remove TLS before it.
    pub(super) fn serves(self, scheme: &str, headers: &HeaderMap) -> bool {
        match scheme {
            "https" => self.is_tls || is_forwarded(headers),
            "http" => !self.is_tls,
            _ => false,
        }
    }
}

/// Returns whether a proxy has forwarded the request and reports it.
fn is_forwarded(headers: &HeaderMap) -> bool {
    let mut names = headers.keys().map(HeaderName::as_str);
    names.any(|name| {
        // Gateways that speak CGI or WSGI treat both spellings as one name.
        let name = match name.contains('_') {
            true => &*name.replace('_', "-"),
            false => name,
        };
        let mut added = FORWARDED.iter();
        added.any(|added| fits(name, added))
    })
}

/// Returns whether a name fits an entry of the table.
fn fits(name: &str, entry: &str) -> bool {
    match (entry.strip_prefix('*'), entry.strip_suffix('*')) {
        (Some(rest), Some(_)) => name.contains(rest.trim_end_matches('*')),
        (Some(end), None) => name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => name == entry,
    }
}

/// Headers that proxies, tunnels and content delivery networks add to requests which they forward: first by the form of
/// the name, then by product, each below the product that documents it. `*` stands for any text, and `-` for `_` as well.
const FORWARDED: &[&str] = &[
    // `Forwarded` (RFC 7239), `X-Forwarded-*`, `X-Forward-For`, `Z-Forwarded-For`.
    "*forward*",
    // `Via` (RFC 9110, section 7.6.3), `X-BlueCoat-Via`.
    "via*",
    "*-via",
    // `X-Original-*`, `X-Originating-IP`, `X-Real-*` (nginx, ingress-nginx, mail gateways).
    "x-origin*",
    "x-real*",
    "*real-ip*",
    // `Client-IP`, `X-Client-IP`, `True-Client-IP`, `X-Cluster-Client-IP`, `WL-Proxy-Client-IP`.
    "*client-ip*",
    "*connecting-ip*",
    "x-proxy*",
    "x-remote*",
    // Certificates of clients (RFC 9440, nginx).
    "client-cert*",
    "x-client-cert*",
    "x-client-dn*",
    "x-client-verif*",
    "ssl-client-*",
    "x-mtls-*",
    "x-ssl-*",
    "x-tls-*",
    // Scheme and host that the client asked for.
    "x-scheme",
    "x-url-scheme",
    "x-host",
    "x-rewrite-url",
    "front-end-https",
    // Content delivery networks in general (RFC 8586) and Bunny (`CDN-RequestId`).
    "cdn-*",
    "x-cdn*",
    "x-edge-*",
    // Envoy and Istio.
    "x-envoy-*",
    // Varnish and Fastly.
    "x-varnish",
    "fastly-*",
    // Akamai, Imperva and Sucuri.
    "akamai-*",
    "x-akamai-*",
    "incap-*",
    "x-sucuri-*",
    // Symantec (Blue Coat).
    "x-bluecoat-*",
    // Alibaba, Tencent, KeyCDN and Section.
    "ali-*",
    "eagleeye-*",
    "eagleid",
    "slb-*",
    "web-server-type",
    "x-nws-log-uuid",
    "x-pull",
    "section-io-*",
    // Cloudflare: `CF-Ray`, `Cf-Access-Jwt-Assertion`, and more.
    "cf-*",
    // AWS: load balancers, API Gateway and CloudFront.
    "x-amzn-*",
    "x-amz-cf-*",
    "cloudfront-*",
    // Google: load balancers, Identity-Aware Proxy and App Engine.
    "x-cloud-trace-context",
    "x-goog-*",
    "x-appengine-*",
    // Microsoft: Front Door, Application Gateway, Application Request Routing, App Service and dev tunnels.
    "x-azure-*",
    "x-appgw-*",
    "x-appservice-*",
    "x-arr-*",
    "x-waws-*",
    "x-site-deployment-id",
    "was-default-hostname",
    "disguised-host",
    "x-ms-*",
    "x-tunnel-*",
    // Hosts of applications: Fly.io, Vercel, Netlify, Heroku, Railway and Render.
    "fly-*",
    "x-vercel-*",
    "x-nf-*",
    "x-request-start",
    "x-railway-*",
    "rndr-id",
    // Tunnels: Tailscale (`serve`, `funnel`) and ngrok.
    "tailscale-*",
    "ngrok-*",
    // Proxies that authenticate: oauth2-proxy, Vouch, Authelia, authentik, Pomerium, Kong, Teleport, Kubernetes,
    // mod_auth_openidc, Shibboleth, and nginx for Tailscale.
    "x-auth-email",
    "x-auth-groups",
    "x-auth-name",
    "x-auth-request-*",
    "x-auth-user*",
    "x-authenticated-*",
    "x-vouch-*",
    "x-userinfo",
    "x-jwt-assertion",
    "oidc-*",
    "shib-*",
    "teleport-*",
    "x-teleport-*",
    "remote-user",
    "remote-groups",
    "remote-name",
    "remote-email",
    "x-authentik-*",
    "x-pomerium-*",
    "x-consumer-*",
    "x-kong-*",
    "x-webauth-*",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_of_the_table_means_a_proxy_in_any_case_and_others_do_not() {
        let has = |name: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(HeaderName::try_from(name).unwrap(), "1".parse().unwrap());
            is_forwarded(&headers)
        };
        for name in FORWARDED {
            let name = name.replace('*', "x");
            assert!(has(&name), "{name}");
            assert!(has(&name.to_ascii_uppercase()), "{name}");
            assert!(has(&name.replace('-', "_")), "{name}");
        }
        for name in [
            "Forwarded",
            "Forwarded-For",
            "X-Forward-For",
            "X-Forwarded-Host",
            "Z-Forwarded-For",
            "Via",
            "X-BlueCoat-Via",
            "X-Original-URL",
            "X-Originating-IP",
            "X-Real-IP",
            "Ali-Cdn-Real-Ip",
            "WL-Proxy-Client-IP",
            "DO-Connecting-IP",
            "X-ProxyUser-Ip",
            "CDN-Loop",
            "CDN-RequestId",
            "X-Cloud-Trace-Context",
            "X-SSL-Cert",
            "X-TLS-Client-Cert",
            "X-Client-Verify",
            "EagleEye-TraceId",
            "X-WAWS-Unencoded-URL",
            "X-AppService-Proto",
            "X-Auth-Username",
            "X-Authenticated-User",
            "X-Vouch-User",
            "OIDC_CLAIM_sub",
        ] {
            assert!(has(name), "{name}");
        }
        // Headers of programs and browsers that connect directly.
        for name in [
            "host",
            "origin",
            "referer",
            "accept",
            "authorization",
            "cookie",
            "user-agent",
            "content-type",
            "sec-fetch-site",
            "traceparent",
            "mcp-session-id",
            "mcp-protocol-version",
            "mcp-method",
            "last-event-id",
            "x-request-id",
            "trivial",
            "x-viewer",
            "x-requested-with",
            "x-auth-token",
            "x-client-name",
            "priority",
            "dnt",
        ] {
            assert!(!has(name), "{name}");
        }
    }

    #[test]
    fn table_has_each_name_once_in_lower_case() {
        for (at, name) in FORWARDED.iter().enumerate() {
            assert_eq!(*name, name.to_ascii_lowercase());
            let mut earlier = FORWARDED[..at].iter();
            assert!(!earlier.any(|earlier| fits(name, earlier)), "{name}");
        }
    }
}
