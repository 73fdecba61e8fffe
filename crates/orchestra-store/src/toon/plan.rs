//! `.plans/{name}.md`: a saved plan, a text behind a few fields in front.

use orchestra_board::{Body, IssueId, PlanId, Slug, Timestamp, Title};

use super::document::{check_merge_marks, line_number};
use super::{FileError, FileFault};
use crate::PlanRecord;

/// The shortest front of a plan's file.
const FRONT: &str = "the lines `---`, `title: A title`, `created: 2026-01-31T12:00:00Z`, `---`";

/// The text of a plan's file.
pub(crate) fn write(plan: &PlanRecord, content: &str) -> String {
    let mut text = String::from("---\n");
    let mut field = |key: &str, value: &str| {
        text.push_str(key);
        text.push_str(": ");
        // What TOON would quote is what YAML's readers would stumble over.
        if toon_format::needs_quoting(value, ',')
            || value.starts_with(['\'', '&', '*', '!', '|', '>', '%', '@', '`', '?'])
        {
            text.push('"');
            text.push_str(&toon_format::escape_string(value));
            text.push('"');
        } else {
            text.push_str(value);
        }
        text.push('\n');
    };
    field("title", plan.title.as_str());
    field("created", &plan.created_at.to_string());
    if let Some(updated_at) = plan.updated_at {
        field("updated", &updated_at.to_string());
    }
    if let Some(issue) = &plan.issue {
        field("issue_id", &issue.to_string());
    }
    text.push_str("---\n\n");
    text.push_str(content);
    if !content.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// Reads a plan's file.
pub(crate) fn read(
    file: &str,
    text: &str,
    project: &Slug,
    id: &PlanId,
) -> Result<(PlanRecord, Body), FileError> {
    check_merge_marks(file, text)?;
    let error = |line: usize, field: &str, what: String| FileError {
        file: file.to_owned(),
        line: line_number(line),
        field: field.to_owned(),
        fault: FileFault::Field(what),
    };
    let front = || {
        error(
            1,
            "",
            format!("must begin with {FRONT}; add these lines, or move the file out of .plans"),
        )
    };
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    let mut lines = text.split_inclusive('\n').enumerate();
    let mut read_to = lines
        .next()
        .filter(|(_, line)| line.trim_end() == "---")
        .ok_or_else(front)?
        .1
        .len();
    let (mut title, mut created, mut updated, mut issue) = (None, None, None, None);
    let mut ended = false;
    for (index, line) in lines {
        read_to += line.len();
        let line = line.trim_end();
        if line == "---" {
            ended = true;
            break;
        }
        let wrong = |what: &str| error(index + 1, "", what.to_owned());
        let (key, value) = line
            .split_once(':')
            .ok_or_else(|| wrong("must be `name: value`"))?;
        let value = unquoted(value.trim()).map_err(|what| error(index + 1, key, what))?;
        let parsed = match key {
            "title" => Title::parse(&value)
                .map(|value| title = Some(value))
                .map_err(|error| error.to_string()),
            "created" => Timestamp::parse(&value)
                .map(|value| created = Some(value))
                .map_err(|error| error.to_string()),
            "updated" => Timestamp::parse(&value)
                .map(|value| updated = Some(value))
                .map_err(|error| error.to_string()),
            "issue_id" => IssueId::parse(&value)
                .map(|value| issue = Some(value))
                .map_err(|error| error.to_string()),
            _ => Err("is not a field of a plan; remove it".to_owned()),
        };
        parsed.map_err(|what| error(index + 1, key, what))?;
    }
    if !ended {
        return Err(front());
    }
    let rest = &text[read_to..];
    let rest = rest
        .strip_prefix("\r\n")
        .or_else(|| rest.strip_prefix('\n'))
        .unwrap_or(rest);
    let content = Body::parse(rest).map_err(|what| error(0, "", what.to_string()))?;
    let plan = PlanRecord {
        project: project.clone(),
        id: id.clone(),
        title: title.ok_or_else(|| error(1, "title", "is missing".to_owned()))?,
        issue,
        created_at: created.ok_or_else(|| error(1, "created", "is missing".to_owned()))?,
        updated_at: updated,
    };
    Ok((plan, content))
}

fn unquoted(value: &str) -> Result<String, String> {
    match value.strip_prefix('"') {
        None => Ok(value.to_owned()),
        Some(rest) => {
            let inner = rest.strip_suffix('"').ok_or("has no closing quote")?;
            toon_format::unescape_string(inner).map_err(|error| error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use orchestra_board::{IssueId, PlanId, Slug, Timestamp, Title};
    use proptest::prelude::*;

    use super::{read, write};
    use crate::PlanRecord;

    proptest! {
        #[test]
        fn plans_are_read_back(title in "\\PC{1,20}", content in "[a-z \\n#-]{0,60}") {
            let Ok(title) = Title::parse(&title) else { return Ok(()) };
            let content = orchestra_board::Body::parse(&content).expect("a body");
            let plan = PlanRecord {
                project: Slug::parse("p").expect("a slug"),
                id: PlanId::parse("q").expect("a name"),
                title,
                issue: Some(IssueId::parse("P-1").expect("an id")),
                created_at: Timestamp::from_unix_seconds(1),
                updated_at: None,
            };
            let text = write(&plan, content.as_str());
            prop_assert_eq!(read("f", &text, &plan.project, &plan.id).expect("reads"), (plan, content));
        }
    }

    #[test]
    fn errors_name_the_line() {
        let (project, id) = (
            Slug::parse("p").expect("a slug"),
            PlanId::parse("q").expect("a name"),
        );
        let check = |text: &str, shown: &str| {
            assert_eq!(
                read("f", text, &project, &id).expect_err(text).to_string(),
                shown
            );
        };
        check(
            "hello",
            "f:1: must begin with the lines `---`, `title: A title`, `created: 2026-01-31T12:00:00Z`, `---`; \
             add these lines, or move the file out of .plans",
        );
        check(
            "---\ntitle: x\nfoo: y\n---\n",
            "f:3: foo: is not a field of a plan; remove it",
        );
        check("---\ntitle: x\n---\n", "f:1: created: is missing");
    }
}
