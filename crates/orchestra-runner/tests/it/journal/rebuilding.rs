//! A damaged database is rebuilt from its readable parts and from the readable files.

use orchestra_runner::journal::rebuild;

use super::*;

#[tokio::test]
async fn what_is_damaged_is_told_and_what_is_whole_is_read() {
    let root = tempfile::tempdir().unwrap();
    let journal = Journal::open(root.path(), with_files()).unwrap();
    for name in ["a", "b"] {
        let events: Vec<_> = (1..=5)
            .map(|number| json!({"n": number, "secret": "s"}))
            .collect();
        journal.append(append(name, 0, &events)).await.unwrap();
    }
    journal.close().await;
    let damage = |sql: &str| database(root.path()).execute_batch(sql).unwrap();
    damage("UPDATE event SET json = '{\"n\":33}' WHERE seq = 3; DELETE FROM event WHERE seq = 9");
    let reader = Reader::new(root.path());
    for (name, whole) in [("a", 2), ("b", 3)] {
        let page = reader.events(&plan(name), 0, 10).unwrap();
        assert_eq!(page.events.len(), whole);
        let told = page.damage.unwrap();
        assert!(
            matches!(&told, Fault::DamagedEvent { number, .. } if *number == whole as u64 + 1),
            "{told:?}"
        );
    }
    damage("DELETE FROM event WHERE seq = 10");
    let page = reader.events(&plan("b"), 3, 10).unwrap();
    assert!(page.events.is_empty() && page.damage.is_some(), "{page:?}");
    let rebuilt = rebuild(root.path(), |_| Some(Vec::new())).unwrap();
    assert_eq!(
        (rebuilt.plans, rebuilt.events, rebuilt.from_files),
        (2, 10, 5)
    );
    assert!(rebuilt.aside.unwrap().exists());
    let journal = open(root.path());
    let whole = bodies(&journal.reader(), "a");
    assert_eq!(whole[1], json!({"n": 2, "secret": "s"}));
    assert_eq!(whole[2], json!({"n": 3}), "secrets are not in the files");
    assert_eq!(add(&journal, "b", 5, json!(6)).await.seq, 11);
    journal.close().await;
    // Nothing of the database can be read at all.
    fs::write(root.path().join("plans.db"), vec![b'x'; 9_000]).unwrap();
    let told = Journal::open(root.path(), Options::default()).unwrap_err();
    assert!(matches!(told, Fault::Damaged), "{told:?}");
    let rebuilt = rebuild(root.path(), |_| Some(Vec::new())).unwrap();
    assert_eq!(
        (rebuilt.plans, rebuilt.events, rebuilt.from_files),
        (2, 10, 10)
    );
    assert_eq!(bodies(&open(root.path()).reader(), "b").len(), 5);
}

#[tokio::test]
async fn readable_files_of_a_foreign_plan_take_no_place_of_an_event() {
    let (root, foreign) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (root, name) in [(&root, "b"), (&foreign, "a")] {
        let journal = Journal::open(root.path(), with_files()).unwrap();
        let events: Vec<_> = (1..=3).map(|number| json!({"n": number})).collect();
        journal.append(append(name, 0, &events)).await.unwrap();
        journal.close().await;
    }
    let plan_of = |name: &str| plan(name).as_str().to_owned();
    let name = plan_of("a");
    fs::rename(foreign.path().join(&name), root.path().join(&name)).unwrap();
    let damage = "UPDATE event SET json = json || ' '";
    database(root.path()).execute_batch(damage).unwrap();
    let mut asked = Vec::new();
    let rebuilt = rebuild(root.path(), |found| {
        asked.push((found.plan.as_str().to_owned(), found.is_unknown));
        Some(Vec::new())
    });
    assert_eq!(rebuilt.unwrap().plans, 2);
    assert_eq!(asked, [(plan_of("a"), true), (plan_of("b"), false)]);
    let journal = open(root.path());
    for name in ["a", "b"] {
        assert_eq!(bodies(&journal.reader(), name).len(), 3, "{name}");
    }
}

#[tokio::test]
async fn events_of_a_plan_that_is_left_out_are_not_counted() {
    let root = tempfile::tempdir().unwrap();
    let journal = Journal::open(root.path(), with_files()).unwrap();
    let events: Vec<_> = (1..=3).map(|number| json!({"n": number})).collect();
    journal.append(append("a", 0, &events)).await.unwrap();
    journal.close().await;
    fs::write(root.path().join("plans.db"), vec![b'x'; 9_000]).unwrap();
    let mut found = 0;
    let rebuilt = rebuild(root.path(), |plan| {
        found += plan.events.len();
        None
    });
    let rebuilt = rebuilt.unwrap();
    assert_eq!(found, 3);
    assert_eq!(
        (rebuilt.plans, rebuilt.events, rebuilt.from_files),
        (0, 0, 0)
    );
}

#[tokio::test]
async fn a_database_that_cannot_be_made_anew_stays_and_one_that_was_is_put_in_its_place() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    let journal = Journal::open(root.path(), with_files()).unwrap();
    for n in 0..4 {
        add(&journal, "a", n, json!({ "n": n })).await;
    }
    journal.close().await;
    let whole = fs::read(path("plans.db")).unwrap();
    let damaged = vec![b'x'; 9_000];
    fs::write(path("plans.db"), &damaged).unwrap();
    // There is something in the way of the new one, as there would be on a full disk.
    fs::create_dir(path("plans.db.rebuilt")).unwrap();
    rebuild(root.path(), |_| Some(Vec::new())).unwrap_err();
    assert_eq!(fs::read(path("plans.db")).unwrap(), damaged);
    let told = Journal::open(root.path(), Options::default()).unwrap_err();
    assert!(matches!(told, Fault::Damaged), "{told:?}");
    fs::remove_dir(path("plans.db.rebuilt")).unwrap();
    // A rebuild that was stopped has moved only a part of the damaged database aside.
    fs::rename(path("plans.db"), path("plans.db.damaged-1")).unwrap();
    fs::write(path("plans.db.rebuilt"), &whole).unwrap();
    fs::write(path("plans.db-wal"), b"of the damaged one").unwrap();
    let told = Reader::new(root.path()).events(&plan("a"), 0, 10);
    assert!(matches!(told, Err(Fault::Damaged)), "{told:?}");
    let journal = Journal::open(root.path(), with_files()).unwrap();
    assert_eq!(bodies(&journal.reader(), "a").len(), 4);
    assert_eq!(add(&journal, "a", 4, json!(5)).await.number, 5);
    assert!(!path("plans.db.rebuilt").exists());
    journal.close().await;
    // What somebody did not complete is in nobody's way.
    fs::write(path("plans.db"), &damaged).unwrap();
    fs::write(path("plans.db.rebuilt"), b"half").unwrap();
    let rebuilt = rebuild(root.path(), |_| Some(Vec::new())).unwrap();
    assert_eq!((rebuilt.plans, rebuilt.events), (1, 5));
    assert_eq!(bodies(&open(root.path()).reader(), "a").len(), 5);
}
