//! What is wrong with a plan file, in words of plan files: what readers say of the types of this program
//! is put into those.

/// What is wrong, with the field that it is about.
pub(super) fn at(path: &str, what: &str) -> String {
    let what = what.trim_end();
    // Some say themselves where it is, less exactly.
    let what = match what.split_once(": ") {
        Some((place, rest)) if !place.is_empty() && path.starts_with(place) => rest,
        _ => what,
    };
    let meant = nearest(what).map(|name| format!("; did you mean `{name}`?"));
    let (what, meant) = (in_words(what), meant.unwrap_or_default());
    match path {
        // It ended before there was a field.
        "." | "?" => format!("{what}{meant}"),
        path => format!("{path}: {what}{meant}"),
    }
}

/// What a reader says, as a user would.
pub(super) fn in_words(what: &str) -> String {
    let (said, place) = what.split_at(what.rfind(" at line ").unwrap_or(what.len()));
    let kinds = ["invalid type: ", "invalid value: ", "invalid length "];
    let met = kinds.into_iter().find_map(|kind| said.strip_prefix(kind));
    match met.and_then(|met| met.rsplit_once(", expected ")) {
        Some((met, expected)) => {
            format!("{} is expected, not {}{place}", plain(expected), kind(met))
        }
        None => what.replacen("unknown variant", "unknown value", 1),
    }
}

/// What was expected, where a reader names a type of this program.
fn plain(expected: &str) -> &str {
    match expected {
        "f32" | "f64" => "a number",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        expected => expected,
    }
}

/// What was met instead of what was expected.
fn kind(met: &str) -> String {
    let (kind, value) = met.split_once(' ').unwrap_or((met, ""));
    match kind {
        "unit" | "null" | "Option" => "nothing".to_owned(),
        "map" => "an object".to_owned(),
        "string" => format!("the text {value}"),
        "integer" => format!("the number {value}"),
        "floating" => format!("the number {}", value.trim_start_matches("point ")),
        "boolean" => value.to_owned(),
        // A list, of which else its length is told.
        _ => "a list".to_owned(),
    }
}

/// The name in a message about an unknown one that it is most like: `unknown field `x`, expected one of
/// `a`, `b``. None where it is like none of them.
fn nearest(what: &str) -> Option<&str> {
    /// One letter may differ of so many.
    const FAR: usize = 2;
    /// Longer names are like none.
    const LONG: usize = 64;
    let (_, rest) = what.rsplit_once("unknown field `")?;
    let (unknown, rest) = rest.split_once("`, expected ")?;
    if unknown.len() > LONG {
        return None;
    }
    let known = rest.split('`').skip(1).step_by(2);
    let far = |name: &str| distance(&unknown.to_lowercase(), &name.to_lowercase());
    let near = known.map(|name| (far(name), name)).min()?;
    (near.0 * FAR <= near.1.len()).then_some(near.1)
}

/// How many letters must be put in, left out or replaced to make one word of another.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut costs: Vec<usize> = (0..=other.len()).collect();
    for (row, letter) in one.chars().enumerate() {
        let mut before = row;
        costs[0] = row + 1;
        for (column, with) in other.iter().enumerate() {
            let replaced = before + usize::from(letter != *with);
            before = costs[column + 1];
            costs[column + 1] = replaced.min(before + 1).min(costs[column] + 1);
        }
    }
    costs.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_alike_is_taken_for_what_was_meant() {
        for (what, meant) in [
            (
                "unknown field `dependecies`, expected one of `task`, `dependencies`",
                Some("dependencies"),
            ),
            (
                "unknown field `maxparallel`, expected `maxParallel` or `env`",
                Some("maxParallel"),
            ),
            ("unknown field `zebra`, expected one of `task`, `env`", None),
            ("missing field `task`", None),
        ] {
            assert_eq!(nearest(what), meant, "{what}");
        }
    }
}
