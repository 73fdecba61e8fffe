//! Permission rules: which tools may be called, by patterns over their names.

/// Rules by tool name. A tool is permitted when no `deny` pattern matches it and, if there is any
/// `allow` pattern, one of these does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permission {
    allow: Vec<NamePattern>,
    deny: Vec<NamePattern>,
}

/// A tool name in which `*` stands for any text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern(String);

impl NamePattern {
    /// Takes a pattern; every text is one.
    #[must_use]
    pub fn new(pattern: &str) -> Self {
        Self(pattern.to_owned())
    }

    /// Whether the pattern matches all of `name`.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        // `split` yields at least one part.
        let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
            return false;
        };
        let mut parts: Vec<&str> = parts.collect();
        let Some(last) = parts.pop() else {
            return rest.is_empty();
        };
        for part in parts {
            let Some(at) = rest.find(part) else {
                return false;
            };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last)
    }
}

impl Permission {
    /// Rules from patterns; no rules permit everything.
    #[must_use]
    pub fn new(
        allow: impl IntoIterator<Item = NamePattern>,
        deny: impl IntoIterator<Item = NamePattern>,
    ) -> Self {
        Self {
            allow: allow.into_iter().collect(),
            deny: deny.into_iter().collect(),
        }
    }

    /// Whether the tool may be called.
    #[must_use]
    pub fn permits(&self, tool: &str) -> bool {
        let hit = |patterns: &[NamePattern]| patterns.iter().any(|pattern| pattern.matches(tool));
        !hit(&self.deny) && (self.allow.is_empty() || hit(&self.allow))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_text() {
        for (pattern, name, expected) in [
            ("get_task", "get_task", true),
            ("get_task", "get_tasks", false),
            ("get_*", "get_", true),
            ("*_task", "get_task", true),
            ("*", "", true),
            ("a*b*a", "aba", true),
            ("a*b*a", "ab", false),
            ("a*a", "a", false),
            ("*x*", "yxy", true),
        ] {
            assert_eq!(
                NamePattern::new(pattern).matches(name),
                expected,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn deny_wins_over_allow() {
        let all = Permission::default();
        assert!(all.permits("anything"));
        let rules = Permission::new(
            [NamePattern::new("get_*"), NamePattern::new("delete_task")],
            [NamePattern::new("delete_*")],
        );
        assert!(rules.permits("get_task"));
        assert!(!rules.permits("delete_task"));
        assert!(!rules.permits("create_task"));
    }
}
