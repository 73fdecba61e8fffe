//! Lets in only requests that are meant for this machine.

use std::net::IpAddr;

use axum::{
    extract::Request,
    http::{HeaderMap, StatusCode, Uri, header, uri::Authority},
    middleware::Next,
    response::Response,
};

use super::refuse;

/// Refuses a request for another host, or from a page of another origin (DNS rebinding).
pub(super) async fn local_only(request: Request, next: Next) -> Response {
    match check(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(reason) => refuse(StatusCode::FORBIDDEN, reason),
    }
}

fn check(headers: &HeaderMap) -> Result<(), &'static str> {
    let host = "the Host header must name this machine: localhost, 127.0.0.1 or [::1]";
    let origin = "requests from pages of other origins are refused";
    let mut hosts = headers.get_all(header::HOST).iter();
    let named = hosts
        .next()
        .and_then(|value| value.to_str().ok())
        .ok_or(host)?;
    let authority: Authority = named.parse().map_err(|_| host)?;
    if hosts.next().is_some() || !is_local(&authority) {
        return Err(host);
    }
    for value in headers.get_all(header::ORIGIN) {
        let uri: Uri = value
            .to_str()
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or(origin)?;
        let web = matches!(uri.scheme_str(), Some("http" | "https"));
        if !(web && uri.authority().is_some_and(is_local)) {
            return Err(origin);
        }
    }
    Ok(())
}

fn is_local(authority: &Authority) -> bool {
    if authority.as_str().contains('@') {
        return false;
    }
    let host = authority.host();
    let bare = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(host);
    bare.eq_ignore_ascii_case("localhost")
        || bare
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(host: Option<&str>, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        if let Some(host) = host {
            headers.insert(header::HOST, host.parse().unwrap());
        }
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        check(&headers).is_ok()
    }

    #[test]
    fn this_machine_under_all_its_names_is_let_in() {
        for host in [
            "localhost",
            "LOCALHOST:7420",
            "127.0.0.1:7420",
            "127.8.8.8",
            "[::1]:1",
            "[::1]",
        ] {
            assert!(allowed(Some(host), None), "{host}");
        }
        for origin in [
            "http://localhost",
            "http://127.0.0.1:3000",
            "https://[::1]:1",
        ] {
            assert!(allowed(Some("localhost"), Some(origin)), "{origin}");
        }
    }

    #[test]
    fn everyone_else_is_refused() {
        for host in [
            "evil.example",
            "evil.example:7420",
            "localhost.evil.example",
            "10.0.0.1",
            "a@localhost",
            "",
            "::1",
        ] {
            assert!(!allowed(Some(host), None), "{host}");
        }
        assert!(!allowed(None, None));
        for origin in [
            "null",
            "http://evil.example",
            "http://localhost.evil.example",
            "file://localhost",
            "http://a@localhost",
        ] {
            assert!(!allowed(Some("localhost"), Some(origin)), "{origin}");
        }
    }
}
