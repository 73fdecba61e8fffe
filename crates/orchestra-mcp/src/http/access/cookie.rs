//! Cookies for browsers (RFC 6265), whose streams of events cannot show a token: what one says is
//! until when it holds, under a key that only whoever knows a token can make. Nothing of them is
//! kept here, so that they hold over restarts, and end with their token.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::{HeaderMap, HeaderValue, header};
use ring::hmac;

use super::token::Token;

/// For how long a cookie holds.
const HOLDS: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// What all names of ours begin with. Cookies know no ports: what follows is the port, so that
/// several programs of one machine do not take each other's.
const NAME: &str = "orchestra-";

/// What a key is for, so that what else is ever made of a token is no cookie.
const PURPOSE: &[u8] = b"orchestra cookie 1\n";

/// The most cookies of one request that are looked at.
const MOST: usize = 64;

/// A cookie for the holder of a token, for pages of the host that a request was for.
pub(super) fn of(headers: &HeaderMap, token: &Token) -> Option<HeaderValue> {
    let ends = SystemTime::now().checked_add(HOLDS)?;
    let ends = ends.duration_since(UNIX_EPOCH).ok()?.as_secs().to_string();
    let tag = hmac::sign(&key(token), &signed(&ends));
    let tag: String = tag
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let value = format!("{ends}.{tag}");
    set(headers, &value, HOLDS.as_secs())
}

/// A cookie that ends the one of before.
pub(super) fn none(headers: &HeaderMap) -> Option<HeaderValue> {
    set(headers, "", 0)
}

fn set(headers: &HeaderMap, value: &str, seconds: u64) -> Option<HeaderValue> {
    let name = name(headers);
    let text = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict");
    HeaderValue::from_str(&text).ok()
}

fn name(headers: &HeaderMap) -> String {
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let port = host
        .and_then(|host| host.rsplit_once(':'))
        .map(|(_, port)| port);
    let is_port = |port: &&str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    format!("{NAME}{}", port.filter(is_port).unwrap_or("web"))
}

/// The place of the token that a cookie of the request was made for.
pub(super) fn holder(headers: &HeaderMap, tokens: &[Token]) -> Option<usize> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
    let name = name(headers);
    let values = headers.get_all(header::COOKIE).iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    let cookies = texts.flat_map(|text| text.split(';')).take(MOST);
    let mut ours = cookies.filter_map(|cookie| {
        let (found, value) = cookie.trim().split_once('=')?;
        (found == name).then(|| value.split_once('.'))?
    });
    ours.find_map(|(ends, tag)| {
        let holds = ends.parse::<u64>().is_ok_and(|ends| ends > now);
        let tag = bytes(tag).filter(|_| holds)?;
        let is_of = |token: &Token| hmac::verify(&key(token), &signed(ends), &tag).is_ok();
        tokens.iter().position(is_of)
    })
}

fn key(token: &Token) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, token.digest())
}

fn signed(ends: &str) -> Vec<u8> {
    [PURPOSE, ends.as_bytes()].concat()
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let hex = hex.as_bytes();
    if hex.len() != 64 {
        return None;
    }
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    hex.chunks(2)
        .map(|pair| u8::try_from(digit(&pair[0])? << 4 | digit(&pair[1])?).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens() -> [Token; 2] {
        ["0123456789abcdef", "fedcba9876543210"].map(|text| text.parse().unwrap())
    }

    fn headers(host: &str, cookie: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(cookie) = cookie {
            headers.insert(header::COOKIE, cookie.parse().unwrap());
        }
        headers
    }

    fn pair(set: &HeaderValue) -> String {
        let text = set.to_str().unwrap();
        text.split(';').next().unwrap().to_owned()
    }

    #[test]
    fn a_cookie_holds_for_the_token_and_the_port_that_it_was_made_for() {
        let [first, second] = tokens();
        let set = of(&headers("localhost:7420", None), &second).unwrap();
        let text = set.to_str().unwrap();
        assert!(
            text.ends_with("; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict"),
            "{text}"
        );
        let cookie = pair(&set);
        let shown = |host: &str, cookie: &str| holder(&headers(host, Some(cookie)), &tokens());
        assert_eq!(shown("localhost:7420", &cookie), Some(1));
        assert_eq!(shown("localhost:7420", &format!("a=b; {cookie}")), Some(1));
        assert_eq!(shown("localhost:7421", &cookie), None);
        // The token is another one since.
        assert_eq!(
            holder(&headers("localhost:7420", Some(&cookie)), &[first]),
            None
        );
    }

    #[test]
    fn what_is_over_or_was_changed_is_none() {
        let [token, _] = tokens();
        let cookie = pair(&of(&headers("localhost:1", None), &token).unwrap());
        let shown = |cookie: &str| holder(&headers("localhost:1", Some(cookie)), &tokens());
        assert_eq!(shown(&cookie), Some(0));
        let (name, rest) = cookie.split_once('=').unwrap();
        let (ends, tag) = rest.split_once('.').unwrap();
        let later = ends.parse::<u64>().unwrap() + 1;
        let over = hmac::sign(&key(&token), &signed("1"));
        let over: String = over
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        for wrong in [
            format!("{name}={later}.{tag}"),
            format!("{name}={ends}.{}", "0".repeat(64)),
            format!("{name}={ends}.{}", &tag[1..]),
            format!("{name}={ends}"),
            format!("{name}=1.{over}"),
            format!("{name}="),
        ] {
            assert_eq!(shown(&wrong), None, "{wrong}");
        }
        assert_eq!(
            pair(&none(&headers("localhost:1", None)).unwrap()),
            "orchestra-1="
        );
    }
}
