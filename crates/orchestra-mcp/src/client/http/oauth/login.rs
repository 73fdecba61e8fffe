//! A sign-in: a person is sent to the authorization server, and comes back to this machine with a
//! code (RFC 8252, section 7.3; RFC 9207).

use std::{collections::VecDeque, sync::Arc, time::Duration};

use orchestra_process::{PeerUser, PeerUsers};
use reqwest::Url;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet},
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{OAuth, OAuthConfig, SignIn, TokenStore, Wish, challenge::Challenge, discovery};
use crate::client::{
    ClientError,
    http::config::{Auth, HttpConfig},
};

/// How long a person may take.
const PATIENCE: Duration = Duration::from_mins(5);

/// How long a browser may take to say what it wants.
const HEAD_TIME: Duration = Duration::from_secs(5);

/// Maximum number of connections that are read at once. If there are more, one is closed: one of another user before one
/// of an unknown user, and the oldest first.
const MAX_CONNECTIONS: usize = 64;

/// Pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The longest request of a browser.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// Where people come back to.
const PATH: &str = "/callback";

/// What became of a sign-in that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignedIn {
    /// What it brought is kept.
    Done,
    /// Nothing was done: the server lets everybody in, and names nobody who could sign people in.
    NotAsked,
}

/// Signs a person in, and keeps what that brings. `config.auth` says how; any other way than OAuth
/// counts as [`OAuthConfig::new`] with `store`.
///
/// # Errors
/// [`ClientError::NeedsAuth`] when it does not come about, saying why.
pub async fn login(
    mut config: HttpConfig,
    store: Arc<dyn TokenStore>,
    scopes: &[String],
    sign_in: Arc<dyn SignIn>,
) -> Result<SignedIn, ClientError> {
    let mut oauth = match config.auth {
        Auth::OAuth(oauth) => *oauth,
        _ => OAuthConfig::new(store),
    };
    oauth.sign_in = Some(sign_in);
    for scope in scopes {
        if !oauth.scopes.contains(scope) {
            oauth.scopes.push(scope.clone());
        }
    }
    config.auth = Auth::None;
    let server = config.endpoint()?;
    let oauth = OAuth::new(&config, oauth)?;
    // Its refusal says where to go; where it has none, its places do.
    let challenges = oauth.asks.refusal(&server).await?;
    if challenges.is_none() && !discovery::is_told(&oauth.asks, &server).await? {
        return Ok(SignedIn::NotAsked);
    }
    let challenge = Challenge::of(&challenges.unwrap_or_default());
    // single-flight: nobody else has this one.
    let mut state = oauth.state.lock().await;
    oauth.load(&mut state).await?;
    let acquired = oauth.acquire(&mut state, &challenge, Wish::Anew).await;
    acquired.map(|()| SignedIn::Done)
}

/// The place that people come back to.
pub(super) struct Callback {
    listener: TcpListener,
    /// Its URL.
    pub(super) url: String,
}

/// What an authorization server is held to when it sends somebody back.
pub(super) struct Expected<'a> {
    pub(super) state: &'a str,
    pub(super) issuer: &'a str,
    /// It says who it is.
    pub(super) names_itself: bool,
}

impl Callback {
    /// Listens on this machine; on any port where that is 0.
    ///
    /// # Errors
    /// When the port is taken.
    pub(super) async fn open(port: u16) -> Result<Self, ClientError> {
        let failed = |error: std::io::Error| ClientError::NeedsAuth {
            what: format!("nobody can come back to 127.0.0.1:{port} from the sign-in: {error}"),
        };
        let listener = TcpListener::bind(("127.0.0.1", port))
            .await
            .map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let url = format!("http://127.0.0.1:{port}{PATH}");
        Ok(Self { listener, url })
    }

    /// Waits for the browser that comes back, and returns the code. Other requests are refused. Connections are read
    /// concurrently, so that a silent connection delays no other.
    ///
    /// # Errors
    /// When nobody comes in time, the sign-in was refused, or another server sent them.
    pub(super) async fn code(&self, expected: &Expected<'_>) -> Result<String, ClientError> {
        let until = Instant::now() + PATIENCE;
        let mut users = PeerUsers::new();
        let mut reading = Reading::default();
        loop {
            let (mut stream, target) = tokio::select! {
                biased;
                Some(read) = reading.next() => match read {
                    Some(read) => read,
                    None => continue,
                },
                accepted = self.listener.accept() => {
                    match accepted {
                        Ok((stream, peer)) => {
                            let user = users.find(&stream, peer);
                            reading.begin(user, read(stream));
                        }
                        // Without a free descriptor, none can be accepted before one is closed.
                        Err(_) => {
                            reading.close_one();
                            sleep(ACCEPT_PAUSE).await;
                        }
                    }
                    continue;
                }
                () = sleep_until(until) => {
                    let minutes = PATIENCE.as_secs() / 60;
                    let what = format!("nobody came back from the sign-in within {minutes} minutes");
                    return Err(ClientError::NeedsAuth { what });
                }
            };
            match returned(&target, expected) {
                None => reading.begin(PeerUser::Unknown, async move {
                    tell(&mut stream, "404 Not Found", "Nothing is here.").await;
                    None
                }),
                Some(Ok(code)) => {
                    let text = "Signed in. This page can be closed.";
                    tell(&mut stream, "200 OK", text).await;
                    return Ok(code);
                }
                Some(Err(what)) => {
                    let text = "The sign-in did not succeed; the program says why.";
                    tell(&mut stream, "400 Bad Request", text).await;
                    return Err(ClientError::NeedsAuth { what });
                }
            }
        }
    }
}

/// A connection and the target of its request.
type Asked = (TcpStream, String);

/// Connections that are read, or answered that nothing is there. They end with this.
#[derive(Default)]
struct Reading {
    tasks: JoinSet<(u64, Option<Asked>)>,
    /// In the order in which they were accepted.
    open: VecDeque<(u64, PeerUser, AbortHandle)>,
    last: u64,
}

impl Reading {
    fn begin(
        &mut self,
        user: PeerUser,
        work: impl Future<Output = Option<Asked>> + Send + 'static,
    ) {
        self.last += 1;
        let number = self.last;
        let task = self.tasks.spawn(async move { (number, work.await) });
        self.open.push_back((number, user, task));
        if self.open.len() > MAX_CONNECTIONS {
            self.close_one();
        }
    }

    /// The next that has ended; `None` where none is open.
    async fn next(&mut self) -> Option<Option<Asked>> {
        // One that was closed is no longer among the open ones.
        let Ok((number, asked)) = self.tasks.join_next().await? else {
            return Some(None);
        };
        self.open.retain(|(open, ..)| *open != number);
        Some(asked)
    }

    /// Closes the connection that is least likely to be the browser's.
    fn close_one(&mut self) {
        let of = |is: fn(&PeerUser) -> bool| self.open.iter().position(|(_, user, _)| is(user));
        let place = of(|user| matches!(user, PeerUser::Other(_)))
            .or_else(|| of(|user| *user == PeerUser::Unknown))
            .unwrap_or(0);
        if let Some((_, _, task)) = self.open.remove(place) {
            task.abort();
        }
    }
}

/// Reads what a browser asks for; `None` when it does not say it in time.
async fn read(mut stream: TcpStream) -> Option<Asked> {
    let target = timeout(HEAD_TIME, target(&mut stream)).await.ok()??;
    Some((stream, target))
}

/// What somebody brings; `None` for whoever was not sent by us.
fn returned(target: &str, expected: &Expected<'_>) -> Option<Result<String, String>> {
    let url = Url::parse("http://127.0.0.1").ok()?.join(target).ok()?;
    let value = |name: &str| {
        let mut pairs = url.query_pairs();
        pairs.find_map(|(key, value)| (key == name).then(|| value.into_owned()))
    };
    if url.path() != PATH || value("state").as_deref() != Some(expected.state) {
        return None;
    }
    // Who sent them is looked at before anything else they bring (RFC 9207, section 2.4).
    match value("iss") {
        Some(issuer) if issuer != expected.issuer => {
            let told = orchestra_wire::shown(&issuer).into_owned();
            let what = format!("another authorization server sent the answer: {told}");
            return Some(Err(what));
        }
        None if expected.names_itself => {
            let what = "the answer does not name its authorization server, which it should";
            return Some(Err(what.to_owned()));
        }
        _ => {}
    }
    if let Some(error) = value("error") {
        let more = value("error_description").unwrap_or_default();
        let told = format!("{error} {more}");
        let told = orchestra_wire::shown(told.trim()).into_owned();
        return Some(Err(format!("the sign-in was refused: {told}")));
    }
    Some(value("code").ok_or_else(|| "the sign-in brought no code".to_owned()))
}

/// What a browser asks for.
async fn target(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut piece = [0; 2048];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut piece).await.ok()?;
        if read == 0 || head.len() + read > MAX_HEAD_BYTES {
            return None;
        }
        head.extend_from_slice(&piece[..read]);
    }
    let head = std::str::from_utf8(&head).ok()?;
    let mut words = head.lines().next()?.split(' ');
    (words.next()? == "GET").then_some(())?;
    words.next().map(str::to_owned)
}

async fn tell(stream: &mut TcpStream, status: &str, text: &str) {
    let response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n{text}",
        text.len()
    );
    // Whoever does not read it has come back all the same.
    drop(timeout(HEAD_TIME, stream.write_all(response.as_bytes())).await);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn held_connections_delay_no_browser() {
        for held in [1, MAX_CONNECTIONS, 3 * MAX_CONNECTIONS] {
            let callback = Callback::open(0).await.unwrap();
            let address = callback.listener.local_addr().unwrap();
            let expected = Expected {
                state: "s",
                issuer: "i",
                names_itself: false,
            };
            let browser = async {
                let mut holders = Vec::new();
                for _ in 0..held {
                    let mut holder = TcpStream::connect(address).await.unwrap();
                    // One that was closed meanwhile holds nothing.
                    drop(holder.write_all(b"GET ").await);
                    holders.push(holder);
                }
                let mut lost = TcpStream::connect(address).await.unwrap();
                lost.write_all(b"GET /other HTTP/1.1\r\n\r\n")
                    .await
                    .unwrap();
                let mut answer = String::new();
                lost.read_to_string(&mut answer).await.unwrap();
                assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
                let mut stream = TcpStream::connect(address).await.unwrap();
                let request = b"GET /callback?code=c&state=s HTTP/1.1\r\n\r\n";
                stream.write_all(request).await.unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).await.unwrap();
                answer
            };
            let began = Instant::now();
            let (code, answer) = tokio::join!(callback.code(&expected), browser);
            assert_eq!(code.unwrap(), "c");
            assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
            assert!(
                began.elapsed() < HEAD_TIME,
                "{held} held: {:?}",
                began.elapsed()
            );
        }
    }

    #[tokio::test]
    async fn connection_of_another_user_is_closed_before_one_of_the_same_user() {
        let mut reading = Reading::default();
        let users = [
            PeerUser::Same,
            PeerUser::Unknown,
            PeerUser::Other(1),
            PeerUser::Same,
            PeerUser::Other(2),
        ];
        for user in users {
            reading.begin(user, std::future::pending());
        }
        let mut left: Vec<Vec<u64>> = Vec::new();
        while !reading.open.is_empty() {
            reading.close_one();
            left.push(reading.open.iter().map(|(number, ..)| *number).collect());
        }
        let expected: [Vec<u64>; 5] =
            [vec![1, 2, 4, 5], vec![1, 2, 4], vec![1, 4], vec![4], vec![]];
        assert_eq!(left, expected);
    }

    #[test]
    fn who_comes_back_is_looked_at() {
        let check = |query: &str, names_itself: bool| {
            let expected = Expected {
                state: "s",
                issuer: "https://i.example",
                names_itself,
            };
            returned(&format!("/callback?{query}"), &expected)
        };
        let good = "code=c&state=s&iss=https%3A%2F%2Fi.example";
        assert_eq!(check(good, true), Some(Ok("c".to_owned())));
        assert_eq!(check("code=c&state=s", false), Some(Ok("c".to_owned())));
        assert_eq!(check("code=c&state=other", false), None);
        assert_eq!(check("code=c", false), None);
        for (query, names_itself, told) in [
            ("code=c&state=s", true, "does not name"),
            (
                "code=c&state=s&iss=https%3A%2F%2Fi.example%2F",
                true,
                "another",
            ),
            (
                "code=c&state=s&iss=https%3A%2F%2Fevil.example",
                false,
                "another",
            ),
            ("error=access_denied&state=s", false, "access_denied"),
            ("state=s", false, "no code"),
        ] {
            let what = check(query, names_itself).unwrap().unwrap_err();
            assert!(what.contains(told), "{query}: {what}");
        }
        let expected = Expected {
            state: "s",
            issuer: "i",
            names_itself: false,
        };
        assert_eq!(returned("/other?code=c&state=s", &expected), None);
    }
}
