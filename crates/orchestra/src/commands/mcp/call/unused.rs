//! Servers that are not used, and the records of calls that were to be made of them.

use std::fmt;

use orchestra_gateway::{
    config::ServerName,
    discovery::{Server, ServerState},
};
use orchestra_hub::CallEnd;

use super::{
    super::words,
    Ended, Trouble, named,
    once::{self, Put, Step},
    unfitted,
};
use crate::{
    commands::arguments::Given,
    config::Config,
    exit::{Exit, Failure},
};

/// A server that is not used, whoever calls it.
#[derive(Debug)]
pub(in crate::commands) struct Unused {
    server: ServerName,
    display_name: String,
    /// The name of the reason, for the record.
    code: &'static str,
    /// In words, with what to do.
    why: String,
    exit: Exit,
}

impl fmt::Display for Unused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.display_name, self.why)
    }
}

impl Unused {
    /// Why a server is not used; `None` where it is.
    pub(in crate::commands) fn of(server: &Server) -> Option<Self> {
        let (code, exit) = match &server.state {
            ServerState::Usable(_) => return None,
            ServerState::Disabled { .. } => ("disabled", Exit::Denied),
            ServerState::NeedsApproval { .. } => ("needs_approval", Exit::Denied),
            ServerState::Invalid { .. } => ("invalid_config", Exit::Refused),
            ServerState::Own => ("own", Exit::Usage),
        };
        Some(Self {
            server: server.name.clone(),
            display_name: server.display_name().to_owned(),
            code,
            why: words::reason(server).unwrap_or_default(),
            exit,
        })
    }

    /// States that the server waits for approval, and why.
    pub(in crate::commands) fn waiting(&self) -> String {
        format!("{} waits for approval: {}", self.display_name, self.why)
    }

    /// As other commands tell it.
    pub(super) fn trouble(self) -> Trouble {
        Trouble {
            server: self.server.to_string(),
            code: self.code,
            message: self.why,
            hint: None,
            may_have_run: None,
            is_repeatable: false,
            exit: self.exit,
        }
    }

    /// Records that a tool of it was to be called.
    ///
    /// # Errors
    /// When nothing can be recorded.
    pub(in crate::commands) async fn record(
        &self,
        config: &Config,
        tool: &str,
        given: &Given,
    ) -> Result<(), Failure> {
        let left = Ended::Failure(Failure::denied(&*self.why));
        let put = Put {
            name: named(&self.server, tool),
            arguments: unfitted(given)?,
            rule: Some(self.code.to_owned()),
            step: Step::Leave(CallEnd::Denied, left),
        };
        // That it was left is known.
        let _ = once::put(config, &self.server, put).await;
        Ok(())
    }
}
