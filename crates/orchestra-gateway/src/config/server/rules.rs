//! Rules over calls, out of the object of a server.

use super::super::{Effect, Rule, fields::Fields, node::Value};

/// More rules than anybody writes.
const MAX_RULES: usize = 1_000;

const EFFECTS: [(&str, Effect); 3] = [
    ("allow", Effect::Allow),
    ("deny", Effect::Deny),
    ("ask", Effect::Ask),
];

/// What becomes of calls that no rule is about; also stands beside servers.
pub(in crate::config) fn default(fields: &mut Fields<'_>) -> Option<Effect> {
    fields.choice(&["default"], &EFFECTS)
}

/// `[{ "effect": "deny", "tool": "delete_*", "arguments": { "path": "/etc/*" } }]`.
pub(super) fn read(fields: &mut Fields<'_>) -> Vec<Rule> {
    let Some(member) = fields.take(&["rules"]) else {
        return Vec::new();
    };
    let Value::List(items) = &member.node.value else {
        fields.wrong(member, "must be a list of objects with `effect` and `tool`");
        return Vec::new();
    };
    if items.len() > MAX_RULES {
        fields.wrong(member, format!("there are more than {MAX_RULES}"));
        return Vec::new();
    }
    let path = fields.path_of(member);
    let mut rules = Vec::with_capacity(items.len());
    for (place, item) in items.iter().enumerate() {
        let name = format!("rules[{place}]");
        let Some(mut inner) = Fields::of(item, &path.index(place), fields.report()) else {
            fields.fail(format!("{name}: must be an object"));
            continue;
        };
        let effect = inner.choice(&["effect"], &EFFECTS);
        let tool = inner.text(&["tool"]);
        let arguments = inner.pairs(&["arguments"]).unwrap_or_default();
        match effect {
            Some(effect) => rules.push(Rule {
                effect,
                tool: tool.unwrap_or_else(|| "*".into()),
                arguments,
            }),
            None => inner.missing("needs `effect`: allow, deny or ask"),
        }
        // A rule that cannot be read must not be left out: the server is.
        let ended = inner.end();
        fields.fail_within(&name, ended);
    }
    rules
}
