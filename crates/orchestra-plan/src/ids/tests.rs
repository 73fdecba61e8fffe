//! Tests of ids: what is one, and what is not.

use proptest::prelude::*;

use super::{AttemptNumber, Branch, Commit, GroupPath, JobId, Millis, PlanId, ProducerId};

fn accepted<T, E>(parse: impl Fn(&str) -> Result<T, E>, texts: &[&str]) -> Vec<bool> {
    texts.iter().map(|text| parse(text).is_ok()).collect()
}

#[test]
fn uuids_are_kept_in_lower_case() {
    let id = PlanId::parse("F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6").unwrap();
    assert_eq!(id.to_string(), "f81d4fae-7dec-11d0-a765-00a0c91e6bf6");
    let json = serde_json::to_string(&id).unwrap();
    assert_eq!(json, "\"f81d4fae-7dec-11d0-a765-00a0c91e6bf6\"");
    assert_eq!(serde_json::from_str::<PlanId>(&json).unwrap(), id);
    let error = serde_json::from_str::<JobId>("\"banana\"").unwrap_err();
    assert_eq!(
        error.to_string(),
        "`banana` is not the id of a job: a UUID at line 1 column 8"
    );
    let wrong = [
        "",
        "f81d4fae7dec11d0a76500a0c91e6bf6",
        "f81d4fae-7dec-11d0-a765-00a0c91e6bf",
        "f81d4fae-7dec-11d0-a765-00a0c91e6bf61",
        "f81d4fae-7dec-11d0-a765-00a0c91e6bfg",
        "f81d4fae-7dec-11d0-a765-00a0c91e6bf6-",
        "{f81d4fae-7dec-11d0-a765-00a0c91e6bf6}",
        "+81d4fae-7dec-11d0-a765-00a0c91e6bf6",
    ];
    assert_eq!(accepted(PlanId::parse, &wrong), [false; 8]);
}

#[test]
fn made_uuids_say_that_they_are_random() {
    let id = JobId::of_random([0xff; 16]).to_string();
    assert_eq!(id, "ffffffff-ffff-4fff-bfff-ffffffffffff");
}

#[test]
fn producer_ids() {
    let longest = "a".repeat(64);
    let right = ["abc", "a-1", "---", longest.as_str()];
    assert_eq!(accepted(ProducerId::of_caller, &right), [true; 4]);
    let long = "a".repeat(65);
    let wrong = [
        "ab",
        "Abc",
        "a_b",
        "a/b",
        "äbc",
        long.as_str(),
        "__snapshot-validation__",
    ];
    assert_eq!(accepted(ProducerId::of_caller, &wrong), [false; 7]);
    let last = ProducerId::parse("__snapshot-validation__").unwrap();
    assert!(last.is_snapshot_validation());
    assert!(!ProducerId::parse("abc").unwrap().is_snapshot_validation());
}

#[test]
fn groups_nest() {
    let group = GroupPath::parse("phase1/setup/db").unwrap();
    assert_eq!(group.name(), "db");
    assert_eq!(group.depth(), 2);
    let parent = group.parent().unwrap();
    assert_eq!(parent.as_str(), "phase1/setup");
    assert_eq!(parent.parent().unwrap().parent(), None);
    let long = "ü".repeat(201);
    let wrong = [
        "",
        "/",
        "/a",
        "a/",
        "a//b",
        "a\nb",
        "a\u{85}",
        long.as_str(),
    ];
    assert_eq!(accepted(GroupPath::parse, &wrong), [false; 8]);
    assert!(GroupPath::parse(&"ü".repeat(200)).is_ok());
}

#[test]
fn branches_are_what_git_takes() {
    let right = ["main", "feature/a.b", "über", "a@b", "x-", "refs/heads/x"];
    assert_eq!(accepted(Branch::parse, &right), [true; 6]);
    let long = "a".repeat(201);
    let wrong = [
        "",
        "-a",
        "a b",
        "a..b",
        "a~1",
        "a^",
        "a:b",
        "a?",
        "a*",
        "a[b",
        "a\\b",
        "/a",
        "a/",
        "a//b",
        ".a",
        "a/.b",
        "a.lock",
        "a.lock/b",
        "a.",
        "@",
        "HEAD",
        "a@{b",
        "a\tb",
        "a\u{7f}",
        long.as_str(),
    ];
    assert_eq!(accepted(Branch::parse, &wrong), [false; 25]);
}

#[test]
fn commits_are_whole() {
    let sha = "0123456789ABCDEF0123456789abcdef01234567";
    let commit = Commit::parse(sha).unwrap();
    assert_eq!(commit.as_str(), sha.to_ascii_lowercase());
    assert_eq!(commit.short(), "0123456789ab");
    assert!(Commit::parse(&"a".repeat(64)).is_ok());
    let wrong = ["", "abc", "g123456789abcdef0123456789abcdef01234567"];
    assert_eq!(accepted(Commit::parse, &wrong), [false; 3]);
}

#[test]
fn time_does_not_run_over() {
    let day = std::time::Duration::from_secs(86_400);
    assert_eq!(Millis::new(5).after(day), Millis::new(86_400_005));
    assert_eq!(Millis::new(u64::MAX).after(day), Millis::new(u64::MAX));
    assert_eq!(Millis::new(1).since(Millis::new(2)).as_millis(), 0);
}

#[test]
fn attempts_count_from_one() {
    assert_eq!(AttemptNumber::new(0), None);
    assert_eq!(AttemptNumber::FIRST.next().get(), 2);
    assert!(serde_json::from_str::<AttemptNumber>("0").is_err());
}

#[test]
fn what_comes_back_in_an_error_is_bounded_and_printable() {
    let error = ProducerId::parse(&"\u{1b}[2J".repeat(1_000)).unwrap_err();
    let text = error.to_string();
    assert!(text.len() < 400, "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
}

proptest! {
    #[test]
    fn every_uuid_comes_back(bytes: [u8; 16]) {
        let id = JobId::of_random(bytes);
        prop_assert_eq!(JobId::parse(&id.to_string()), Ok(id));
    }

    #[test]
    fn no_text_breaks_a_parser(text in "\\PC{0,80}|[a-f0-9./@{~-]{0,70}") {
        if let Ok(id) = PlanId::parse(&text) {
            prop_assert_eq!(id.to_string(), text.to_ascii_lowercase());
        }
        if let Ok(branch) = Branch::parse(&text) {
            prop_assert_eq!(branch.as_str(), text.as_str());
        }
        let _ = (GroupPath::parse(&text), Commit::parse(&text), ProducerId::parse(&text));
    }
}
