//! Seals what a provider wants back when a call is made again.
//!
//! A stateless client carries the state between its two requests (MCP 2026-07-28, multi round-trip
//! requests), so it may have been looked at, changed, kept, or put into another request. What is
//! sealed can be none of these: it is encrypted and authenticated, lapses, and opens only in a
//! request of the same caller for the same thing; where that client can be asked for nothing, so
//! that the request was not kept, in any request of the same caller.

use std::time::{Duration, Instant};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use orchestra_hub::Target;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::http::Identity;

/// The form of what is sealed; what is of another form does not open.
const FORM: u8 = 1;

/// When a seal lapses, in front of the state: milliseconds since the key was made.
const LAPSE_BYTES: usize = 8;

/// Seals and opens with a key that nobody else has. It ends with the process: what was sealed
/// before does not open any more.
pub(crate) struct Sealer {
    key: LessSafeKey,
    made: Instant,
}

/// Text that is no state sealed here for this request, or is one that has lapsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "was not issued for this request, or has expired; make the call again without requestState and inputResponses"
)]
pub(crate) struct NotSealedHere;

/// What a state is for: the same caller, asking for the same thing by its kind, name and arguments.
pub(crate) struct Purpose([u8; 32]);

impl Purpose {
    /// The purpose of a call. A client may write the same arguments in another way.
    pub(crate) fn of(owner: Identity, target: &Target) -> Self {
        Self::digest(owner, Some(target))
    }

    /// The purpose of whatever a caller asks for.
    pub(crate) fn any(owner: Identity) -> Self {
        Self::digest(owner, None)
    }

    fn digest(owner: Identity, target: Option<&Target>) -> Self {
        let mut digest = Sha256::new();
        let mut part = |bytes: &[u8]| {
            digest.update(bytes.len().to_be_bytes());
            digest.update(bytes);
        };
        part(&owner.to_bytes());
        match target {
            None => part(b"any"),
            Some(Target::Tool { name, arguments }) => {
                part(b"tool");
                part(name.as_bytes());
                match arguments.parse::<Value>() {
                    Ok(value) => take(&value, &mut part),
                    // JSON that no type of Rust holds: as it came.
                    Err(_) => part(arguments.as_bytes()),
                }
            }
            Some(Target::Prompt { name, arguments }) => {
                part(b"prompt");
                part(name.as_bytes());
                for (name, value) in arguments {
                    part(name.as_bytes());
                    part(value.as_bytes());
                }
            }
            Some(Target::Resource { uri }) => {
                part(b"resource");
                part(uri.as_bytes());
            }
            Some(_) => part(b"other"),
        }
        Self(digest.finalize().into())
    }
}

/// Takes a value in, its members in the order of their names.
fn take(value: &Value, part: &mut impl FnMut(&[u8])) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            part(b"{");
            for (name, value) in members {
                part(name.as_bytes());
                take(value, part);
            }
            part(b"}");
        }
        Value::Array(items) => {
            part(b"[");
            items.iter().for_each(|item| take(item, part));
            part(b"]");
        }
        // A text is told from a number that looks like it.
        scalar => part(scalar.to_string().as_bytes()),
    }
}

impl Sealer {
    /// A new key.
    pub(crate) fn new() -> Self {
        let mut key = [0; 32];
        getrandom::fill(&mut key).expect("the system gives random bytes");
        let key = UnboundKey::new(&CHACHA20_POLY1305, &key).expect("the key has 32 bytes");
        Self {
            key: LessSafeKey::new(key),
            made: Instant::now(),
        }
    }

    /// Seals a state for so long from now on.
    pub(crate) fn seal(
        &self,
        state: &str,
        purpose: &Purpose,
        now: Instant,
        time: Duration,
    ) -> String {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).expect("the system gives random bytes");
        let mut sealed = self.since(now + time).to_be_bytes().to_vec();
        sealed.extend_from_slice(state.as_bytes());
        let aad = Aad::from(purpose.0);
        self.key
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut sealed)
            .expect("a state is far smaller than the cipher can take");
        let mut whole = vec![FORM];
        whole.extend_from_slice(&nonce);
        whole.extend_from_slice(&sealed);
        URL_SAFE_NO_PAD.encode(whole)
    }

    /// Opens what was sealed for the same purpose and has not lapsed.
    ///
    /// # Errors
    /// When it is anything else.
    pub(crate) fn open(
        &self,
        sealed: &str,
        purpose: &Purpose,
        now: Instant,
    ) -> Result<String, NotSealedHere> {
        let mut whole = URL_SAFE_NO_PAD.decode(sealed).map_err(|_| NotSealedHere)?;
        let (form, rest) = whole.split_first_mut().ok_or(NotSealedHere)?;
        let (nonce, sealed) = rest.split_at_mut_checked(NONCE_LEN).ok_or(NotSealedHere)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| NotSealedHere)?;
        if *form != FORM {
            return Err(NotSealedHere);
        }
        let opened = self.key.open_in_place(nonce, Aad::from(purpose.0), sealed);
        let opened = opened.map_err(|_| NotSealedHere)?;
        let (lapse, state) = opened
            .split_first_chunk::<LAPSE_BYTES>()
            .ok_or(NotSealedHere)?;
        if self.since(now) > u64::from_be_bytes(*lapse) {
            return Err(NotSealedHere);
        }
        String::from_utf8(state.to_vec()).map_err(|_| NotSealedHere)
    }

    fn since(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.made).as_millis();
        u64::try_from(since).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use orchestra_wire::RawJson;
    use serde_json::json;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn purpose(name: &str, arguments: &str) -> Purpose {
        Purpose::of(Identity::Token(0), &tool(name, arguments))
    }

    fn tool(name: &str, arguments: &str) -> Target {
        Target::Tool {
            name: name.to_owned(),
            arguments: RawJson::from_raw(serde_json::from_str(arguments).unwrap()),
        }
    }

    #[test]
    fn the_same_request_opens_it_however_it_is_written() {
        let (sealer, now) = (Sealer::new(), Instant::now());
        let sealed = sealer.seal(
            "step 2",
            &purpose("pay", r#"{"a":[1,"x"],"b":{}}"#),
            now,
            MINUTE,
        );
        assert!(!sealed.contains("step"));
        let again = purpose("pay", r#"{ "b": {}, "a": [1, "x"] }"#);
        let opened = sealer.open(&sealed, &again, now + MINUTE);
        assert_eq!(opened.as_deref(), Ok("step 2"));
    }

    #[test]
    fn nothing_else_opens_it() {
        let (sealer, now) = (Sealer::new(), Instant::now());
        let sealed = sealer.seal("step 2", &purpose("pay", r#"{"to":1}"#), now, MINUTE);
        for (name, arguments) in [
            ("pay", r#"{"to":2}"#),
            ("pay", r#"{"to":"1"}"#),
            ("pay", r#"{"to":[1]}"#),
            ("pay", "{}"),
            ("paid", r#"{"to":1}"#),
        ] {
            let opened = sealer.open(&sealed, &purpose(name, arguments), now);
            assert_eq!(opened, Err(NotSealedHere), "{name} {arguments}");
        }
        let target = tool("pay", r#"{"to":1}"#);
        for another in [
            Purpose::of(Identity::Token(1), &target),
            Purpose::of(Identity::Anyone, &target),
            Purpose::any(Identity::Token(0)),
        ] {
            assert_eq!(sealer.open(&sealed, &another, now), Err(NotSealedHere));
        }
        let same = purpose("pay", r#"{"to":1}"#);
        let late = sealer.open(&sealed, &same, now + MINUTE + Duration::from_millis(1));
        assert_eq!(late, Err(NotSealedHere));
        assert_eq!(Sealer::new().open(&sealed, &same, now), Err(NotSealedHere));
    }

    #[test]
    fn state_of_odd_arguments_is_opened_by_these_alone() {
        let (sealer, now) = (Sealer::new(), Instant::now());
        let odd = [
            r#"{"to":1e400}"#,
            r#"{"to":2e400}"#,
            r#"{"to":"\ud800"}"#,
            "null",
        ];
        for own in &odd[..3] {
            let sealed = sealer.seal("", &purpose("pay", own), now, MINUTE);
            for other in odd {
                let opened = sealer.open(&sealed, &purpose("pay", other), now);
                assert_eq!(opened.is_ok(), other == *own, "{own} {other}");
            }
        }
    }

    #[test]
    fn what_was_changed_does_not_open() {
        let (sealer, now) = (Sealer::new(), Instant::now());
        let purpose = purpose("pay", &json!({}).to_string());
        let sealed = sealer.seal("", &purpose, now, MINUTE);
        assert_eq!(sealer.open(&sealed, &purpose, now).as_deref(), Ok(""));
        let whole = URL_SAFE_NO_PAD.decode(&sealed).unwrap();
        for place in 0..whole.len() {
            let mut changed = whole.clone();
            changed[place] ^= 1;
            let changed = URL_SAFE_NO_PAD.encode(changed);
            assert_eq!(
                sealer.open(&changed, &purpose, now),
                Err(NotSealedHere),
                "{place}"
            );
            let cut = URL_SAFE_NO_PAD.encode(&whole[..place]);
            assert_eq!(
                sealer.open(&cut, &purpose, now),
                Err(NotSealedHere),
                "{place}"
            );
        }
        assert_eq!(sealer.open("", &purpose, now), Err(NotSealedHere));
        assert_eq!(sealer.open("no base64!", &purpose, now), Err(NotSealedHere));
    }
}
