//! Queries that are no queries.

use orchestra_store::MemoryFilter;
use proptest::prelude::{ProptestConfig, any, proptest};

use crate::fixture::{Workspace, chunk};

/// Texts of many scripts, each found by a part of itself.
const SCRIPTS: &[(&str, &str)] = &[
    ("数据库迁移需要锁", "迁移"),
    ("データベースの移行", "移行"),
    ("базы данных в Москве", "москве"),
    ("قاعدة البيانات", "البيانات"),
    ("מסד נתונים", "נתונים"),
    ("ฐานข้อมูล", "ข้อมูล"),
    ("डेटाबेस का प्रवासन", "प्रवासन"),
    ("Überblick à la carte", "uberblick"),
    ("βάση δεδομένων", "δεδομένων"),
    ("데이터베이스 이전", "이전"),
];

fn memory() -> Workspace {
    let memory = Workspace::new();
    for (text, _) in SCRIPTS {
        memory.remember(chunk(text));
    }
    memory
}

#[test]
fn every_script_is_found() {
    let memory = memory();
    for (place, (_, query)) in SCRIPTS.iter().enumerate() {
        let first = memory.ids(query).first().cloned();
        assert_eq!(first, Some(format!("mem-{}", place + 1)), "{query}");
    }
}

#[test]
fn no_query_is_too_strange_or_too_long() {
    let memory = memory();
    let strange = [
        "\"".to_owned(),
        "a AND (b OR".to_owned(),
        "NEAR(a b, 5)".to_owned(),
        "* ^ : - + ~".to_owned(),
        "'; DROP TABLE chunk; --".to_owned(),
        "\u{0}\u{1}\u{7f}\u{200b}\u{feff}".to_owned(),
        "a\u{0}b".to_owned(),
        "x".repeat(1 << 20),
        "x ".repeat(1 << 19),
        "数".repeat(1 << 18),
        "camelCase".repeat(1 << 16),
        "a-b_".repeat(1 << 18),
        "é".repeat(4_097),
    ];
    for query in strange {
        let first = memory.found(&query);
        assert_eq!(first, memory.found(&query), "the same each time");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_is_a_query(queries in proptest::collection::vec(any::<String>(), 8)) {
        let memory = memory();
        for query in queries {
            let found = memory.found_with(&query, &MemoryFilter::default(), &[]);
            assert!(found.len() <= 10);
        }
    }
}
