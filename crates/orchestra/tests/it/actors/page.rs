//! A page of another origin: requests as a browser sends them, from a process of the owner.

use super::{How, Page, Stage, of};

/// Headers with which a browser asks for a WebSocket.
pub(super) const WEBSOCKET: &[(&str, &str)] = &[
    ("Origin", "http://evil.example"),
    ("Connection", "Upgrade, close"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

pub(super) fn attempts(stage: &Stage) {
    for attempt in of(Page) {
        let How::Http(status, method, path, headers, body) = attempt.2 else {
            panic!("{attempt}: a page sends HTTP requests");
        };
        let answer = stage.send(stage.owner(), method, path, headers, body);
        assert_eq!(answer.status, status, "{attempt}: {answer:?}");
        // Nor does the browser show it to the page.
        let allowed = answer.header("access-control-allow-origin");
        assert_eq!(allowed, None, "{attempt}: {answer:?}");
        stage.is_untouched(&format!("a page: {attempt}"));
    }
}
