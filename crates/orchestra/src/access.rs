//! Admission over HTTP: secrets and certificates are read from the configured places, and become the rules and the
//! TLS that `up` serves with. Where the configuration names no tokens, the
//! user has a token of their own.

use std::{
    convert::Infallible,
    future::pending,
    io,
    net::SocketAddr,
    num::NonZeroU32,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use orchestra_fs::Directory;
use orchestra_mcp::{
    files,
    http::{Access, AccessRules, OAuth, Rate, Tls, Token},
};
use tokio::{task::spawn_blocking, time::sleep};

use crate::{
    config::{AccessConfig, TlsFiles, TokenSource},
    env::Variable,
    secrets, servers,
};

/// Name of the file with the user's own token, in the directory of the user's state.
const OWN_TOKEN: &str = "token";

/// Name of the file with the logins of browsers that were ended, beside it.
const ENDED_LOGINS: &str = "ended-logins";

/// Secrets and certificates are short; what is longer is another file.
const FILE_BYTES: u64 = 1024 * 1024;

/// Pause before the file of tokens is read again.
const LOOK: Duration = Duration::from_secs(1);

/// Number of reads that must fail one after the other before no token is admitted: another program may be writing the
/// file.
const FAILURES: u32 = 10;

/// Maximum number of tokens of a file that are masked. A masker knows some thousand values.
const KNOWN_TOKENS: usize = 1_000;

/// Secrecy of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    Secrets,
    Nothing,
}

/// The rules of admission that the configuration asks for, when `address` is listened on.
///
/// # Errors
/// When a token cannot be read, other users can read it too, or this machine knows no certificates by
/// which it could know the issuers of tokens.
pub(crate) fn rules(
    config: &AccessConfig,
    own_token: Option<&str>,
    address: SocketAddr,
) -> anyhow::Result<AccessRules> {
    let tokens = match &config.token.value {
        TokenSource::None => Vec::new(),
        TokenSource::Environment => vec![token_of_environment()?],
        TokenSource::File(path) => known_tokens_of_file(path)?,
    };
    let mut hosts = config.hosts.value.clone();
    if !address.ip().is_unspecified() {
        hosts.push(address.ip().into());
    }
    hosts.extend(config.oauth.host());
    let oauth = config.oauth.rules().map(OAuth::new).transpose()?;
    let rate = NonZeroU32::new(config.requests_per_second.value);
    Ok(AccessRules {
        tokens,
        oauth,
        own_token: own_token.map(str::parse).transpose()?,
        ended_logins: ended_logins(),
        hosts,
        origins: config.origins.value.clone(),
        rate: rate.map(|per_second| Rate {
            per_second,
            // What two seconds allow may come at once after a pause.
            burst: per_second.saturating_add(per_second.get()),
        }),
        ..AccessRules::default()
    })
}

/// The certificate and its key.
///
/// # Errors
/// When one of them cannot be read, other users can read the key too, or they do not fit together.
pub(crate) fn tls(files: &TlsFiles) -> anyhow::Result<Tls> {
    let chain = read(&files.cert, Holds::Nothing)?;
    let key = read(&files.key, Holds::Secrets)?;
    Tls::from_pem(&chain, &key).with_context(|| {
        let (cert, key) = (files.cert.display(), files.key.display());
        format!("certificate {cert} and key {key}")
    })
}

fn token_of_environment() -> anyhow::Result<Token> {
    let name = Variable::Token.name();
    let text = Variable::Token.read().unwrap_or_default();
    let text = text
        .to_str()
        .with_context(|| format!("{name} is not UTF-8 text"))?;
    text.trim()
        .parse()
        .with_context(|| format!("{name} contains no token"))
}

/// The tokens of a file, which are masked from now on.
fn known_tokens_of_file(path: &Path) -> anyhow::Result<Vec<Token>> {
    let text = text_of_file(path)?;
    let tokens = tokens_of_text(path, &text)?;
    let lines = written(&text).map(|(_, line)| line);
    secrets::know(lines.take(KNOWN_TOKENS));
    Ok(tokens)
}

fn tokens_of_file(path: &Path) -> anyhow::Result<Vec<Token>> {
    tokens_of_text(path, &text_of_file(path)?)
}

fn text_of_file(path: &Path) -> anyhow::Result<String> {
    let text = String::from_utf8(read(path, Holds::Secrets)?);
    text.map_err(|_| anyhow::anyhow!("{} is not UTF-8 text", path.display()))
}

/// One token a line. Blank lines and lines that begin with `#` are skipped.
fn tokens_of_text(path: &Path, text: &str) -> anyhow::Result<Vec<Token>> {
    let mut tokens = Vec::new();
    for (place, line) in written(text) {
        let token = line.parse().with_context(|| {
            // The line itself is a secret.
            format!("{}, line {}", path.display(), place + 1)
        })?;
        tokens.push(token);
    }
    anyhow::ensure!(!tokens.is_empty(), "{} contains no token", path.display());
    Ok(tokens)
}

/// Reads the configured file of tokens again and again, and admits the callers that it lists. Does not end.
pub(crate) async fn follow_tokens(config: &AccessConfig, access: &Access) -> Infallible {
    let TokenSource::File(path) = &config.token.value else {
        return pending().await;
    };
    let mut failures = 0;
    loop {
        sleep(LOOK).await;
        let file = path.clone();
        let read = spawn_blocking(move || known_tokens_of_file(&file)).await;
        match read.map_err(anyhow::Error::from).flatten() {
            Ok(tokens) => {
                failures = 0;
                access.list_tokens(tokens);
            }
            Err(error) => {
                failures += 1;
                if failures == FAILURES {
                    tracing::warn!("no token is admitted: {error:#}");
                    access.list_tokens(Vec::new());
                }
            }
        }
    }
}

/// The lines of a file of tokens that hold one, with their places.
fn written(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = text.lines().map(str::trim).enumerate();
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Returns the user's own token, which is created with the first call.
///
/// # Errors
/// When it cannot be read or created, or other users can read it.
pub(crate) fn own_token() -> anyhow::Result<String> {
    let path = own_token_path()?;
    if let Some(token) = read_own_token(&path)? {
        return Ok(token);
    }
    let (_, token) = Token::draw().context("cannot create a token")?;
    if create_secret(&path, &format!("{token}\n"))? {
        secrets::know([&*token]);
        return Ok(token);
    }
    // Another program was first.
    read_own_token(&path)?.with_context(|| format!("{} was removed", path.display()))
}

/// Checks the files with tokens: that of the configuration, and the user's own one if it exists. Creates none.
///
/// # Errors
/// When one cannot be read, other users can read it too, or it holds no token.
pub(crate) fn check_tokens(config: &AccessConfig) -> anyhow::Result<()> {
    if let TokenSource::File(path) = &config.token.value {
        tokens_of_file(path)?;
    }
    if let Ok(path) = own_token_path() {
        read_own_token(&path)?;
    }
    Ok(())
}

/// Returns a token that a program with this configuration admits; `None` when none can be read.
pub(crate) fn first_token(config: &AccessConfig) -> Option<String> {
    match &config.token.value {
        TokenSource::None if config.oauth.is_set() => None,
        TokenSource::None => stored_token(),
        TokenSource::Environment => token_in(&Variable::Token.read()?.into_string().ok()?),
        TokenSource::File(path) => first_of_file(path),
    }
}

/// Returns the user's own token; `None` when there is none or it cannot be read.
pub(crate) fn stored_token() -> Option<String> {
    read_own_token(&own_token_path().ok()?).ok()?
}

/// Returns the first token of a file of tokens; `None` when none can be read.
pub(crate) fn first_of_file(path: &Path) -> Option<String> {
    token_in(&String::from_utf8(read(path, Holds::Secrets).ok()?).ok()?)
}

fn token_in(text: &str) -> Option<String> {
    let (_, token) = written(text).next()?;
    // Other text may not fit a header.
    let is_token = token.parse::<Token>().is_ok();
    is_token.then(|| token.to_owned())
}

/// The file of logins of browsers that were ended; `None` where there is no place for it.
fn ended_logins() -> Option<PathBuf> {
    let directory = servers::state_directory().ok()?;
    Directory::private(&directory).ok()?;
    Some(directory.join(ENDED_LOGINS))
}

fn own_token_path() -> anyhow::Result<PathBuf> {
    let directory =
        servers::state_directory().map_err(|failure| anyhow::anyhow!(failure.text()))?;
    Ok(directory.join(OWN_TOKEN))
}

fn read_own_token(path: &Path) -> anyhow::Result<Option<String>> {
    let bytes = match files::read_secret(path, FILE_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let text = String::from_utf8_lossy(&bytes);
    let token = text.trim();
    token.parse::<Token>().with_context(|| {
        let path = path.display();
        format!(
            "{path} contains no token; remove it, and the next `orchestra up` creates a new one"
        )
    })?;
    Ok(Some(token.to_owned()))
}

/// Creates a file for the user alone; false where there is one.
fn create_secret(path: &Path, text: &str) -> orchestra_fs::Result<bool> {
    let directory = Directory::private(path.parent().unwrap_or(Path::new(".")))?;
    let mut staged = directory.stage(orchestra_fs::Access::Private)?;
    staged.fill(text.as_bytes())?;
    staged.publish_new(path.file_name().unwrap_or_default())
}

fn read(path: &Path, holds: Holds) -> anyhow::Result<Vec<u8>> {
    let read = match holds {
        Holds::Secrets => files::read_secret(path, FILE_BYTES),
        Holds::Nothing => files::read(path, FILE_BYTES),
    };
    read.with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    fn tokens(text: &str, mode: u32) -> Result<usize, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let tokens = tokens_of_file(&path);
        tokens
            .map(|tokens| tokens.len())
            .map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_file_holds_one_token_a_line() {
        let text = "# laptop\n0123456789abcdef\n\n  fedcba9876543210  \n";
        assert_eq!(tokens(text, 0o600), Ok(2));
        assert_eq!(tokens(text, 0o640), Ok(2));
    }

    #[test]
    fn what_is_wrong_with_it_is_told_and_the_secret_is_not() {
        for (text, mode, expected) in [
            ("0123456789abcdef", 0o644, "is open to others"),
            ("# none\n", 0o600, "contains no token"),
            ("0123456789abcdef\nsecret\n", 0o600, "line 2"),
            ("secret secret secret", 0o600, "only letters"),
        ] {
            let error = tokens(text, mode).unwrap_err();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        let directory = tempfile::tempdir().unwrap();
        let error = format!("{:#}", tokens_of_file(directory.path()).unwrap_err());
        assert!(error.contains("is no regular file"), "{error}");
    }
}
