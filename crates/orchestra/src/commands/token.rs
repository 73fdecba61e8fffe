//! `orchestra token`: a token for clients that `orchestra up` does not recognise by their user.

use clap::Args;
use orchestra_memory::engine;

use crate::{
    access,
    cli::{Common, examples},
    commands::up::endpoint::{Endpoint, Place, Tokens},
    config::{Config, Overrides, TokenSource},
    exit::{Exit, Failure},
    output,
    workspace::run_directory,
};

/// Print a token for clients of `orchestra up`
///
/// On Linux, your own clients on this machine need no token. All other clients need one: on other systems,
/// behind a proxy, in a container, or of another user.
///
/// If the configuration names no tokens, this command prints your own token, which all your workspaces share.
/// It is created on first use, in ~/.local/state/orchestra/token. To replace it, remove the file and restart
/// `up`.
///
/// While `up` runs, its tokens apply: with `--token-file`, the first token of that file is printed. A token of
/// its environment is not printed: use the value of ORCHESTRA_TOKEN that `up` was started with.
///
/// For curl: curl -H "Authorization: Bearer $(orchestra token)" http://127.0.0.1:7420/api/mcp/tools
#[derive(Debug, Args)]
#[command(after_help = examples(&["token", "token --engine"]))]
pub(crate) struct Arguments {
    /// Print the token of the running memory engine of the workspace instead
    #[arg(long)]
    engine: bool,
}

/// Prints it.
///
/// # Errors
/// When tokens come from an issuer or from the environment of the running `up`, or none can be read.
pub(crate) fn run(common: &Common, Arguments { engine }: Arguments) -> Result<Exit, Failure> {
    let config = Config::settle(common, Overrides::default())?;
    if engine {
        let token = engine::token(&run_directory(&config)?)?;
        let text =
            "no memory engine with a token runs in this workspace; `orchestra engine` starts one";
        let token = token.ok_or_else(|| Failure::refused(text))?;
        output::lines(&token)?;
        return Ok(Exit::Ok);
    }
    let token = match Place::find(&config)?.published()? {
        Some(running) => of_running(&config, &running)?,
        None => of_configuration(&config)?,
    };
    output::lines(&token)?;
    Ok(Exit::Ok)
}

/// A token that the running `up` admits.
fn of_running(config: &Config, running: &Endpoint) -> Result<String, Failure> {
    let pid = running.pid;
    match &running.tokens {
        Some(Tokens::Own) => Ok(access::own_token()?),
        Some(Tokens::File(path)) => access::first_of_file(path).ok_or_else(|| {
            let path = path.display();
            Failure::usage_text(format!(
                "cannot read a token from {path}, the token file of the running `orchestra up` (process {pid})"
            ))
        }),
        Some(Tokens::Environment) => Err(Failure::refused(format!(
            "the running `orchestra up` (process {pid}) admits the token of ORCHESTRA_TOKEN in the environment that \
             it was started with; use that value"
        ))),
        // Only issuers give tokens out, or it is an older program.
        None => of_configuration(config),
    }
}

/// A token that `up` with this configuration would admit.
fn of_configuration(config: &Config) -> Result<String, Failure> {
    let access = &config.access;
    match &access.token.value {
        TokenSource::None if access.oauth.is_set() => {
            let text = "tokens come from the issuers of access.oauth.issuers; sign in there";
            Err(Failure::refused(text))
        }
        TokenSource::None => Ok(access::own_token()?),
        TokenSource::Environment | TokenSource::File(_) => {
            let name = access.token.origin.name_of("access.token_file");
            let text = format!("cannot read a token ({name}: {})", access.token.origin);
            access::first_token(access).ok_or_else(|| Failure::usage_text(text))
        }
    }
}
