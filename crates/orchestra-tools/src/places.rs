//! Paths of plans in answers: beside each absolute one the same relative to the workspace.

use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value};

/// The members that are absolute paths, and the names of the relative ones.
const PATHS: [(&str, &str); 2] = [
    ("worktreePath", "worktreePathRelative"),
    ("specsDir", "specsDirRelative"),
];

/// An answer with relative paths beside its absolute ones; `None` where it has no path inside the
/// workspace.
pub(crate) fn with_relative(answer: &impl Serialize, workspace: &Path) -> Option<Value> {
    let text = serde_json::to_string(answer).ok()?;
    if !PATHS.iter().any(|(name, _)| text.contains(name)) {
        return None;
    }
    let mut answer: Value = serde_json::from_str(&text).ok()?;
    add(&mut answer, workspace).then_some(answer)
}

/// Returns whether a path was added.
fn add(value: &mut Value, workspace: &Path) -> bool {
    match value {
        Value::Array(items) => {
            let mut added = false;
            for item in items {
                added |= add(item, workspace);
            }
            added
        }
        Value::Object(members) => {
            let mut added = false;
            let mut completed = Map::new();
            for (name, mut member) in std::mem::take(members) {
                added |= add(&mut member, workspace);
                let relative = PATHS
                    .iter()
                    .find(|(path, _)| *path == name)
                    .and_then(|(_, relative)| Some((*relative, inside(&member, workspace)?)));
                completed.insert(name, member);
                if let Some((name, path)) = relative {
                    completed.insert(name.to_owned(), Value::String(path));
                    added = true;
                }
            }
            *members = completed;
            added
        }
        _ => false,
    }
}

/// A path as it is inside the workspace, with `/` between its parts.
fn inside(path: &Value, workspace: &Path) -> Option<String> {
    let path = Path::new(path.as_str()?).strip_prefix(workspace).ok()?;
    let parts: Option<Vec<&str>> = path.iter().map(|part| part.to_str()).collect();
    parts.map(|parts| parts.join("/"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::with_relative;

    #[test]
    fn paths_inside_the_workspace_are_relative_as_well() {
        let workspace = Path::new("/work/shop");
        let answer = json!({"success": true, "nodes": [
            {"worktreePath": "/work/shop/.git/.orchestra/w", "b": 1.5},
            {"worktreePath": "/work/shop-2/w"},
            {"worktreePath": null},
        ], "specsDir": "/work/shop/.git/.orchestra/plans/p/specs"});
        let found = with_relative(&answer, workspace).expect("it has paths");
        let expected = json!({"success": true, "nodes": [
            {"worktreePath": "/work/shop/.git/.orchestra/w", "worktreePathRelative": ".git/.orchestra/w", "b": 1.5},
            {"worktreePath": "/work/shop-2/w"},
            {"worktreePath": null},
        ], "specsDir": "/work/shop/.git/.orchestra/plans/p/specs", "specsDirRelative": ".git/.orchestra/plans/p/specs"});
        assert_eq!(found.to_string(), expected.to_string());
        assert_eq!(with_relative(&json!({"planId": "p"}), workspace), None);
    }
}
