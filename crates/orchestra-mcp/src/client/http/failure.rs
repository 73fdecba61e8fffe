//! What a status, a header or a break in a connection means for a call.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use orchestra_secret::Masker;
use reqwest::{
    StatusCode,
    header::{HeaderMap, RETRY_AFTER},
};
use tokio::time::Instant;

use crate::{
    causes::with_causes,
    client::{ClientError, HttpFailure},
};

/// How much of a body is told.
const EXCERPT_BYTES: usize = 512;

/// How much of the words of a page is told.
const PAGE_BYTES: usize = 160;

/// The longest wait that a server is believed; past it nobody is still there.
const MAX_RETRY_AFTER: Duration = Duration::from_hours(24);

/// A response that is no answer.
pub(super) fn status(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    masker: &Masker,
) -> ClientError {
    ClientError::Http(Arc::new(HttpFailure {
        status: status.as_u16(),
        retry_after: retry_after(headers, SystemTime::now()),
        received: Some(Instant::now()),
        excerpt: excerpt(body, masker),
        sent: true,
        denied: false,
    }))
}

/// A connection that broke after the request may have left.
pub(super) fn broken(what: impl Into<String>) -> ClientError {
    ClientError::Http(Arc::new(HttpFailure {
        excerpt: what.into(),
        sent: true,
        ..HttpFailure::default()
    }))
}

/// A request that was not sent, or of which the server says that it did nothing.
pub(super) fn not_run(status: StatusCode, what: impl Into<String>) -> ClientError {
    ClientError::Http(Arc::new(HttpFailure {
        status: status.as_u16(),
        excerpt: what.into(),
        ..HttpFailure::default()
    }))
}

/// A request that did not bring a response.
pub(super) fn unsent(error: &reqwest::Error) -> ClientError {
    let what = with_causes(error);
    if error.is_connect() || error.is_builder() || error.is_dns() {
        return ClientError::Unreachable { what };
    }
    broken(what)
}

/// `Retry-After` as seconds or as a date, in each of the three forms that a date has (RFC 9110,
/// sections 10.2.3 and 5.6.7).
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let until = httpdate::parse_http_date(text).ok()?;
            until.duration_since(now).unwrap_or_default()
        }
    };
    Some(wait.min(MAX_RETRY_AFTER))
}

/// The beginning of a body, on one line; of a page, its words. Secrets are masked before it is cut.
pub(super) fn excerpt(body: &[u8], masker: &Masker) -> String {
    let mut text = masker.excerpt_of_bytes(body, 4 * EXCERPT_BYTES);
    let (mut shown, most) = match words_of_page(&text) {
        Some(words) => {
            text = words;
            ("an HTML page:".to_owned(), PAGE_BYTES)
        }
        None => (String::new(), EXCERPT_BYTES),
    };
    for word in text.split(|letter: char| letter.is_whitespace() || letter.is_control()) {
        if word.is_empty() {
            continue;
        }
        if !shown.is_empty() {
            shown.push(' ');
        }
        shown.push_str(word);
    }
    if shown.len() > most {
        let end = shown.floor_char_boundary(most - '…'.len_utf8());
        shown.truncate(end);
        shown.push('…');
    }
    shown
}

/// What a page of HTML says, without its markup; `None` for what is no page.
fn words_of_page(text: &str) -> Option<String> {
    let mut rest = text.trim_start();
    if !rest.starts_with('<') || rest.starts_with("<?xml") {
        return None;
    }
    let mut words = String::new();
    while let Some((before, markup)) = rest.split_once('<') {
        words.push_str(before);
        words.push(' ');
        let (tag, after) = markup.split_once('>').unwrap_or((markup, ""));
        let is = |name: &str| {
            let start = tag.get(..name.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(name))
        };
        let is_for_no_reader = is("script") || is("style");
        rest = match is_for_no_reader {
            true => after.find("</").map_or("", |end| &after[end..]),
            false => after,
        };
    }
    words.push_str(rest);
    Some(words)
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date_in_each_of_its_forms() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        for (text, expected) in [
            ("7", Some(7)),
            ("0", Some(0)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sun, 06 Nov 1994 08:49:27 GMT", Some(0)),
            // As RFC 850 and as asctime of C had it: obsolete, and to be understood.
            ("Sunday, 06-Nov-94 08:49:47 GMT", Some(10)),
            ("Sunday, 06-Nov-94 08:49:27 GMT", Some(0)),
            ("Sun Nov  6 08:49:47 1994", Some(10)),
            ("Sun Nov  6 08:50:37 1994", Some(60)),
            ("Tue, 29 Feb 2000 00:00:00 GMT", Some(24 * 3_600)),
            ("Thu, 30 Feb 2000 00:00:00 GMT", None),
            ("99999999999", Some(24 * 3_600)),
            ("-1", None),
            ("soon", None),
            ("Sun, 99 Nov 1994 08:49:47 GMT", None),
            ("Sun, 06 Nov 1994 08:49:47 CET", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_static(text));
            let expected = expected.map(Duration::from_secs);
            assert_eq!(retry_after(&headers, now), expected, "{text}");
        }
    }

    #[test]
    fn an_excerpt_is_short_on_one_line_and_without_secrets() {
        let body = format!("no\r\nBearer s3cr3t-t0ken \u{1b}[31m{}", "x".repeat(4_000));
        let shown = excerpt(body.as_bytes(), &Masker::new(["s3cr3t-t0ken"]));
        assert!(shown.starts_with("no Bearer *** [31mxxx"), "{shown}");
        assert!(shown.len() <= EXCERPT_BYTES);
    }

    #[test]
    fn of_a_page_its_words_are_told() {
        for (body, expected) in [
            (
                "<!DOCTYPE html>\n<html><head><title>Error</title><style>a < b {}</style></head>\n\
                 <body><pre>Cannot POST /register</pre></body></html>",
                "an HTML page: Error Cannot POST /register",
            ),
            ("<html><script>x</script>", "an HTML page:"),
            ("<html><script>x", "an HTML page:"),
            ("<h1>half <a hr", "an HTML page: half"),
            ("<?xml version=\"1.0\"?><a/>", "<?xml version=\"1.0\"?><a/>"),
            ("a < b", "a < b"),
        ] {
            assert_eq!(excerpt(body.as_bytes(), &Masker::table()), expected);
        }
        let long = format!("<p>{}", "é".repeat(300));
        let told = excerpt(long.as_bytes(), &Masker::table());
        assert!(told.len() <= PAGE_BYTES && told.ends_with("é…"), "{told}");
    }
}
