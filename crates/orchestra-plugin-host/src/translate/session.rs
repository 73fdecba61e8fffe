//! Parameters that say in their `_meta` for which session they are.

use orchestra_hub::SessionName;
use orchestra_wire::{Members, RawJson, Rope, write};

use super::tools::SESSION_META;

/// Parameters that name this session, whichever they named before; those that have no place for it
/// stay as they are.
pub(crate) fn named(params: RawJson, session: &SessionName) -> RawJson {
    let meta = params.member("_meta");
    let Some(members) = params.members() else {
        return params;
    };
    let mut rope = Rope::new();
    rope.push(b"{\"_meta\":{");
    write::string(&mut rope, SESSION_META);
    rope.push_byte(b':');
    write::string(&mut rope, session.as_str());
    if let Some(meta) = &meta {
        let Some(said) = meta.members() else {
            return params;
        };
        push_others(&mut rope, said, SESSION_META);
    }
    rope.push_byte(b'}');
    push_others(&mut rope, members, "_meta");
    rope.push_byte(b'}');
    RawJson::checked(rope.into_vec().into()).unwrap_or(params)
}

/// Appends all members but one, with a comma before each.
pub(crate) fn push_others(rope: &mut Rope, members: Members<'_>, but: &str) {
    for member in members {
        if member.key != but {
            rope.push_byte(b',');
            write::string(rope, &member.key);
            rope.push_byte(b':');
            write::raw(rope, &member.value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_session_is_named() {
        let session = SessionName::given("s").unwrap();
        for (params, wanted) in [
            (
                r#"{"name":"t"}"#,
                r#"{"_meta":{"orchestra/sessionId":"s"},"name":"t"}"#,
            ),
            (
                r#"{"_meta":{"a":1,"orchestra/sessionId":7},"name":"t"}"#,
                r#"{"_meta":{"orchestra/sessionId":"s","a":1},"name":"t"}"#,
            ),
            (
                r#"{"_meta":{"orchestra/sessionId":"another"}}"#,
                r#"{"_meta":{"orchestra/sessionId":"s"}}"#,
            ),
            (r#"{"_meta":5}"#, r#"{"_meta":5}"#),
            ("[1]", "[1]"),
        ] {
            let params = RawJson::checked(params.into()).unwrap();
            assert_eq!(named(params, &session).as_str(), wanted);
        }
    }
}
