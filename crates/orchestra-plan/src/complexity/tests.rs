//! Tests of scores and of the advice that comes of them.

use super::{Advice, Complexity};
use crate::work::WorkSpec;

fn score(instructions: &str, dependencies: usize) -> u32 {
    let work = WorkSpec::parse(&format!("@agent {instructions}")).unwrap();
    Complexity::of_work(&work, "", dependencies).unwrap().get()
}

#[test]
fn only_agents_are_asked_much() {
    let shell = WorkSpec::parse("make tests of the tls handshake protocol").unwrap();
    assert_eq!(Complexity::of_work(&shell, "", 100), None);
}

#[test]
fn each_kind_of_sign_counts() {
    let check = |text: &str, expected: u32| assert_eq!(score(text, 0), expected, "{text}");
    check("fix the typo", 0);
    check("change `src/main.rs` and src/main.rs, then README.md.", 10);
    check("see 1.5 or e.g. https://example.com/a.html", 0);
    check("write tests, test it, unit tests", 12);
    check("about 300-400 lines of code", 32);
    check("~150 LOC", 12);
    check("an encrypted TLS handshake with a state machine", 32);
    assert_eq!(score("x", 5), 15);
}

#[test]
fn no_kind_of_sign_decides_alone() {
    let files: String = (0..1_000).map(|n| format!("src/file{n}.rs ")).collect();
    assert!(Complexity(score(&files, 0)).advice().is_none());
    let lines = "write 999999999999999999999 lines, 1000000 lines, 1000000 lines";
    assert!(Complexity(score(lines, 0)).advice().is_none());
    assert!(Complexity(score("x", 1_000_000)).advice().is_none());
}

#[test]
fn much_is_told() {
    let much = "Write the TLS protocol parser: src/tls.rs, src/parser.rs, src/codec.rs, with tests \
        and a state machine in 500 lines";
    let advice = Complexity(score(much, 3)).advice().unwrap();
    assert!(matches!(advice, Advice::Watch(_)), "{advice}");
    let more =
        format!("{much}; encrypt it, a handshake, test vectors, 1000 lines, a.rs bb.rs cc.rs");
    let advice = Complexity(score(&more, 3)).advice().unwrap();
    assert!(advice.to_string().contains("please decompose"), "{advice}");
}

#[test]
fn instructions_of_any_length_are_read_at_once() {
    assert!(score(&"src/a1.rs tests protocol ".repeat(1_900), 0) > 0);
    assert!(score(&"é".repeat(49_990), 0) == 0);
}
