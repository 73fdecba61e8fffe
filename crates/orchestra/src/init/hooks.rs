//! Our hook among the user's in `.claude/settings.json`.

use std::path::Path;

use jsonc_parser::cst::{CstArray, CstNode};
use serde_json::{Value, json};

use super::{
    jsonc::{Document, Refusal, input},
    manifest::Manifest,
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

/// Why a hook was not taken out.
const STILL_THERE: &str =
    "a hook that runs Orchestra's script was edited, or was not created by Orchestra";

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
pub(crate) fn add(text: Option<&str>, manifest: &mut Manifest) -> Result<Edit, Refusal> {
    let document = Document::parse(text)?;
    let hooks = document.top().object_or_new("hooks")?;
    let mut changed = false;
    for event in EVENTS {
        let group = group();
        match hooks.array(event)? {
            None => {
                manifest.add_value(Path::new(SETTINGS), event, &group);
                hooks.set(event, &Value::Array(vec![group]))?;
                changed = true;
            }
            Some(groups) => {
                let found = our_hooks(&groups, event)?;
                if found.is_empty() {
                    manifest.add_value(Path::new(SETTINGS), event, &group);
                    groups.append(input(&group));
                    changed = true;
                }
                for hook in found.into_iter().filter(modernise) {
                    changed = true;
                    // The earlier program wrote it, and nobody edited it.
                    if group_of(&hook).and_then(|found| found.to_serde_value())
                        == Some(group.clone())
                    {
                        manifest.add_value(Path::new(SETTINGS), event, &group);
                    }
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

/// Takes our hook out again, except where it was edited or was there before.
///
/// # Errors
/// When the file is not what settings should be.
pub(crate) fn remove(text: &str, manifest: &mut Manifest) -> Result<Edit, Refusal> {
    let document = Document::parse(Some(text))?;
    let top = document.top();
    let Some(hooks) = top.object("hooks")? else {
        return Ok(Edit::done(Action::Unchanged));
    };
    let (mut changed, mut kept) = (false, false);
    for event in EVENTS {
        let Some(groups) = hooks.array(event)? else {
            continue;
        };
        for hook in our_hooks(&groups, event)? {
            let group = group_of(&hook).filter(|group| {
                let value = group.to_serde_value().unwrap_or_default();
                manifest.has_value(Path::new(SETTINGS), event, &value)
            });
            match group {
                Some(group) => group.remove(),
                None => kept = true,
            }
            changed |= !kept;
        }
        manifest.forget_value(Path::new(SETTINGS), event);
        if groups.elements().is_empty() {
            hooks.remove(event)?;
        }
    }
    if hooks.is_empty() {
        top.remove("hooks")?;
    }
    let edit = match (changed, kept) {
        (_, true) => Edit::because(Action::Kept, STILL_THERE),
        (true, false) => Edit::done(Action::Updated),
        (false, false) => return Ok(Edit::done(Action::Unchanged)),
    };
    Ok(edit.with_text(document.text()?))
}

/// Our group of hooks for an event.
fn group() -> Value {
    json!({
        "matcher": "",
        "hooks": [{"type": "command", "command": command(), "async": true}],
    })
}

/// The group that a hook is in.
fn group_of(hook: &CstNode) -> Option<CstNode> {
    let list = hook.parent()?;
    list.parent()?.parent().map(CstNode::Container)
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
        let mut manifest = Manifest::default();
        let first = add(Some(users), &mut manifest).unwrap();
        assert_eq!(first.action, Action::Updated);
        let hooks = value(&first);
        for event in EVENTS {
            let groups = hooks[event].as_array().unwrap();
            assert_eq!(groups.len(), if event == "Stop" { 2 } else { 1 }, "{event}");
        }
        let text = first.text.unwrap();
        assert!(text.contains("// mine") && text.contains("say done"));
        let second = add(Some(&text), &mut manifest).unwrap();
        assert_eq!(
            (second.action, second.text),
            (Action::Unchanged, Some(text.clone()))
        );

        let removed = remove(&text, &mut manifest).unwrap();
        assert_eq!(removed.action, Action::Updated);
        let left = value(&removed);
        assert_eq!(left["Stop"][0]["hooks"][0]["command"], "say done");
        assert_eq!(left.as_object().unwrap().len(), 2, "{left}");
    }

    #[test]
    fn the_earlier_programs_hook_is_taken_over() {
        let text = r#"{"hooks": {"Stop": [{"matcher": "", "hooks": [{"type": "command",
            "command": ".claude/hooks/orchestra-mcp-hook.sh", "async": true}]}]}}"#;
        let mut manifest = Manifest::default();
        let edit = add(Some(text), &mut manifest).unwrap();
        let stop = &value(&edit)["Stop"];
        assert_eq!(stop.as_array().unwrap().len(), 1);
        assert_eq!(stop[0]["hooks"][0]["command"], command());
        let removed = remove(&edit.text.unwrap(), &mut manifest).unwrap();
        assert_eq!(removed.text.as_deref(), Some("{}"));
    }

    #[test]
    fn what_somebody_edited_or_wrote_before_is_not_taken_out() {
        let mut manifest = Manifest::default();
        let text = add(None, &mut manifest).unwrap().text.unwrap();
        let mut edited: Value = serde_json::from_str(&text).unwrap();
        edited["hooks"]["Stop"][0]["matcher"] = json!("mine");
        edited["hooks"]["Notification"][0]["hooks"][0]["timeout"] = json!(5);
        let kept = remove(&edited.to_string(), &mut manifest).unwrap();
        assert_eq!(kept.action, Action::Kept);
        let left = value(&kept);
        assert_eq!(left["Stop"], edited["hooks"]["Stop"]);
        assert_eq!(left["Notification"], edited["hooks"]["Notification"]);
        assert_eq!(left.as_object().unwrap().len(), 2, "{left}");

        let mut manifest = Manifest::default();
        let before = add(None, &mut Manifest::default()).unwrap().text.unwrap();
        let again = add(Some(&before), &mut manifest).unwrap();
        assert_eq!(again.action, Action::Unchanged);
        let kept = remove(&before, &mut manifest).unwrap();
        assert_eq!((kept.action, kept.text), (Action::Kept, Some(before)));
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
            let mut manifest = Manifest::default();
            assert!(add(Some(text), &mut manifest).is_err(), "{text}");
            assert!(
                remove(text, &mut manifest).is_err() || text.contains("\"hooks\": {}"),
                "{text}"
            );
        }
    }
}
