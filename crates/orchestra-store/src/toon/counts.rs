//! The counts that lists and tables begin with. A text merge adds rows without changing them, so
//! where they are wrong the rows hold.

/// The text with the count of every list and table as its rows have it; `None` when no count is
/// wrong.
pub(super) fn repaired(text: &str) -> Option<String> {
    let lines: Vec<&str> = text.split('\n').collect();
    let mut repaired = String::with_capacity(text.len() + 8);
    let mut is_wrong = false;
    for (index, line) in lines.iter().enumerate() {
        if index > 0 {
            repaired.push('\n');
        }
        let found = header(line).and_then(|header| {
            let count = match header.inline {
                Some(values) => values_in(values),
                None => rows_below(&lines[index + 1..], header.depth, header.is_table),
            };
            (count != header.count).then_some((header, count))
        });
        match found {
            None => repaired.push_str(line),
            Some((header, count)) => {
                is_wrong = true;
                repaired.push_str(header.before);
                repaired.push_str(&count.to_string());
                repaired.push_str(header.after);
            }
        }
    }
    is_wrong.then_some(repaired)
}

/// A line that a list or table begins with.
struct Header<'a> {
    /// The line up to its count, and from behind it.
    before: &'a str,
    after: &'a str,
    count: usize,
    /// How far its rows are indented.
    depth: usize,
    /// Whether its columns are named, so that each line below is a row.
    is_table: bool,
    /// The values, where they stand on the same line.
    inline: Option<&'a str>,
}

fn header(line: &str) -> Option<Header<'_>> {
    let inner = line.trim_start_matches(' ');
    let own = line.len() - inner.len();
    let (own, name) = match inner.strip_prefix("- ") {
        Some(name) => (own + 2, name),
        None => (own, inner),
    };
    let (key, _) = name.split_once('[')?;
    let is_key = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    if key.is_empty() || !key.bytes().all(is_key) {
        return None;
    }
    let start = line.len() - name.len() + key.len() + 1;
    let digits = line[start..].bytes().take_while(u8::is_ascii_digit).count();
    let (before, after) = (&line[..start], &line[start + digits..]);
    let rest = after.strip_prefix(']')?;
    let is_table = rest.starts_with('{');
    let rest = match is_table {
        true => rest.split_once('}')?.1,
        false => rest,
    };
    let values = rest.strip_prefix(':')?.trim_end_matches('\r');
    Some(Header {
        before,
        after,
        count: line[start..start + digits].parse().ok()?,
        depth: own + 2,
        is_table,
        inline: (!values.trim().is_empty()).then_some(values),
    })
}

/// How many rows stand below a header.
fn rows_below(lines: &[&str], depth: usize, is_table: bool) -> usize {
    let content = |line: &str| line.trim_end_matches('\r').trim_start_matches(' ').len();
    let mut rows = 0;
    for line in lines {
        let bare = line.trim_end_matches('\r');
        let inner = content(line);
        let indent = bare.len() - inner;
        if inner == 0 || indent < depth {
            break;
        }
        let is_item = || bare[indent..].starts_with("- ") || &bare[indent..] == "-";
        if indent == depth && (is_table || is_item()) {
            rows += 1;
        }
    }
    rows
}

/// How many values a line holds, separated by commas outside of quotes.
fn values_in(values: &str) -> usize {
    let (mut count, mut is_quoted, mut is_escaped) = (1, false, false);
    for byte in values.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::repaired;

    #[test]
    fn counts_become_those_of_the_rows() {
        let check = |from: &str, to: Option<&str>| assert_eq!(repaired(from).as_deref(), to);
        check(
            "a[1]{x,y}:\n  1,2\n  3,4\nb: c\n",
            Some("a[2]{x,y}:\n  1,2\n  3,4\nb: c\n"),
        );
        check("a[2]{x,y}:\n  1,2\n  3,4\nb: c\n", None);
        check("a[9]{x}:\nb: c", Some("a[0]{x}:\nb: c"));
        check(
            "a[2]: x,\"y,\\\",z\",w\r\n",
            Some("a[3]: x,\"y,\\\",z\",w\r\n"),
        );
        check(
            "a[2]:\n  - k: v\n    l: w\n",
            Some("a[1]:\n  - k: v\n    l: w\n"),
        );
        check(
            "a[1]:\n  - k[1]{x}:\n      1\n      2\n    l: w\n  - k: v",
            Some("a[2]:\n  - k[2]{x}:\n      1\n      2\n    l: w\n  - k: v"),
        );
        check("title: a[1]: b,c\n\"a[3]\": x\na[x]: b\n", None);
    }
}
