//! Merge drivers. Only those of the user's own configuration run: the configuration of a repository can come from an
//! archive.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
};

use super::{GitError, call::Call};

/// Lists the drivers with the scope of the file that names each.
const ASKED: [&str; 5] = [
    "config",
    "-z",
    "--show-scope",
    "--get-regexp",
    r"^merge\..*\.driver$",
];

/// Variables with the command lines of drivers begin so.
const VARIABLE: &str = "GIT_MERGE_DRIVER_";

/// Has a merge use the drivers of the user's own configuration alone. A driver that only the repository names is
/// replaced by the built-in one of its name, or by a merge of texts, whose conflicts have these labels. `ask` makes a
/// call in the same repository.
///
/// # Errors
/// When git fails to list the drivers.
pub(super) async fn of_user(
    ask: impl FnOnce(&'static str, [&'static str; 5]) -> Call,
    merge: Call,
    labels: [&str; 2],
) -> Result<Call, GitError> {
    let asked = ask("look for merge drivers", ASKED).accept(&[0, 1]);
    let answer = asked.run().await?;
    let fields: Vec<&[u8]> = answer.fields().collect();
    let mut call = merge;
    for (index, (name, own)) in replaced(&fields).into_iter().enumerate() {
        let shown = String::from_utf8_lossy(name);
        tracing::warn!(name = %shown, "the merge driver of the repository's own configuration is not used");
        let variable = format!("{VARIABLE}{index}");
        let mut option = OsString::from("--config-env=merge.");
        option.push(OsStr::from_bytes(name));
        option.push(format!(".driver={variable}"));
        let line = match own {
            Some(line) => OsString::from_vec(line.to_vec()),
            None => OsString::from(instead_of(name, labels)),
        };
        call = call.option(option).env(variable, line);
    }
    Ok(call)
}

/// Returns the drivers that the repository names, each with the command line of the user's own driver of that name.
fn replaced<'a>(fields: &[&'a [u8]]) -> BTreeMap<&'a [u8], Option<&'a [u8]>> {
    let (mut own, mut replaced) = (BTreeMap::new(), BTreeMap::new());
    for setting in fields.chunks_exact(2) {
        let (scope, text) = (setting[0], setting[1]);
        let end = text.iter().position(|byte| *byte == b'\n');
        let (key, line) = text.split_at(end.unwrap_or(text.len()));
        let name = key.strip_prefix(b"merge.");
        let Some(name) = name.and_then(|name| name.strip_suffix(b".driver")) else {
            continue;
        };
        match scope {
            // Git uses the last one.
            b"system" | b"global" => drop(own.insert(name, line.get(1..).unwrap_or_default())),
            _ => drop(replaced.insert(name, None)),
        }
    }
    for (name, line) in &mut replaced {
        *line = own.get(name).copied();
    }
    replaced
}

/// Returns the command line of a merge as git does it where no driver has the name.
fn instead_of(name: &[u8], [ours, theirs]: [&str; 2]) -> String {
    let option = match name {
        b"binary" => return "exit 1".to_owned(),
        b"union" => "--union ",
        _ => "",
    };
    // A file that is not text has a conflict, and remains as it is.
    format!(
        "git merge-file {option}-L {ours} -L base -L {theirs} --marker-size=%L %A %O %B || exit 1"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_of_the_repository_is_replaced_by_that_of_the_user() {
        let fields: [&[u8]; 10] = [
            b"global",
            b"merge.both.driver\nmine %A",
            b"global",
            b"merge.own.driver\nmine",
            b"local",
            b"merge.both.driver\ntheirs",
            b"worktree",
            b"merge.a.b=c.driver\ntheirs",
            b"local",
            b"merge.empty.driver",
        ];
        let expected: [(&[u8], Option<&[u8]>); 3] = [
            (b"a.b=c", None),
            (b"both", Some(b"mine %A")),
            (b"empty", None),
        ];
        assert_eq!(replaced(&fields), BTreeMap::from(expected));
    }
}
