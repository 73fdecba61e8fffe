//! Text that is stored when a user agrees to an agent: the digest of the agent as it was shown, and a shorter digest of
//! each line, so that a later change can be named.

use sha2::{Digest as _, Sha256};

use super::Offer;
use crate::hex::hex;

/// Bytes of the digest of a line. It names a change and permits nothing.
const LINE_BYTES: usize = 8;

impl Offer {
    /// Returns the text to store when a user agrees to the agent.
    #[must_use]
    pub fn agreement(&self) -> String {
        let lines = self.lines.iter().map(|line| line_digest(line));
        let parts: Vec<String> = std::iter::once(self.digest().to_owned())
            .chain(lines)
            .collect();
        parts.join(" ")
    }

    /// Returns a sentence about the other agents that the user may choose; `None` where there is no choice.
    #[must_use]
    pub fn choice(&self) -> Option<String> {
        (!self.others.is_empty()).then(|| {
            format!(
                "Also installed: {}. `orchestra plan agents --approve NAME` agrees to another one instead.",
                self.others.join(", ")
            )
        })
    }

    /// Compares the agent with a stored agreement.
    ///
    /// # Errors
    /// When the agent changed since, with the lines that are other now.
    pub(crate) fn check(&self, agreement: &str) -> Result<(), String> {
        let mut parts = agreement.split(' ');
        if parts.next() == Some(self.digest()) {
            return Ok(());
        }
        let known: Vec<&str> = parts.collect();
        let is_new = |line: &&String| !known.contains(&line_digest(line).as_str());
        let new: Vec<&str> = self
            .lines
            .iter()
            .filter(is_new)
            .map(String::as_str)
            .collect();
        // An earlier version stored no digests of lines.
        match known.is_empty() || new.is_empty() {
            true => Err(
                "its profile, or a file of the workspace that its command line names".to_owned(),
            ),
            false => Err(format!("now {}", new.join("; "))),
        }
    }
}

fn line_digest(line: &str) -> String {
    hex(&Sha256::digest(line.as_bytes())[..LINE_BYTES])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::{Author, Profile};

    #[test]
    fn changed_file_of_an_agent_is_named() {
        let text = serde_json::json!({"program": "agent", "arguments": [["{prompt}"]]});
        let profile: Profile = serde_json::from_value(text).unwrap();
        let name = orchestra_plan::work::ProfileName::parse("mine").unwrap();
        let offer = |file: &str| {
            Offer::of(
                &name,
                &profile,
                Author::Workspace,
                &[file.to_owned()],
                "1 USD",
            )
        };
        let agreed = offer("run.sh (SHA-256 1)");
        let changed = offer("run.sh (SHA-256 2)");
        assert_eq!(agreed.check(&agreed.agreement()), Ok(()));
        assert_eq!(agreed.check(agreed.digest()), Ok(()));
        assert_eq!(
            changed.check(&agreed.agreement()).unwrap_err(),
            "now file of the workspace: run.sh (SHA-256 2)"
        );
        assert!(
            changed
                .check(agreed.digest())
                .unwrap_err()
                .starts_with("its profile")
        );
    }
}
