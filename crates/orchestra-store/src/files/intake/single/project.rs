//! Takes in `project-status.toon`: field by field.

use std::collections::BTreeMap;

use orchestra_board::{Command, Project, View};

use super::{Known, Taken};
use crate::ReadError;
use crate::files::Work;
use crate::files::fields::{Fields, Side, of_project};
use crate::files::intake::Trouble;
use crate::reader::Reader;
use crate::toon::project::Retired;
use crate::toon::{FileError, FileFault};

/// The field with the issues that were deleted.
const DELETED: &str = "deleted";
/// Fields that only the board changes, in mode `repository`.
const OF_THE_BOARD: [&str; 4] = ["counters", "aliases", DELETED, "updated_at"];

pub(super) fn take_in(
    work: &mut dyn Work,
    path: &str,
    (file, file_retired): (&Project, &Retired),
    known: &Known,
) -> Result<Taken, Trouble> {
    let slug = &file.slug;
    let file_fields = of_project(file, file_retired);
    let reader = Reader::new(work.connection());
    let Some((_, board)) = reader.find_project(slug)? else {
        check_key(&reader, path, file)?;
        work.load_project(file, file_retired)?;
        return Ok(Taken {
            base: file_fields,
            both: Vec::new(),
        });
    };
    if file.key != board.key {
        let what = format!(
            "is {} and cannot become {}: all ids of the project begin with it",
            board.key, file.key
        );
        return Err(wrong_key(path, what).into());
    }
    let retired = reader.retired(slug)?;
    let board_fields = of_project(&board, &retired);
    let sides = known.sides(&board_fields, &file_fields);
    let shown = [&known.base.seen, &known.base.announced];
    let is_based = |shown: &Fields| shown.agrees("updated_at", &file_fields);
    let is_based = known.follows || shown.into_iter().flatten().any(is_based);
    let (mut both, mut taken, mut agreed) = (Vec::new(), Vec::new(), sides.agreed());
    let mut deleted = Vec::new();
    for name in sides.names() {
        match sides.of(name) {
            _ if !known.follows && OF_THE_BOARD.contains(&name) => {}
            // It may be an edit, and may be an earlier state of the board.
            Side::File if !is_based => match name {
                "project" | "description" => {
                    both.push(name.to_owned());
                    agreed.disagree(name);
                    continue;
                }
                _ => {}
            },
            // Neither side's are lost: counters only rise, aliases and deleted issues are added to.
            Side::Both if matches!(name, "counters" | "aliases") => taken.push(name),
            Side::Both if name == DELETED => {
                taken.push(name);
                deleted.clone_from(&retired.deleted);
            }
            Side::Both if matches!(name, "project" | "description") => {
                both.push(name.to_owned());
                continue;
            }
            Side::File => taken.push(name),
            Side::Board | Side::Both => {}
        }
        agreed.take(name, &file_fields);
    }
    if taken.contains(&"project") {
        work.command(&Command::RenameProject {
            project: slug.clone(),
            name: file.name.clone(),
        })?;
    }
    let rest: Vec<&str> = taken
        .into_iter()
        .filter(|name| *name != "project")
        .collect();
    if !rest.is_empty() {
        deleted.extend(file_retired.deleted.iter().cloned());
        let told = Retired {
            aliases: file_retired.aliases.clone(),
            deleted,
        };
        put_rest(work, (file, &told), &rest, known.follows)?;
    }
    Ok(Taken { base: agreed, both })
}

/// Refuses a new project with the key of another.
fn check_key(reader: &Reader<'_>, path: &str, file: &Project) -> Result<(), Trouble> {
    if !reader.key_taken(&file.key).map_err(ReadError::from)? {
        return Ok(());
    }
    let what = format!(
        "the key {} is another project's already; give this one another key and its issues other ids",
        file.key
    );
    Err(wrong_key(path, what).into())
}

fn wrong_key(path: &str, what: String) -> FileError {
    FileError {
        file: path.to_owned(),
        line: 0,
        field: "key".to_owned(),
        fault: FileFault::Field(what),
    }
}

/// Sets fields of a project that no command sets. Counters only rise, so that no id comes twice;
/// where git has changed the issues as well, they are set to what the file has at the end.
fn put_rest(
    work: &mut dyn Work,
    (file, told): (&Project, &Retired),
    names: &[&str],
    follows: bool,
) -> Result<(), Trouble> {
    let slug = &file.slug;
    let reader = Reader::new(work.connection());
    let Some((_, mut project)) = reader.find_project(slug)? else {
        return Ok(());
    };
    let mut retired = reader.retired(slug)?;
    for name in names {
        match *name {
            "description" => project.description = file.description.clone(),
            "prd" => project.prd_origin = file.prd_origin,
            "phase_of" => project.phase_of.clone_from(&file.phase_of),
            "created_at" => project.created_at = file.created_at,
            "updated_at" => project.updated_at = file.updated_at,
            "aliases" => {
                let mut aliases: BTreeMap<_, _> = retired.aliases.into_iter().collect();
                aliases.extend(told.aliases.iter().cloned());
                retired.aliases = aliases.into_iter().collect();
            }
            DELETED => retired.deleted.clone_from(&told.deleted),
            _ => {}
        }
    }
    if follows {
        project.next_issue = project.next_issue.max(file.next_issue);
        project.next_bug = project.next_bug.max(file.next_bug);
        project.next_request = project.next_request.max(file.next_request);
    }
    Ok(work.load_project(&project, &retired)?)
}
