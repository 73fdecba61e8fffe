//! What a changed issue file comes to: field by field, the side that changed it holds.

use orchestra_board::Issue;

use super::fields::{Base, Choice, DESCRIPTION, Fields, Side, Sides, of_issue};

/// Fields that follow from others or are of no weight: where both sides changed one, the
/// database's holds.
pub(super) const FOLLOWING: [&str; 6] = [
    "own",
    "claim",
    "cancelled_with",
    "updated_at",
    "created_at",
    "fixes",
];

/// What two versions of an issue come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Merged {
    /// The issue as it is to be.
    pub(crate) issue: Issue,
    /// The fields as they were last agreed on, now.
    pub(crate) base: Fields,
    /// The fields that both sides changed, to different values; the issue has the database's.
    pub(crate) both: Vec<String>,
    /// The fields that are the file's and that no command sets.
    pub(crate) rest: Vec<String>,
}

/// Merges the issue in a file into the one in the database.
pub(crate) fn merge(base: &Base, board: &Issue, file: &Issue, choice: &Choice) -> Merged {
    let (board_fields, file_fields) = (of_issue(board), of_issue(file));
    let sides = Sides {
        base,
        board: &board_fields,
        file: &file_fields,
        choice,
    };
    let mut merged = Merged {
        issue: board.clone(),
        base: sides.agreed(),
        both: Vec::new(),
        rest: Vec::new(),
    };
    for name in sides.names() {
        let following = FOLLOWING.contains(&name) || (name == "status" && !board.kind.is_leaf());
        match sides.of(name) {
            Side::Board => {}
            Side::File => {
                if FOLLOWING.contains(&name) {
                    merged.rest.push(name.to_owned());
                }
                take(&mut merged.issue, name, file);
            }
            Side::Both if following => {}
            Side::Both => {
                merged.both.push(name.to_owned());
                continue;
            }
        }
        merged.base.take(name, &file_fields);
    }
    merged
}

/// Takes a field as the file has it.
pub(crate) fn take(issue: &mut Issue, name: &str, file: &Issue) {
    match name {
        "title" => issue.title = file.title.clone(),
        DESCRIPTION => issue.description = file.description.clone(),
        "type" => issue.kind = file.kind,
        "status" => issue.state = file.state,
        "own" => issue.own = file.own,
        "priority" => issue.priority = file.priority,
        "parent" => issue.parent.clone_from(&file.parent),
        "cancelled_with" => issue.cancelled_with.clone_from(&file.cancelled_with),
        "fixes" => issue.fixes.clone_from(&file.fixes),
        "created_at" => issue.created_at = file.created_at,
        "updated_at" => issue.updated_at = file.updated_at,
        "claim" => issue.claim.clone_from(&file.claim),
        "assignees" => issue.assignees.clone_from(&file.assignees),
        "labels" => issue.labels.clone_from(&file.labels),
        "depends_on" => issue.depends_on.clone_from(&file.depends_on),
        other => unreachable!("`{other}` is no field that an issue's file has"),
    }
}
