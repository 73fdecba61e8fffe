//! Tables of a SQLite database that may come from an archive or a clone. SQLite evaluates the CHECK constraints,
//! generated columns and default values of a table when a program reads or writes rows, and an expression can take
//! any time.

/// Words of the expressions and conflict rules that a table can have.
const REFUSED: [&str; 6] = [
    "AS",
    "CHECK",
    "COLLATE",
    "CONFLICT",
    "GENERATED",
    "REFERENCES",
];

/// Deepest nesting of parentheses: the columns, and those of a key. An argument of a function is deeper.
const MAX_DEPTH: usize = 2;

/// Constraint of the tables of the project that have exactly one row.
const ONE_ROW: [Token<'static>; 6] = [
    Token::Word("CHECK"),
    Token::Sign('('),
    Token::Word("id"),
    Token::Sign('='),
    Token::Word("1"),
    Token::Sign(')'),
];

/// Returns whether a statement creates a table without expressions: its default values are literals, and its only
/// constraints are keys, `NOT NULL`, `UNIQUE` and `CHECK (id = 1)`.
///
/// The statement is the one in `sqlite_schema`.
#[must_use]
pub fn is_plain_table(sql: &str) -> bool {
    let Some(tokens) = tokens(sql) else {
        return false;
    };
    let is_table = matches!(tokens[..], [Token::Word(create), Token::Word(table), ..]
        if create.eq_ignore_ascii_case("CREATE") && table.eq_ignore_ascii_case("TABLE"));
    let mut rest = &tokens[..];
    let mut depth = 0_usize;
    while let [token, behind @ ..] = rest {
        if let Some(behind) = rest.strip_prefix(&ONE_ROW) {
            rest = behind;
            continue;
        }
        match token {
            Token::Sign('(') => depth += 1,
            Token::Sign(')') => depth = depth.saturating_sub(1),
            Token::Sign(',') | Token::Quoted => {}
            // The sign of a number.
            Token::Sign('+' | '-' | '.') => {}
            Token::Sign(_) => return false,
            Token::Word(word) => {
                if REFUSED
                    .iter()
                    .any(|refused| word.eq_ignore_ascii_case(refused))
                {
                    return false;
                }
                let is_default = word.eq_ignore_ascii_case("DEFAULT");
                if is_default && behind.first() == Some(&Token::Sign('(')) {
                    return false;
                }
            }
        }
        if depth > MAX_DEPTH {
            return false;
        }
        rest = behind;
    }
    is_table
}

/// Part of a statement, as SQLite separates them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    /// A keyword, a name or a number.
    Word(&'a str),
    /// A string, or a name in quotes, which is no keyword.
    Quoted,
    /// Any other character.
    Sign(char),
}

/// Separates a statement; `None` where a quote is not closed.
fn tokens(sql: &str) -> Option<Vec<Token<'_>>> {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$') || !c.is_ascii();
    let mut tokens = Vec::new();
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let length = if first.is_ascii_whitespace() {
            1
        } else if rest.starts_with("--") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.find("*/")? + 4
        } else if let '\'' | '"' | '`' | '[' = first {
            // A doubled quote inside is two names here, which is no difference.
            let end = if first == '[' { ']' } else { first };
            tokens.push(Token::Quoted);
            rest[1..].find(end)? + 2
        } else if is_of_word(first) {
            let end = rest.find(|c: char| !is_of_word(c)).unwrap_or(rest.len());
            tokens.push(Token::Word(&rest[..end]));
            end
        } else {
            tokens.push(Token::Sign(first));
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    Some(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_keys_and_literals_are_plain() {
        for sql in [
            "CREATE TABLE a (id INTEGER PRIMARY KEY CHECK (id = 1), b TEXT NOT NULL DEFAULT -1.5)",
            "CREATE TABLE \"a\" (\"check\" BLOB, `as` TEXT DEFAULT 'x (''y'')', PRIMARY KEY (b, c)) WITHOUT ROWID",
            "CREATE TABLE 'a_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID",
            "CREATE TABLE a (-- GENERATED\n b VARCHAR(10) /* CHECK (f(x)) */ UNIQUE, c INTEGER DEFAULT 0)",
        ] {
            assert!(is_plain_table(sql), "{sql}");
        }
    }

    #[test]
    fn tables_with_expressions_are_not_plain() {
        for sql in [
            "CREATE TABLE a (b, c AS (b))",
            "CREATE TABLE a (b, c generated/**/always/**/as(hex(b))stored)",
            "CREATE TABLE a (b CHECK (id = 2))",
            "CREATE TABLE a (b CHECK (id = 1 OR b GLOB '*a*'))",
            "CREATE TABLE a (b cHeCk(b))",
            "CREATE TABLE a (b 'x''' CHECK(b), c '')",
            "CREATE TABLE a (b DEFAULT (random()))",
            "CREATE TABLE a (b DEFAULT -- \n (1))",
            "CREATE TABLE a (b UNIQUE ON CONFLICT REPLACE)",
            "CREATE TABLE a (b COLLATE nocase)",
            "CREATE TABLE a (b REFERENCES c)",
            "CREATE TABLE a (b, UNIQUE (f(b)))",
            "CREATE TABLE a (b /* open",
            "CREATE TABLE a (b 'open",
            "CREATE VIRTUAL TABLE a USING fts5 (b)",
            "CREATE VIEW a AS SELECT 1",
        ] {
            assert!(!is_plain_table(sql), "{sql}");
        }
    }
}
