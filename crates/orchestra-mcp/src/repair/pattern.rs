//! Patterns of schemas, as JavaScript compiles them with the flag `u`. A pattern that may not be
//! one there is left out of a schema: without it the schema permits more.

use std::{iter::Peekable, str::Chars};

/// Returns whether JavaScript compiles a pattern. Rare forms count as ones that it does not.
pub(super) fn compiles(pattern: &str) -> bool {
    let mut reader = Reader {
        chars: pattern.chars().peekable(),
        groups: 0,
        names: Vec::new(),
        largest_reference: 0,
        named_references: Vec::new(),
    };
    reader.alternatives(0).is_some()
        && reader.chars.next().is_none()
        && reader.largest_reference <= reader.groups
        && reader
            .named_references
            .iter()
            .all(|name| reader.names.contains(name))
}

/// Deepest nesting of groups that is read.
const MAX_DEPTH: usize = 64;

struct Reader<'p> {
    chars: Peekable<Chars<'p>>,
    groups: u32,
    names: Vec<String>,
    largest_reference: u32,
    named_references: Vec<String>,
}

/// Result of reading an escape.
enum Escape {
    Character(char),
    /// Several characters, such as `\d`.
    Class,
    /// A position, such as `\b`.
    Assertion,
}

impl Reader<'_> {
    /// Reads up to the end of a group or of the pattern; `None` for what does not compile.
    fn alternatives(&mut self, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut repeats = false;
        while let Some(next) = self.chars.peek().copied() {
            if next == ')' {
                return Some(());
            }
            self.chars.next();
            repeats = match next {
                '|' | '^' | '$' => false,
                '*' | '+' | '?' | '{' => {
                    if !repeats || (next == '{' && !self.bounds()) {
                        return None;
                    }
                    self.chars.next_if_eq(&'?');
                    false
                }
                '}' | ']' => return None,
                '(' => self.group(depth)?,
                '[' => {
                    self.class()?;
                    true
                }
                '\\' => !matches!(self.escape(false)?, Escape::Assertion),
                _ => true,
            };
        }
        Some(())
    }

    /// Reads a group behind its parenthesis; returns whether it can be repeated.
    fn group(&mut self, depth: usize) -> Option<bool> {
        let mut repeats = true;
        match self.chars.next_if_eq(&'?') {
            None => self.groups += 1,
            Some(_) => match self.chars.next()? {
                ':' => {}
                '=' | '!' => repeats = false,
                '<' if self
                    .chars
                    .next_if(|next| matches!(next, '=' | '!'))
                    .is_some() =>
                {
                    repeats = false;
                }
                '<' => {
                    let name = self.name()?;
                    if self.names.contains(&name) {
                        return None;
                    }
                    self.groups += 1;
                    self.names.push(name);
                }
                _ => return None,
            },
        }
        self.alternatives(depth + 1)?;
        (self.chars.next()? == ')').then_some(repeats)
    }

    fn name(&mut self) -> Option<String> {
        let mut name = String::new();
        loop {
            match self.chars.next()? {
                '>' => break,
                next if next.is_ascii_alphabetic() || next == '_' => name.push(next),
                next if next.is_ascii_digit() && !name.is_empty() => name.push(next),
                _ => return None,
            }
        }
        (!name.is_empty()).then_some(name)
    }

    /// Reads `n}`, `n,}` or `n,m}`.
    fn bounds(&mut self) -> bool {
        let least = self.digits();
        let most = match self.chars.next_if_eq(&',') {
            None => least,
            Some(_) if self.chars.peek() == Some(&'}') => Some(u64::MAX),
            Some(_) => self.digits(),
        };
        let is_closed = self.chars.next() == Some('}');
        is_closed && least.zip(most).is_some_and(|(least, most)| least <= most)
    }

    fn digits(&mut self) -> Option<u64> {
        let mut text = String::new();
        while let Some(digit) = self.chars.next_if(char::is_ascii_digit) {
            text.push(digit);
        }
        text.parse().ok()
    }

    /// Reads a character class behind its bracket.
    fn class(&mut self) -> Option<()> {
        self.chars.next_if_eq(&'^');
        loop {
            let first = match self.chars.next()? {
                ']' => return Some(()),
                '\\' => self.escape(true)?,
                first => Escape::Character(first),
            };
            if self.chars.next_if_eq(&'-').is_none() {
                continue;
            }
            let last = match self.chars.next()? {
                // A hyphen at the end is one.
                ']' => return Some(()),
                '\\' => self.escape(true)?,
                last => Escape::Character(last),
            };
            match (first, last) {
                (Escape::Character(first), Escape::Character(last)) if first <= last => {}
                _ => return None,
            }
        }
    }

    /// Reads an escape behind its backslash.
    fn escape(&mut self, in_class: bool) -> Option<Escape> {
        Some(match self.chars.next()? {
            'd' | 'D' | 'w' | 'W' | 's' | 'S' => Escape::Class,
            'b' if in_class => Escape::Character('\u{8}'),
            'b' | 'B' if !in_class => Escape::Assertion,
            '-' if in_class => Escape::Character('-'),
            't' => Escape::Character('\t'),
            'n' => Escape::Character('\n'),
            'r' => Escape::Character('\r'),
            'v' => Escape::Character('\u{b}'),
            'f' => Escape::Character('\u{c}'),
            '0' if !self.chars.peek().is_some_and(char::is_ascii_digit) => Escape::Character('\0'),
            'c' => {
                let letter = self.chars.next_if(char::is_ascii_alphabetic)?;
                Escape::Character(char::from_u32(u32::from(letter) % 32)?)
            }
            'x' => self.code(2)?,
            'u' if self.chars.next_if_eq(&'{').is_some() => {
                let mut code = String::new();
                while let Some(digit) = self.chars.next_if(char::is_ascii_hexdigit) {
                    code.push(digit);
                }
                self.chars.next_if_eq(&'}')?;
                Escape::Character(char::from_u32(u32::from_str_radix(&code, 16).ok()?)?)
            }
            'u' => self.code(4)?,
            'p' | 'P' => self.property()?,
            'k' if !in_class => {
                self.chars.next_if_eq(&'<')?;
                let name = self.name()?;
                self.named_references.push(name);
                Escape::Class
            }
            first @ '1'..='9' if !in_class => {
                let rest = self.digits().map(|rest| rest.to_string());
                let number = format!("{first}{}", rest.unwrap_or_default());
                self.largest_reference = self.largest_reference.max(number.parse().ok()?);
                Escape::Class
            }
            next if "^$\\.*+?()[]{}|/".contains(next) => Escape::Character(next),
            _ => return None,
        })
    }

    fn code(&mut self, digits: usize) -> Option<Escape> {
        let mut code = String::new();
        for _ in 0..digits {
            code.push(self.chars.next_if(char::is_ascii_hexdigit)?);
        }
        Some(Escape::Character(char::from_u32(
            u32::from_str_radix(&code, 16).ok()?,
        )?))
    }

    /// Reads a general category such as `{L}` or `{Lu}`, or a common property or script.
    fn property(&mut self) -> Option<Escape> {
        const CATEGORIES: &str = " L Lu Ll Lt LC Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S \
             Sm Sc Sk So Z Zs Zl Zp C Cc Cf Cs Co Cn Letter Number Punctuation Symbol Separator \
             Alphabetic Uppercase Lowercase White_Space ASCII Any Emoji Script=Latin Script=Greek \
             Script=Cyrillic Script=Han Script=Hiragana Script=Katakana ";
        self.chars.next_if_eq(&'{')?;
        let mut name = String::new();
        loop {
            match self.chars.next()? {
                '}' => break,
                next if next.is_ascii_alphabetic() || matches!(next, '_' | '=') => name.push(next),
                _ => return None,
            }
        }
        let is_known = CATEGORIES
            .split_ascii_whitespace()
            .any(|known| known == name);
        is_known.then_some(Escape::Class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checked against `new RegExp(pattern, "u")` of Node.js.
    #[test]
    fn patterns_compile_as_in_javascript() {
        for pattern in [
            "",
            "^[a-z0-9_-]+$",
            "^\\d{4}-\\d{2}$",
            "^(?<year>\\d+)\\k<year>(?:a|b)*?$",
            "[^\\]\\-]",
            "\\p{L}\\u{1F600}\\x41\\u0041",
            "(a)\\1",
            "(?<=a)b(?!c)",
            "[a-]",
            "a{2,}b{1,3}",
        ] {
            assert!(compiles(pattern), "{pattern}");
        }
        for pattern in [
            "(", ")", "[", "a**", "*a", "a{2,1}", "{", "]", "\\-", "\\_", "[\\w-.]", "[z-a]",
            "(?P<a>x)", "(?i)a", "\\1", "\\k<a>", "(?=a)*", "\\", "\\u12", "a{", "\\pL",
        ] {
            assert!(!compiles(pattern), "{pattern}");
        }
    }
}
