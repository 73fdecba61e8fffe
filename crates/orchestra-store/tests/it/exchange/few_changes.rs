//! Merge of a few changes without the rest of the board, and cases that are left to the merge of whole boards.

use orchestra_board::{Command, Kind};

use super::{Replica, TASK, delete, pair, text, with};
use crate::words::{comment, id, rename, target};

#[test]
fn few_published_changes_are_merged_without_the_rest() {
    let (mut one, mut two, mut remote) = pair();
    one.workspace.run(rename("MA-4", "Renamed"));
    one.workspace.create(Kind::Task, Some("MA-2"), "New");
    one.sync(&mut remote);
    assert!(two.merge_changes(&remote));
    assert_eq!(two.title("MA-4"), "Renamed");
    assert_eq!(two.title("MA-5"), "New");
    assert_eq!(two.files(), remote);
    two.sync(&mut remote);
    // Changes of the same issue on both sides are merged as well.
    two.workspace.run(comment("MA-4", "Mine"));
    two.workspace.run(rename("MA-5", "Also mine"));
    one.workspace.run(rename("MA-4", "Again"));
    one.workspace.run(rename("MA-5", "Conflict"));
    one.sync(&mut remote);
    assert!(two.merge_changes(&remote));
    assert_eq!(two.title("MA-5"), "Conflict");
    assert!(text(&two.files()).contains("Also mine"));
    remote = two.files();
    one.sync(&mut remote);
    assert_eq!(one.files(), two.files());
    two.sync(&mut remote);
    // A deletion needs the whole board.
    one.workspace.run(delete("MA-5"));
    one.sync(&mut remote);
    assert!(!two.merge_changes(&remote));
    two.sync(&mut remote);
    assert_eq!(one.files(), two.files());
}

#[test]
fn issue_that_was_moved_here_is_merged_without_the_rest_as_with_it() {
    let (mut one, mut two, mut remote) = pair();
    // The clock of the other clone is behind.
    one.workspace.clock.pass(60);
    one.workspace.create(Kind::Task, Some("MA-3"), "New");
    one.workspace.run(rename("MA-5", "Newer"));
    one.sync(&mut remote);
    two.sync(&mut remote);
    two.workspace.run(Command::MoveIssue {
        target: target("MA-5"),
        to: id("MA-2"),
    });
    one.workspace.run(rename("MA-4", "Renamed"));
    one.sync(&mut remote);
    two.sync(&mut remote);
    one.sync(&mut remote);
    assert_eq!(one.files(), two.files());
    assert_eq!(one.issue("MA-5").issue.parent, Some(id("MA-2")));
}

#[test]
fn issue_that_gets_another_id_is_left_to_the_whole_merge() {
    for renamed in ["MA-4", "MA-5"] {
        let (mut one, mut two, mut remote) = pair();
        one.workspace.create(Kind::Task, Some("MA-2"), "New");
        one.sync(&mut remote);
        two.sync(&mut remote);
        two.workspace.create(Kind::Task, Some("MA-2"), "Own");
        // As after a file with such an id was added by hand.
        let path = two.workspace.path().join(".projects/.store/board.db");
        let raw = rusqlite::Connection::open(path).expect("opens");
        let large = "1764538235000";
        for sql in [
            format!("UPDATE issue SET number = {large} WHERE number = 6"),
            format!("UPDATE changed SET owner = replace(owner, 'MA-6', 'MA-{large}')"),
        ] {
            raw.execute(&sql, []).expect("written");
        }
        one.workspace.run(rename(renamed, "Renamed"));
        one.sync(&mut remote);
        assert!(!two.merge_changes(&remote), "{renamed}");
        two.sync(&mut remote);
        one.sync(&mut remote);
        assert_eq!(one.files(), two.files());
        let titles = ["MA-1", "MA-4", "MA-5", "MA-6"].map(|task| one.title(task));
        assert!(titles.contains(&"Own".to_owned()), "{titles:?}");
        assert!(titles.contains(&"Epic".to_owned()), "{titles:?}");
    }
}

#[test]
fn circle_with_an_unchanged_issue_before_it_is_cut_as_by_the_whole_merge() {
    let (mut one, mut two, mut remote) = pair();
    let wait = |replica: &Replica, from: &str, on: &str| {
        let (target, on) = (target(from), id(on));
        replica.workspace.run(Command::AddDependency { target, on });
    };
    for title in ["Second", "Third"] {
        one.workspace.create(Kind::Task, Some("MA-2"), title);
    }
    wait(&one, "MA-4", "MA-6");
    one.sync(&mut remote);
    two.sync(&mut remote);
    wait(&one, "MA-5", "MA-6");
    wait(&two, "MA-6", "MA-5");
    one.sync(&mut remote);
    two.sync(&mut remote);
    one.sync(&mut remote);
    assert_eq!(one.files(), two.files());
}

#[test]
fn published_issue_with_the_uid_of_another_one_is_left_to_the_whole_merge() {
    let (mut one, two, mut remote) = pair();
    let uid = one.uid("MA-4").to_string();
    one.workspace.create(Kind::Task, Some("MA-2"), "New");
    let other = one.uid("MA-5").to_string();
    one.sync(&mut remote);
    let path = TASK.replace("MA-4", "MA-5");
    let planted = with(&remote, &path, |text| text.replace(&other, &uid));
    let before = two.files();
    assert!(!two.merge_changes(&planted));
    assert_eq!(two.files(), before);
}
