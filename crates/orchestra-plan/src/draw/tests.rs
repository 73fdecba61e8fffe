//! Tests of the drawings, whatever names and shapes they are given.

mod checks;

use std::time::Instant;

use proptest::prelude::*;

use super::{Graph, Layout, Node, Paint, Place, What, dot, label, mermaid, svg, terminal};
use crate::definition::Definition;
use checks::{check_dot, check_mermaid, check_svg, check_terminal, reached};

type Job<'a> = (&'a str, &'a str, Option<&'a str>, &'a [&'a str]);

fn graph<'a>(jobs: &[Job<'a>]) -> Graph<'a> {
    let node = |(name, status, group, on): &Job<'a>| Node {
        producer_id: name,
        name,
        status,
        group: *group,
        dependencies: on.to_vec(),
    };
    Graph::new("Search", jobs.iter().map(node).collect())
}

fn diamond() -> Graph<'static> {
    graph(&[
        ("start", "succeeded", None, &[]),
        ("left", "running", Some("work"), &["start"]),
        ("right", "failed", Some("work/deep"), &["start"]),
        ("end", "blocked", None, &["left", "right"]),
    ])
}

#[test]
fn a_terminal_shows_boxes_and_lines() {
    let text = terminal(&diamond(), 72, Paint::Plain);
    let expected = [
        "Search",
        "                         ┌───────────────────┐",
        "                      ┌─▶│ ▶ left            ├─┐",
        "┌───────────────────┐ │  │   running · work  │ │  ┌───────────────────┐",
        "│ ✓ start           ├─┤  └───────────────────┘ ├─▶│ ⊘ end             │",
        "│   succeeded       │ │  ┌───────────────────┐ │  │   blocked         │",
        "└───────────────────┘ └─▶│ ✗ right           ├─┘  └───────────────────┘",
        "                         │   failed · work/… │",
        "                         └───────────────────┘",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    check_terminal(&text, 72);
}

#[test]
fn what_does_not_fit_is_a_list() {
    let text = terminal(&diamond(), 40, Paint::Plain);
    assert_eq!(
        text,
        "Search\n\
         ✓ start   succeeded\n\
         ▶ left    running  ← start\n\
         ✗ right   failed  ← start\n\
         ⊘ end     blocked  ← left, right\n"
    );
    let text = terminal(&diamond(), 0, Paint::Colour);
    assert!(text.contains("\u{1b}[31m✗ right"), "{text}");
    check_terminal(&text, 20);
}

#[test]
fn mermaid_goes_left_to_right_with_a_subgraph_for_each_group() {
    assert_eq!(
        mermaid(&diamond()),
        "\
flowchart LR
  n0[\"✓ start\"]
  n3[\"⊘ end\"]
  subgraph g0[\"work\"]
    n1[\"▶ left\"]
    subgraph g1[\"deep\"]
      n2[\"✗ right\"]
    end
  end
  n0 --> n1
  n0 --> n2
  n1 --> n3
  n2 --> n3
  classDef running fill:#dbeafe,stroke:#1d4ed8,color:#000000
  class n1 running
  classDef succeeded fill:#dcfce7,stroke:#15803d,color:#000000
  class n0 succeeded
  classDef failed fill:#fee2e2,stroke:#b91c1c,color:#000000
  class n2 failed
  classDef blocked fill:#ffedd5,stroke:#c2410c,color:#000000
  class n3 blocked
"
    );
}

#[test]
fn dot_has_a_cluster_for_each_group() {
    let text = dot(&diamond());
    assert!(text.contains("  subgraph cluster_0 {\n    label=\"work\";\n    n1 [label=\"▶ left\""));
    assert!(text.ends_with("  n1 -> n3;\n  n2 -> n3;\n}\n"), "{text}");
    check_dot(&text);
}

#[test]
fn a_picture_says_what_it_shows() {
    let text = svg(&diamond());
    assert!(
        text.contains(
            "<desc>A graph of 4 jobs, 1 running, 1 succeeded, 1 failed, 1 blocked</desc>"
        )
    );
    assert!(text.contains("<title>Search</title>"));
    assert!(text.contains("prefers-color-scheme: dark"));
    check_svg(&text);
}

#[test]
fn what_cannot_be_drawn_is_left_out() {
    let odd = graph(&[
        ("aaa", "ready", None, &["ccc", "aaa", "zzz"]),
        ("bbb", "ready", None, &["aaa", "aaa"]),
        ("ccc", "ready", None, &["bbb"]),
        ("aaa", "failed", None, &[]),
    ]);
    assert_eq!(odd.nodes().len(), 3);
    let links: Vec<&[usize]> = (0..3).map(|node| odd.dependencies(node)).collect();
    assert_eq!(links, [&[][..], &[0], &[1]]);
    assert_eq!([odd.layer(0), odd.layer(1), odd.layer(2)], [0, 1, 2]);
}

#[test]
fn nothing_is_drawn_of_nothing() {
    let nothing = graph(&[]);
    assert_eq!(terminal(&nothing, 80, Paint::Plain), "Search\n");
    assert_eq!(mermaid(&nothing), "flowchart LR\n");
    check_dot(&dot(&nothing));
    check_svg(&svg(&nothing));
}

#[test]
fn a_definition_is_drawn() {
    let jobs = r#"[
        {"producerId": "one", "task": "t", "work": "w"},
        {"producerId": "two", "task": "t", "work": "w", "dependencies": ["one"], "group": "g"}
    ]"#;
    let jobs: Vec<crate::spec::JobSpec> = serde_json::from_str(jobs).unwrap();
    let id = |n: u8| crate::ids::JobId::of_random([n; 16]);
    let jobs = jobs.into_iter().zip(1..).map(|(job, n)| (id(n), job));
    let last = crate::definition::SnapshotValidation {
        id: id(0),
        verify: None,
    };
    let definition = Definition::build(jobs, last).unwrap();
    let graph = Graph::of("Two", &definition, |_| "pending");
    let text = mermaid(&graph);
    assert!(
        text.contains("subgraph g1[\"Snapshot Validation\"]"),
        "{text}"
    );
    assert!(
        text.contains("n0 --> n1") && text.contains("n1 --> n2"),
        "{text}"
    );
}

#[test]
fn labels_are_cut_to_columns() {
    let check = |text: &str, columns: usize, expected: &str| {
        assert_eq!(label::cut(text, columns), expected);
        assert!(label::width(expected) <= columns);
    };
    check("abcdef", 6, "abcdef");
    check("abcdefg", 6, "abcde…");
    check("日本語", 6, "日本語");
    check("日本語", 5, "日本…");
    check("日本語", 4, "日…");
    check("a\nb\u{1b}[2J\u{202e}c", 20, "a b\u{fffd}[2J\u{fffd}c");
    check("e\u{301}e\u{301}", 2, "e\u{301}e\u{301}");
    assert_eq!(label::cut_to_pixels("WWWWWWWW", 70), "WWWW…");
    assert_eq!(label::cut_to_pixels("illicitly", 70), "illicitly");
    assert!(label::cut(&"\u{301}".repeat(1_000), 10).len() < 100);
}

const HOSTILE: [&str; 14] = [
    "\"]; click n0 href \"javascript:alert(1)\"",
    "%%{init: {\"theme\": \"x\"}}%%",
    "<script>alert(1)</script>",
    "</text></svg><script>",
    "`**bold**`",
    "\\\" ]; evil -> evil; \\",
    "\\N\\G\\l",
    "&quot;&#34;&lt;",
    "end\nsubgraph x\n",
    "\u{1b}[31mred\u{1b}]0;title\u{7}",
    "\u{202e}txt.exe",
    "style n0 fill:#f00;",
    "]]></title><!--",
    "日本語 🦀 e\u{301}\u{0}\u{ffff}",
];

#[test]
fn hostile_names_are_only_text() {
    for name in HOSTILE {
        let node = |producer_id| Node {
            producer_id,
            name,
            status: name,
            group: Some(name),
            dependencies: vec![name],
        };
        let graph = Graph::new(name, vec![node(name), node("other")]);
        check_mermaid(&mermaid(&graph));
        check_dot(&dot(&graph));
        check_svg(&svg(&graph));
        for columns in [20, 80] {
            check_terminal(&terminal(&graph, columns, Paint::Plain), columns);
            check_terminal(&terminal(&graph, columns, Paint::Colour), columns);
        }
    }
}

fn wide(count: usize, on: impl Fn(usize) -> Vec<usize>) -> (Vec<String>, Vec<Vec<usize>>) {
    let names = (0..count).map(|n| format!("job-{n}")).collect();
    (names, (0..count).map(on).collect())
}

fn named<'a>(names: &'a [String], on: &[Vec<usize>]) -> Graph<'a> {
    let node = |(name, on): (&'a String, &Vec<usize>)| Node {
        producer_id: name,
        name,
        status: "ready",
        group: None,
        dependencies: on.iter().map(|on| names[*on].as_str()).collect(),
    };
    Graph::new("many", names.iter().zip(on).map(node).collect())
}

#[test]
fn large_graphs_are_drawn_at_once() {
    let check = |(names, on): (Vec<String>, Vec<Vec<usize>>)| {
        let graph = named(&names, &on);
        let start = Instant::now();
        let drawn = svg(&graph).len() + terminal(&graph, 400, Paint::Plain).len();
        let drawn = drawn + mermaid(&graph).len() + dot(&graph).len();
        let took = start.elapsed();
        println!("{} jobs, {drawn} bytes: {took:?}", names.len());
        assert!(took.as_secs() < 10, "{took:?}");
    };
    let back = |n: usize, steps: &[usize]| -> Vec<usize> {
        steps
            .iter()
            .filter_map(|step| n.checked_sub(*step))
            .collect()
    };
    check(wide(500, |n| back(n, &[17, 23, 31])));
    check(wide(500, |n| (n.saturating_sub(100)..n).collect()));
    check(wide(500, |n| {
        if n == 499 {
            (0..499).collect()
        } else {
            Vec::new()
        }
    }));
    check(wide(500, |n| back(n, &[1])));
    check(wide(10_000, |n| back(n, &[100, 1_000])));
}

/// Jobs that depend on some of all jobs, themselves included: there may be circles.
fn links(most: usize) -> impl Strategy<Value = Vec<Vec<usize>>> {
    (1..most)
        .prop_flat_map(|count| prop::collection::vec(prop::collection::vec(0..count, 0..4), count))
}

fn names(links: &[Vec<usize>]) -> Vec<String> {
    (0..links.len()).map(|n| format!("j{n}j")).collect()
}

proptest! {
    #[test]
    fn a_job_stands_right_of_what_it_depends_on(on in links(40)) {
        let names = names(&on);
        let graph = named(&names, &on);
        let layout = Layout::of(&graph);
        let mut places = vec![None; names.len()];
        for (layer, slots) in layout.layers().iter().enumerate() {
            for (row, slot) in slots.iter().enumerate() {
                if let What::Job(job) = slot.what {
                    prop_assert_eq!(places[job].replace(Place { layer, row }), None);
                }
                if let Some(next) = slots.get(row + 1) {
                    prop_assert!(slot.top + slot.what.steps() <= next.top, "they do not overlap");
                }
            }
        }
        for job in 0..names.len() {
            let place = places[job].unwrap();
            prop_assert_eq!(place.layer, graph.layer(job));
            for on in graph.dependencies(job) {
                prop_assert!(places[*on].unwrap().layer < place.layer);
            }
        }
        for link in layout.links() {
            prop_assert_eq!(link.from.layer + 1, link.to.layer);
        }
        prop_assert_eq!(Layout::of(&graph), layout);
    }

    #[test]
    fn every_drawing_holds_every_job(on in links(25), columns in 20..300_usize) {
        let names = names(&on);
        let graph = named(&names, &on);
        let (mermaid, dot, svg) = (mermaid(&graph), dot(&graph), svg(&graph));
        let plain = terminal(&graph, columns, Paint::Plain);
        for name in &names {
            for text in [&mermaid, &dot, &svg, &plain] {
                prop_assert!(text.contains(name.as_str()), "{name} is missing in {text}");
            }
        }
        let lines: usize = (0..names.len()).map(|job| graph.dependencies(job).len()).sum();
        prop_assert_eq!(mermaid.matches(" --> ").count(), lines);
        prop_assert_eq!(dot.matches(" -> ").count(), lines);
        check_mermaid(&mermaid);
        check_dot(&dot);
        check_svg(&svg);
        check_terminal(&plain, columns);
        check_terminal(&terminal(&graph, columns, Paint::Colour), columns);
    }

    #[test]
    fn lines_lead_from_each_job_to_those_that_depend_on_it(on in links(12)) {
        let names = names(&on);
        let graph = named(&names, &on);
        let text = terminal(&graph, 2_000, Paint::Plain);
        for job in 0..names.len() {
            for on in graph.dependencies(job) {
                let reached = reached(&text, &names[*on]);
                let name = &names[job];
                prop_assert!(reached.contains(name), "{} to {name}\n{text}", names[*on]);
            }
        }
    }

    #[test]
    fn no_text_breaks_out(name in "\\PC{0,40}|[\"<>&%#{}\\\\\\[\\]();`\\x00-\\x20a]{0,40}") {
        let node = Node {
            producer_id: "one",
            name: &name,
            status: &name,
            group: Some(&name),
            dependencies: vec![],
        };
        let graph = Graph::new(&name, vec![node]);
        check_mermaid(&mermaid(&graph));
        check_dot(&dot(&graph));
        check_svg(&svg(&graph));
        check_terminal(&terminal(&graph, 60, Paint::Plain), 60);
    }
}
