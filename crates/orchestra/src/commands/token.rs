//! `orchestra token`: a token for clients that `orchestra up` does not recognise by their user.

use clap::Args;
use orchestra_memory::engine;

use crate::{
    access,
    cli::Common,
    config::{Config, Overrides, TokenSource},
    exit::{Exit, Failure},
    output,
    workspace::run_directory,
};

/// Print a token that `orchestra up` of the workspace admits
///
/// On Linux, your own clients on this machine need none. All other clients need one: on other systems,
/// behind a proxy, in a container, or of another user to whom you give it.
///
/// Where the configuration names no tokens, this prints your own, which all your workspaces share. It
/// is created when it is first needed, in ~/.local/state/orchestra/token. To replace it, remove the file
/// and start `up` again.
///
/// For curl: curl -H "Authorization: Bearer $(orchestra token)" http://127.0.0.1:7420/api/mcp/tools
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Print the token of the running memory engine of the workspace instead
    #[arg(long)]
    engine: bool,
}

/// Prints it.
///
/// # Errors
/// When tokens come from an issuer, or none can be read.
pub(crate) fn run(common: &Common, Arguments { engine }: Arguments) -> Result<Exit, Failure> {
    let config = Config::settle(common, Overrides::default())?;
    if engine {
        let token = engine::token(&run_directory(&config.workspace)?)?;
        let text =
            "no memory engine with a token runs in this workspace; `orchestra engine` starts one";
        let token = token.ok_or_else(|| Failure::refused(text))?;
        output::lines(&token)?;
        return Ok(Exit::Ok);
    }
    let access = &config.access;
    let token = match &access.token.value {
        TokenSource::None if access.oauth.is_set() => {
            let text = "tokens come from the issuers of access.oauth.issuers; sign in there";
            return Err(Failure::refused(text));
        }
        TokenSource::None => access::own_token()?,
        TokenSource::Environment | TokenSource::File(_) => {
            let name = access.token.origin.name_of("access.token_file");
            let text = format!("no token can be read ({name}: {})", access.token.origin);
            access::first_token(access).ok_or_else(|| Failure::usage_text(text))?
        }
    };
    output::lines(&token)?;
    Ok(Exit::Ok)
}
