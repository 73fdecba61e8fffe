//! The other end of a request's connection.

use std::net::{IpAddr, SocketAddr};

use axum::{
    extract::ConnectInfo,
    http::{Extensions, HeaderMap, HeaderName},
};
use orchestra_process::PeerUser;

/// The other end of a connection, as far as it is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer {
    pub(super) address: Option<IpAddr>,
    pub(super) user: PeerUser,
}

impl Peer {
    pub(super) fn of(extensions: &Extensions) -> Self {
        let address = extensions.get::<ConnectInfo<SocketAddr>>();
        let user = extensions.get::<PeerUser>();
        Self {
            address: address.map(|ConnectInfo(address)| address.ip().to_canonical()),
            user: user.copied().unwrap_or(PeerUser::Unknown),
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
        added.any(|added| match added.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == *added,
        })
    })
}

/// Headers that proxies, tunnels and content delivery networks add to requests which they forward, each below the
/// standard or the product that documents it. `*` stands for the rest of a name, and `-` for `_` as well.
const FORWARDED: &[&str] = &[
    // RFC 7239; RFC 9110, section 7.6.3; RFC 8586.
    "forwarded",
    "via",
    "cdn-loop",
    // Squid and most other proxies; Envoy, Traefik, Caddy, HAProxy, ngrok and the tunnels of VS Code and GitHub among them.
    "x-forwarded",
    "x-forwarded-*",
    // nginx (`ngx_http_realip_module`) and ingress-nginx.
    "x-real-ip",
    "x-original-*",
    "x-scheme",
    "x-url-scheme",
    "x-host",
    "ssl-client-*",
    // Apache (`mod_remoteip`, `mod_proxy`), WebLogic, Rackspace and Riverbed.
    "client-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "proxy-client-ip",
    "wl-proxy-client-ip",
    "x-proxyuser-ip",
    // Envoy and Istio.
    "x-envoy-*",
    // Varnish and Fastly.
    "x-varnish",
    "fastly-*",
    // Akamai, Imperva and Sucuri.
    "true-client-ip",
    "akamai-*",
    "x-akamai-*",
    "incap-client-ip",
    "x-sucuri-*",
    // Cloudflare: `CF-Connecting-IP`, `CF-Ray`, `Cf-Access-Jwt-Assertion`, and more.
    "cf-*",
    // AWS: load balancers, API Gateway and CloudFront.
    "x-amzn-*",
    "x-amz-cf-*",
    "cloudfront-*",
    // Google: Identity-Aware Proxy and App Engine.
    "x-goog-*",
    "x-appengine-*",
    // Microsoft: Front Door, Application Gateway, Application Request Routing, App Service and dev tunnels.
    "x-azure-*",
    "x-appgw-*",
    "x-arr-*",
    "x-ms-*",
    "x-rewrite-url",
    "front-end-https",
    "x-tunnel-*",
    // Hosts of applications: Fly.io, DigitalOcean, Vercel, Netlify and Heroku.
    "fly-*",
    "do-connecting-ip",
    "x-vercel-*",
    "x-nf-*",
    "x-request-start",
    // Tunnels: Tailscale (`serve`, `funnel`) and ngrok.
    "tailscale-*",
    "ngrok-*",
    // Proxies that authenticate: oauth2-proxy, Authelia, authentik, Pomerium, Kong, Teleport, Kubernetes, and nginx for
    // Tailscale.
    "x-auth-request-*",
    "x-remote-*",
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
            "x-forward",
            "viable",
            "x-requested-with",
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
            let earlier = FORWARDED[..at].iter();
            let mut earlier = earlier.filter_map(|start| start.strip_suffix('*'));
            assert!(!earlier.any(|start| name.starts_with(start)), "{name}");
            assert!(!FORWARDED[..at].contains(name), "{name}");
        }
    }
}
