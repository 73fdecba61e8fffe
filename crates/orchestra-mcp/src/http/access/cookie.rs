//! Cookies for browsers (RFC 6265), whose streams of events cannot show a token. A cookie holds the
//! id of a login and its end, signed with a key that is derived from the token: logins last over
//! restarts, and end with their token or when their browser logs out.
//!
//! Browsers send a cookie to every port of its host, where programs of other users may listen. A login is
//! therefore bound to the user whose connection it was made over, where the system names that user. Behind a proxy, this
//! is the user who runs the proxy. A direct login is not valid there, and a login behind a proxy is not valid directly.

use std::{
    path::PathBuf,
    pin::pin,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::http::{HeaderMap, HeaderValue, header};
use ring::hmac;

use super::{
    ended::{EndedLogins, LOOK},
    peer::PeerSession,
    token::Token,
};
use crate::hex::hex;
use crate::secret::SecretId;
use tokio::time::timeout;

/// For how long a cookie holds.
const HOLDS: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// What all names of ours begin with. Cookies know no ports: what follows is the port, so that
/// several programs of one machine do not take each other's.
const NAME: &str = "orchestra-";

/// What a key is for, so that what else is ever made of a token is no cookie.
const PURPOSE: &str = "orchestra cookie 3";

/// The most cookies of one request that are looked at.
const MOST: usize = 64;

/// Logins of browsers.
#[derive(Debug)]
pub(super) struct Logins(EndedLogins);

/// A login that a cookie proves.
pub(super) struct Login<'a> {
    id: &'a str,
    ends: u64,
    /// Place of the token that it was made with.
    pub(super) holder: usize,
}

/// A login that outlasts its request.
#[derive(Debug, Clone)]
pub(super) struct LastingLogin {
    id: String,
    ends: u64,
}

impl Login<'_> {
    pub(super) fn lasting(&self) -> LastingLogin {
        LastingLogin {
            id: self.id.to_owned(),
            ends: self.ends,
        }
    }
}

impl Logins {
    /// Logins, of which `ended` lists logins that ended before their time.
    pub(super) fn new(ended: Option<PathBuf>) -> Self {
        Self(EndedLogins::new(ended, now()))
    }

    /// A cookie for the holder of a token, for pages of the host that a request was for.
    pub(super) fn begin(
        headers: &HeaderMap,
        session: PeerSession,
        token: &Token,
    ) -> Option<HeaderValue> {
        let id = SecretId::draw()?.to_string();
        let ends = now().checked_add(HOLDS.as_secs())?;
        let tag = hmac::sign(&key(token), &signed(&name(headers), session, &id, ends));
        let tag = hex(tag.as_ref());
        let value = format!("{id}.{ends}.{tag}");
        set(headers, session, &value, HOLDS.as_secs())
    }

    /// The login that a cookie of the request proves.
    pub(super) fn find<'a>(
        &self,
        headers: &'a HeaderMap,
        session: PeerSession,
        tokens: &[Token],
    ) -> Option<Login<'a>> {
        let login = login(headers, session, tokens)?;
        (!self.0.has(login.id)).then_some(login)
    }

    /// Completes when a login has ended. May be cancelled.
    pub(super) async fn ended(&self, login: &LastingLogin) {
        loop {
            let mut added = pin!(self.0.added());
            added.as_mut().enable();
            let left = login.ends.saturating_sub(now());
            if left == 0 || self.0.has(&login.id) {
                return;
            }
            // Another program may end it as well.
            let _ = timeout(LOOK.min(Duration::from_secs(left)), added).await;
        }
    }

    /// Ends the login of a request, and gives the cookie that replaces its cookie.
    pub(super) fn end(
        &self,
        headers: &HeaderMap,
        session: PeerSession,
        tokens: &[Token],
    ) -> Option<HeaderValue> {
        if let Some(login) = login(headers, session, tokens)
            && !self.0.has(login.id)
        {
            self.0.add(login.id, login.ends);
        }
        set(headers, session, "", 0)
    }
}

/// The login that a cookie of the request proves, whether it was ended or not.
fn login<'a>(headers: &'a HeaderMap, session: PeerSession, tokens: &[Token]) -> Option<Login<'a>> {
    let (now, name) = (now(), name(headers));
    values(headers, &name).find_map(|value| {
        let mut parts = value.splitn(3, '.');
        let (id, ends, tag) = (parts.next()?, parts.next()?, parts.next()?);
        let ends: u64 = ends.parse().ok().filter(|ends| *ends > now)?;
        let (id, tag) = (SecretId::parse(id).map(|_| id)?, bytes(tag)?);
        let signed = signed(&name, session, id, ends);
        let is_of = |token: &Token| hmac::verify(&key(token), &signed, &tag).is_ok();
        let holder = tokens.iter().position(is_of)?;
        Some(Login { id, ends, holder })
    })
}

/// The login that a request names, which may be none.
pub(in crate::http) fn login_of(headers: &HeaderMap) -> Option<&str> {
    values(headers, &name(headers)).next()
}

/// The values of cookies of a name.
fn values<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(header::COOKIE).iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    let cookies = texts.flat_map(|text| text.split(';')).take(MOST);
    let name = name.to_owned();
    cookies.filter_map(move |cookie| {
        let (found, value) = cookie.trim().split_once('=')?;
        (found == name).then_some(value)
    })
}

/// The second of the Unix epoch.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}

fn set(
    headers: &HeaderMap,
    session: PeerSession,
    value: &str,
    seconds: u64,
) -> Option<HeaderValue> {
    let name = name(headers);
    // Over TLS the cookie is never sent in the clear.
    let secure = if session.is_tls { "; Secure" } else { "" };
    let text =
        format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
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

fn key(token: &Token) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, token.digest())
}

/// A login is valid at the port that its cookie is named after, over connections of the user that made it, and
/// either directly or behind a proxy. Where the system does not name the user, the last two make no difference.
fn signed(name: &str, session: PeerSession, id: &str, ends: u64) -> Vec<u8> {
    let user = match (session.user.id(), session.is_forwarded) {
        (None, _) => String::new(),
        (Some(user), false) => user.to_string(),
        (Some(user), true) => format!("{user} by proxy"),
    };
    format!("{PURPOSE}\n{name}\n{user}\n{id}\n{ends}").into_bytes()
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
    use futures_util::FutureExt as _;
    use orchestra_process::PeerUser;

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

    const fn of(user: PeerUser) -> PeerSession {
        PeerSession {
            user,
            is_forwarded: false,
            is_tls: false,
        }
    }

    fn begin(host: &str, token: &Token) -> HeaderValue {
        Logins::begin(&headers(host, None), of(PeerUser::Unknown), token).unwrap()
    }

    fn found(
        logins: &Logins,
        headers: &HeaderMap,
        session: PeerSession,
        tokens: &[Token],
    ) -> Option<usize> {
        let login = logins.find(headers, session, tokens);
        login.map(|login| login.holder)
    }

    fn holder(headers: &HeaderMap, tokens: &[Token]) -> Option<usize> {
        found(&Logins::new(None), headers, of(PeerUser::Unknown), tokens)
    }

    #[test]
    fn a_cookie_holds_for_the_token_and_the_port_that_it_was_made_for() {
        let [first, second] = tokens();
        let set = begin("localhost:7420", &second);
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
        // Under the name of another port it is none there either.
        let renamed = cookie.replace("orchestra-7420", "orchestra-7421");
        assert_eq!(shown("localhost:7421", &renamed), None);
        // The token is another one since.
        assert_eq!(
            holder(&headers("localhost:7420", Some(&cookie)), &[first]),
            None
        );
    }

    #[test]
    fn cookie_is_valid_for_the_user_whose_connection_logged_in() {
        let [token, _] = tokens();
        let users = [
            PeerUser::Other(7),
            PeerUser::Other(8),
            PeerUser::Same,
            PeerUser::Unknown,
        ];
        let sessions = users.map(|user| {
            [false, true].map(|is_forwarded| PeerSession {
                is_forwarded,
                ..of(user)
            })
        });
        let sessions = sessions.as_flattened();
        let logins = Logins::new(None);
        for owner in sessions {
            let set = Logins::begin(&headers("localhost:1", None), *owner, &token).unwrap();
            let shown = headers("localhost:1", Some(&pair(&set)));
            for session in sessions {
                let is_valid = owner == session
                    || [owner, session].map(|session| session.user) == [PeerUser::Unknown; 2];
                let holder = found(&logins, &shown, *session, &tokens());
                assert_eq!(holder.is_some(), is_valid, "{owner:?} {session:?}");
                if !is_valid {
                    // Nor can another user end it.
                    let _ = logins.end(&shown, *session, &tokens());
                }
            }
        }
    }

    #[test]
    fn login_that_was_ended_holds_nowhere_and_another_of_the_token_does() {
        let [token, _] = tokens();
        let [first, second] = [(), ()].map(|()| pair(&begin("localhost:1", &token)));
        assert_ne!(first, second);
        let logins = Logins::new(None);
        let user = of(PeerUser::Unknown);
        let at = |cookie: &str| headers("localhost:1", Some(cookie));
        let shown = |cookie: &str| found(&logins, &at(cookie), user, &tokens());
        assert_eq!((shown(&first), shown(&second)), (Some(0), Some(0)));
        let replaced = logins.end(&at(&first), user, &tokens());
        assert_eq!(pair(&replaced.unwrap()), "orchestra-1=");
        assert_eq!((shown(&first), shown(&second)), (None, Some(0)));
    }

    #[test]
    fn cookie_of_a_login_over_tls_is_secure() {
        let [token, _] = tokens();
        let at = headers("box.example:1", None);
        for is_tls in [false, true] {
            let session = PeerSession {
                is_tls,
                ..of(PeerUser::Unknown)
            };
            let set = Logins::begin(&at, session, &token).unwrap();
            let removed = Logins::new(None).end(&at, session, &tokens()).unwrap();
            for cookie in [set, removed] {
                let text = cookie.to_str().unwrap();
                assert_eq!(text.ends_with("; Secure"), is_tls, "{text}");
            }
        }
    }

    #[tokio::test]
    async fn end_of_a_login_is_noticed_here_and_in_other_programs() {
        let [token, _] = tokens();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("ended");
        let [ours, theirs] = [(), ()].map(|()| Logins::new(Some(file.clone())));
        let user = of(PeerUser::Unknown);
        for ends_by in [&ours, &theirs] {
            let shown = headers("localhost:1", Some(&pair(&begin("localhost:1", &token))));
            let login = ours.find(&shown, user, &tokens()).unwrap().lasting();
            let mut ended = pin!(ours.ended(&login));
            assert!(ended.as_mut().now_or_never().is_none());
            let _ = ends_by.end(&shown, user, &tokens());
            timeout(Duration::from_secs(60), ended).await.unwrap();
        }
        let past = LastingLogin {
            id: "0".repeat(32),
            ends: now(),
        };
        assert!(ours.ended(&past).now_or_never().is_some());
    }

    #[test]
    fn what_is_over_or_was_changed_is_none() {
        let [token, _] = tokens();
        let cookie = pair(&begin("localhost:1", &token));
        let shown = |cookie: &str| holder(&headers("localhost:1", Some(cookie)), &tokens());
        assert_eq!(shown(&cookie), Some(0));
        let (name, value) = cookie.split_once('=').unwrap();
        let parts: Vec<&str> = value.split('.').collect();
        let (id, ends, tag) = (parts[0], parts[1], parts[2]);
        let later = ends.parse::<u64>().unwrap() + 1;
        let other = "0".repeat(32);
        let signed = signed(name, of(PeerUser::Unknown), id, 1);
        let over = hex(hmac::sign(&key(&token), &signed).as_ref());
        for wrong in [
            format!("{name}={id}.{later}.{tag}"),
            format!("{name}={other}.{ends}.{tag}"),
            format!("{name}={id}.{ends}.{}", "0".repeat(64)),
            format!("{name}={id}.{ends}.{}", &tag[1..]),
            format!("{name}={id}.{ends}"),
            format!("{name}={ends}.{tag}"),
            format!("{name}={id}.1.{over}"),
            format!("{name}="),
        ] {
            assert_eq!(shown(&wrong), None, "{wrong}");
        }
    }
}
