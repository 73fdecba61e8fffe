//! Takes a server out of a TOML or YAML file, so that every other line stays as it is.
//!
//! Whole lines are cut, by where the parser has seen what belongs to the server; then both texts are
//! read, and compared. What cannot be cut like that (several servers on one line, say) is refused.

use std::{cmp::Ordering, collections::BTreeMap};

use super::{
    File, FileKind,
    node::{Node, Path, Step, Value},
    report::Report,
    shape::shape,
    text::{Locator, Notation},
};

/// Why a server was not taken out of a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CutError {
    /// The file cannot be understood.
    #[error("the file cannot be parsed: {0}")]
    Text(String),
    /// The server is not in it.
    #[error("the file contains no server {0}")]
    Absent(String),
    /// It cannot be done without touching something else.
    #[error(
        "cannot remove the server, because its lines in the file also have other settings; remove it by hand"
    )]
    Entangled,
}

impl File {
    /// A text of this file without one server, which is named as it is written there.
    ///
    /// # Errors
    /// When it is not there, or other things would have to be changed.
    pub fn without(&self, text: &str, name: &str) -> Result<String, CutError> {
        let notation = self.notation();
        let parse = |text: &str| {
            let parsed = notation.parse(text);
            parsed.map_err(|error| CutError::Text(error.message))
        };
        let root = parse(text)?;
        let report = Report::default();
        let servers = match self.kind {
            FileKind::Servers => shape(&root, self.purpose(), &report).servers,
            // An item of a list has no line with its name alone.
            FileKind::Plugins => return Err(CutError::Entangled),
        };
        let found = servers.into_iter().find(|server| server.name == name);
        let path = found.ok_or_else(|| CutError::Absent(name.to_owned()))?.path;
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let cut = match notation {
            Notation::Yaml => by_indentation(text, &lines, &path),
            Notation::Json | Notation::Toml => by_places(&root, &lines, &path),
        };
        let kept = lines.iter().zip(cut).filter(|(_, cut)| !cut);
        let text: String = kept.map(|(line, _)| *line).collect();
        let after = parse(&text)?;
        let (before, after) = (pruned(&root, Some(&path.0)), pruned(&after, None));
        match same(before.as_ref(), after.as_ref()) {
            true => Ok(text),
            false => Err(CutError::Entangled),
        }
    }
}

/// Whether a line says nothing.
fn is_silent(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

/// Keeps comments and blank lines at the end of what is cut: they belong to what follows.
fn give_back(lines: &[&str], cut: &mut [bool], end: usize) {
    let mut line = end;
    while line > 0 && cut[line - 1] && is_silent(lines[line - 1]) {
        cut[line - 1] = false;
        line -= 1;
    }
}

/// Which lines belong to what a path leads to, where the tree knows its places: from each name that
/// is below it to the next one that is not.
fn by_places(root: &Node, lines: &[&str], path: &Path) -> Vec<bool> {
    let mut marks = BTreeMap::new();
    mark(root, &mut Vec::new(), &path.0, &mut marks);
    let mut cut = vec![false; lines.len()];
    let mut cutting = false;
    for line in 0..lines.len() {
        if let Some(belongs) = marks.get(&(line + 1)) {
            if cutting && !belongs {
                give_back(lines, &mut cut, line);
            }
            cutting = *belongs;
        }
        cut[line] = cutting;
    }
    if cutting {
        give_back(lines, &mut cut, lines.len());
    }
    cut
}

/// Notes on which lines names stand, and whether all on a line belong to what `path` leads to. Those
/// that lead there themselves belong to nobody.
fn mark(node: &Node, here: &mut Vec<Step>, path: &[Step], marks: &mut BTreeMap<usize, bool>) {
    let mut note = |line: u32, step: Step, node: &Node| {
        here.push(step);
        let below = here.starts_with(path);
        if below || !path.starts_with(here) {
            let all = marks.entry(line as usize).or_insert(true);
            *all &= below;
        }
        mark(node, here, path, marks);
        here.pop();
    };
    match &node.value {
        Value::Map(members) => {
            for member in members {
                let step = Step::Key(member.key.clone());
                note(member.place.line, step, &member.node);
            }
        }
        Value::List(items) => {
            for (place, item) in items.iter().enumerate() {
                note(item.place.line, Step::Index(place), item);
            }
        }
        _ => {}
    }
}

/// The same in YAML, where the lines of a block are further in than its name.
fn by_indentation(text: &str, lines: &[&str], path: &Path) -> Vec<bool> {
    let mut cut = vec![false; lines.len()];
    let place = Locator::new(Notation::Yaml, text).place(path);
    let Some(first) = place.and_then(|place| (place.line as usize).checked_sub(1)) else {
        return cut;
    };
    let indentation = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let Some(own) = lines.get(first).map(|line| indentation(line)) else {
        return cut;
    };
    let mut end = first + 1;
    while lines
        .get(end)
        .is_some_and(|line| is_silent(line) || indentation(line) > own)
    {
        end += 1;
    }
    cut[first..end].fill(true);
    give_back(lines, &mut cut, end);
    cut
}

/// A tree without what a path leads to, and without maps that hold nothing, which some notations
/// cannot say.
fn pruned(node: &Node, without: Option<&[Step]>) -> Option<Node> {
    let value = match &node.value {
        Value::Map(members) => {
            let members = members.iter().filter_map(|member| {
                let rest = match without.and_then(<[Step]>::split_first) {
                    Some((Step::Key(key), rest)) if *key == member.key => match rest {
                        [] => return None,
                        rest => Some(rest),
                    },
                    _ => None,
                };
                let mut member = member.clone();
                member.node = pruned(&member.node, rest)?;
                Some(member)
            });
            let members: Vec<_> = members.collect();
            if members.is_empty() {
                return None;
            }
            Value::Map(members)
        }
        Value::Null => return None,
        value => value.clone(),
    };
    Some(Node {
        place: node.place,
        value,
    })
}

/// Whether two trees say the same, wherever it stands.
fn same(one: Option<&Node>, other: Option<&Node>) -> bool {
    let (Some(one), Some(other)) = (one, other) else {
        return one.is_none() && other.is_none();
    };
    match (&one.value, &other.value) {
        (Value::Map(one), Value::Map(other)) => {
            one.len().cmp(&other.len()) == Ordering::Equal
                && one.iter().zip(other).all(|(one, other)| {
                    one.key == other.key && same(Some(&one.node), Some(&other.node))
                })
        }
        (Value::List(one), Value::List(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(one, other)| same(Some(one), Some(other)))
        }
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Source;

    fn without(file: &str, text: &str, name: &str) -> Result<String, CutError> {
        let file = File {
            path: std::path::Path::new(file).into(),
            source: Source::User,
            kind: FileKind::Servers,
            trust: Source::User.trust(),
            directory: "/".into(),
            owners: None,
        };
        file.without(text, name)
    }

    #[test]
    fn tables_of_toml_are_cut_and_all_else_stays() {
        let text = "# mine\ntools = \"lean\" # so\n\n[mcp.servers.a]\ncommand = \"x\"\n\
                    args = [\n  \"1\", # one\n  \"2\",\n]\n# of a\n[mcp.servers.a.env]\nK = \"v\"\n\n\
                    # the other\n[mcp.servers.b]\ncommand = \"y\"\n";
        let a = "# mine\ntools = \"lean\" # so\n\n\n\
                 # the other\n[mcp.servers.b]\ncommand = \"y\"\n";
        assert_eq!(without("o.toml", text, "a").unwrap(), a);
        let b = without("o.toml", text, "b").unwrap();
        assert!(b.ends_with("K = \"v\"\n\n# the other\n"), "{b}");
        assert_eq!(
            without("o.toml", a, "b").unwrap(),
            "# mine\ntools = \"lean\" # so\n\n\n# the other\n"
        );
    }

    #[test]
    fn members_and_dotted_names_of_toml_are_cut() {
        let text = "[mcp.servers]\na = { command = \"x\" }\nb.command = \"y\"\nb.args = [\n]\n\
                    c = { command = \"z\" }\n[[rules]]\nx = 1\n";
        assert_eq!(
            without("o.toml", text, "b").unwrap(),
            "[mcp.servers]\na = { command = \"x\" }\nc = { command = \"z\" }\n[[rules]]\nx = 1\n"
        );
        let cut = without("o.toml", text, "c").unwrap();
        assert!(cut.ends_with("b.args = [\n]\n[[rules]]\nx = 1\n"), "{cut}");
        let entangled =
            "mcp = { servers = { a = { command = \"x\" }, b = { command = \"y\" } } }\n";
        assert_eq!(without("o.toml", entangled, "a"), Err(CutError::Entangled));
        // A table that is named later, behind what is cut.
        let later = "[mcp.servers.a]\ncommand = \"x\"\n[mcp]\nenabled = true\n";
        let cut = without("o.toml", later, "a");
        assert!(
            cut == Err(CutError::Entangled) || cut.as_deref() == Ok("[mcp]\nenabled = true\n"),
            "{cut:?}"
        );
    }

    #[test]
    fn blocks_of_yaml_are_cut_and_all_else_stays() {
        let text = "# mine\nmcp:\n  enabled: true\n  servers:\n    a:\n      command: x\n\n      # of a\n      \
                    args: [1, 2]\n    # the other\n    b: {command: y}\nother: 1\n";
        assert_eq!(
            without("c.yaml", text, "a").unwrap(),
            "# mine\nmcp:\n  enabled: true\n  servers:\n    # the other\n    b: {command: y}\nother: 1\n"
        );
        let b = without("c.yaml", text, "b").unwrap();
        assert!(b.ends_with("    # the other\nother: 1\n"), "{b}");
        let flow = "mcp: {servers: {a: {command: x}, b: {command: y}}}\n";
        assert_eq!(without("c.yaml", flow, "a"), Err(CutError::Entangled));
        // A list may stand as far out as its name.
        let list = "servers:\n  a:\n    args:\n    - 1\n    command: x\n  b:\n    command: y\n";
        assert_eq!(
            without("c.yaml", list, "a").unwrap(),
            "servers:\n  b:\n    command: y\n"
        );
    }

    #[test]
    fn what_is_not_there_is_told() {
        assert_eq!(
            without("o.toml", "[mcp.servers.a]\ncommand = \"x\"\n", "b"),
            Err(CutError::Absent("b".into()))
        );
        assert!(matches!(
            without("o.toml", "[", "b"),
            Err(CutError::Text(_))
        ));
    }
}
