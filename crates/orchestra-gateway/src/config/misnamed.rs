//! Sections of servers whose name was mistyped.

use super::{
    node::{Member, Node, Path},
    report::Report,
    shape::{SERVERS, SHARED},
    units,
};

/// What stands beside the servers of a file.
const BESIDE: [&str; 4] = ["$schema", "default", "inputs", "version"];

/// Tells of servers below a name that is not known, and which member that is. What else a program
/// keeps beside its servers may look alike.
pub(super) fn misnamed<'a>(
    members: &'a [Member],
    is_of_servers: bool,
    report: &Report,
) -> Option<&'a Member> {
    let known = [&SERVERS[..], &[SHARED]].concat();
    let holds_servers = |member: &Member| {
        let inner = member.node.members().unwrap_or_default().iter();
        inner
            .flat_map(|server| ["command", "url"].map(|key| server.node.member(key)))
            .any(|reached| reached.is_some())
    };
    let mut others = members
        .iter()
        .filter(|member| !BESIDE.contains(&&*member.key));
    let is_alone = is_of_servers && others.clone().count() == 1;
    let meant = others.find_map(|member| {
        let is_section = member.node.members().is_some();
        let near = units::nearest(&member.key, &known).filter(|_| is_section);
        let near = near.filter(|_| is_alone || holds_servers(member));
        let usual = (is_alone && is_section).then_some(SERVERS[0]);
        Some((member, near.or(usual)?))
    });
    let (member, name) = meant?;
    let message = format!("is not known, so nothing is read; did you mean `{name}`?");
    report.error(member.place, &Path::default().key(&member.key), message);
    Some(member)
}

/// Tells of a file that is there for its servers alone, and has none.
pub(super) fn nothing(root: &Node, report: &Report) {
    let mut members = root.members().unwrap_or_default().iter();
    let other = members.find(|member| !BESIDE.contains(&&*member.key));
    if let Some(other) = other.filter(|_| report.is_empty()) {
        let message = "no server found: servers are expected below `mcpServers`";
        report.warn(other.place, &Path::default(), message);
    }
}
