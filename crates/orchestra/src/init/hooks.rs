//! Our hook among the user's in `.claude/settings.json`.

use jsonc_parser::cst::{CstArray, CstNode};
use serde_json::{Value, json};

use super::{
    jsonc::{Document, Refusal, input},
    steps::{Action, Edit},
};
use crate::bundle::HOOK_SCRIPT;

/// The settings file, relative to the workspace.
pub(crate) const SETTINGS: &str = ".claude/settings.json";

/// The events that are recorded.
const EVENTS: [&str; 6] = [
    "PostToolUse",
    "Notification",
    "SubagentStart",
    "SubagentStop",
    "Stop",
    "SessionStart",
];

/// The command. The client sets the variable, so the hook runs wherever the client stands.
fn command() -> String {
    format!("\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/{HOOK_SCRIPT}")
}

/// The commands that are ours: today's, and the earlier program's.
fn is_ours(command: &str) -> bool {
    command == self::command() || command == format!(".claude/hooks/{HOOK_SCRIPT}")
}

/// Registers our hook for every event, beside what the user has there.
///
/// # Errors
/// When the file is not what settings should be.
pub(crate) fn add(text: Option<&str>) -> Result<Edit, Refusal> {
    let document = Document::parse(text)?;
    let hooks = document.top().object_or_new("hooks")?;
    let mut changed = false;
    for event in EVENTS {
        let group = json!({
            "matcher": "",
            "hooks": [{"type": "command", "command": command(), "async": true}],
        });
        match hooks.array(event)? {
            None => {
                hooks.set(event, &Value::Array(vec![group]))?;
                changed = true;
            }
            Some(groups) => {
                let found = our_hooks(&groups, event)?;
                if found.is_empty() {
                    groups.append(input(&group));
                    changed = true;
                }
                for hook in found {
                    changed |= modernise(&hook);
                }
            }
        }
    }
    let action = if changed {
        Action::written(text.is_some())
    } else {
        Action::Unchanged
    };
    Ok(Edit::done(action).with_text(document.text()?))
}

/// Takes our hook out again.
///
/// # Errors
/// When the file is not what settings should be.
pub(crate) fn remove(text: &str) -> Result<Edit, Refusal> {
    let document = Document::parse(Some(text))?;
    let top = document.top();
    let Some(hooks) = top.object("hooks")? else {
        return Ok(Edit::done(Action::Unchanged));
    };
    let mut changed = false;
    for event in EVENTS {
        let Some(groups) = hooks.array(event)? else {
            continue;
        };
        for hook in our_hooks(&groups, event)? {
            let group = hook
                .parent()
                .and_then(|list| list.parent())
                .and_then(|key| key.parent());
            let alone = hook
                .parent()
                .and_then(|list| list.as_array())
                .is_some_and(|list| list.elements().len() == 1);
            match group {
                Some(group) if alone => group.remove(),
                _ => hook.remove(),
            }
            changed = true;
        }
        if changed && groups.elements().is_empty() {
            hooks.remove(event)?;
        }
    }
    if !changed {
        return Ok(Edit::done(Action::Unchanged));
    }
    if hooks.is_empty() {
        top.remove("hooks")?;
    }
    Ok(Edit::done(Action::Updated).with_text(document.text()?))
}

/// Our hooks among the groups of one event. What has another form is an error: it may be ours.
fn our_hooks(groups: &CstArray, event: &str) -> Result<Vec<CstNode>, Refusal> {
    let wrong = |what: &str| Refusal(format!("`hooks.{event}` holds {what}"));
    let mut found = Vec::new();
    for group in groups.elements() {
        let group = group
            .as_object()
            .ok_or_else(|| wrong("something that is not an object"))?;
        let Some(list) = group.get("hooks") else {
            continue;
        };
        let list = list
            .array_value()
            .ok_or_else(|| wrong("a `hooks` that is not an array"))?;
        for hook in list.elements() {
            let value = hook.to_serde_value().unwrap_or_default();
            if value["command"].as_str().is_some_and(is_ours) {
                found.push(hook);
            }
        }
    }
    Ok(found)
}

/// Gives our hook today's command; whether that changed anything.
fn modernise(hook: &CstNode) -> bool {
    let Some(property) = hook.as_object().and_then(|hook| hook.get("command")) else {
        return false;
    };
    let today = Value::from(command());
    if property.to_serde_value().as_ref() == Some(&today) {
        return false;
    }
    property.set_value(input(&today));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(edit: &Edit) -> Value {
        Document::parse(edit.text.as_deref())
            .unwrap()
            .top()
            .value("hooks")
            .unwrap()
            .unwrap()
    }

    #[test]
    fn every_event_is_registered_once_beside_the_users_own() {
        let users = r#"{
  // mine
  "hooks": {
    "Stop": [{"hooks": [{"type": "command", "command": "say done"}]}],
    "PreToolUse": []
  }
}"#;
        let first = add(Some(users)).unwrap();
        assert_eq!(first.action, Action::Updated);
        let hooks = value(&first);
        for event in EVENTS {
            let groups = hooks[event].as_array().unwrap();
            assert_eq!(groups.len(), if event == "Stop" { 2 } else { 1 }, "{event}");
        }
        let text = first.text.unwrap();
        assert!(text.contains("// mine") && text.contains("say done"));
        let second = add(Some(&text)).unwrap();
        assert_eq!(
            (second.action, second.text),
            (Action::Unchanged, Some(text.clone()))
        );

        let removed = remove(&text).unwrap();
        let left = value(&removed);
        assert_eq!(left["Stop"][0]["hooks"][0]["command"], "say done");
        assert_eq!(left.as_object().unwrap().len(), 2, "{left}");
    }

    #[test]
    fn the_earlier_programs_hook_is_taken_over() {
        let text = r#"{"hooks": {"Stop": [{"matcher": "", "hooks": [{"type": "command",
            "command": ".claude/hooks/orchestra-mcp-hook.sh", "async": true}]}]}}"#;
        let edit = add(Some(text)).unwrap();
        let stop = &value(&edit)["Stop"];
        assert_eq!(stop.as_array().unwrap().len(), 1);
        assert_eq!(stop[0]["hooks"][0]["command"], command());
    }

    #[test]
    fn strange_settings_are_refused() {
        for text in [
            "null",
            "[]",
            r#"{"hooks": []}"#,
            r#"{"hooks": null}"#,
            r#"{"hooks": {"Stop": {}}}"#,
            r#"{"hooks": {"Stop": [1]}}"#,
            r#"{"hooks": {"Stop": [{"hooks": 1}]}}"#,
        ] {
            assert!(add(Some(text)).is_err(), "{text}");
            assert!(
                remove(text).is_err() || text.contains("\"hooks\": {}"),
                "{text}"
            );
        }
    }
}
