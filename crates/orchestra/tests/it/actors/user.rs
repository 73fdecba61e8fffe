//! Another user of this machine.

use super::{How, Stage, User, of};

pub(super) fn attempts(stage: &Stage, user: u32) {
    for attempt in of(User) {
        if let How::Line(line) = attempt.2 {
            let said = stage.bash(user, line);
            assert_ne!(said.code, Some(0), "user {user}: {attempt}: {said:?}");
            stage.discloses_nothing(&said.out, &format!("user {user}: {attempt}"));
            stage.is_untouched(&format!("user {user}: {attempt}"));
        }
    }
    requests(stage, user);
}

/// Requests over HTTP alone.
pub(super) fn requests(stage: &Stage, user: u32) {
    for attempt in of(User) {
        if let How::Http(status, method, path, headers, body) = attempt.2 {
            let answer = stage.send(Some(user), method, path, headers, body);
            assert_eq!(answer.status, status, "user {user}: {attempt}: {answer:?}");
            stage.discloses_nothing(&answer.body, &format!("user {user}: {attempt}"));
            stage.is_untouched(&format!("user {user}: {attempt}"));
        }
    }
}
