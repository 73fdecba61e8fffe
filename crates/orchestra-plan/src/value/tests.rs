//! Tests of bounded values.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Env, EnvValue, Line, List, Money, Raw, Text, Whole};
use crate::testing::{Advertised, read};

#[test]
fn what_is_shown_is_what_is_enforced() {
    fn check<T: schemars::JsonSchema + serde::de::DeserializeOwned>(values: &[Value]) {
        let advertised = Advertised::of::<T>();
        for value in values {
            advertised.agrees::<T>(value).unwrap();
        }
    }
    let texts = [
        json!(""),
        json!(" "),
        json!("a"),
        json!(" a "),
        json!("a\nb"),
        json!("a\u{0}b"),
        json!("a\u{85}b"),
        json!("\u{85}"),
        json!("\u{a0}"),
        json!("\u{202e}"),
        json!("abcdefgh"),
        json!("abcdefghi"),
        json!("üüüüüüüü"),
        json!("🦀🦀🦀🦀🦀🦀🦀🦀"),
        json!("\u{7f}"),
        json!("\t"),
        json!(1),
        json!(null),
        json!(["a"]),
    ];
    check::<Text<8>>(&texts);
    check::<Line<8>>(&texts);
    check::<Raw<8>>(&texts);
    check::<List<Line<8>, 1, 2>>(&[
        json!([]),
        json!(["a"]),
        json!(["a", "b"]),
        json!(["a", "b", "c"]),
        json!(["a", 1]),
        json!([""]),
        json!({}),
        json!("a"),
    ]);
    let numbers = [
        json!(0),
        json!(1),
        json!(10),
        json!(11),
        json!(-1),
        json!(10.0),
        json!(1.5),
        json!(1e300),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(0.000_001),
        json!(0.000_000_1),
        json!(1_000_000),
        json!(1_000_000.1),
        json!("1"),
        json!(null),
        json!(true),
    ];
    check::<Whole<1, 10>>(&numbers);
    check::<Money>(&numbers);
    let many = |count: usize| -> Value {
        (0..count)
            .map(|n| (format!("V{n}"), json!("x")))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    check::<Env>(&[
        json!({}),
        json!({"A": "b"}),
        json!({"": "b"}),
        json!({"A=B": "b"}),
        json!({"A\n": "b"}),
        json!({"A": ""}),
        json!({"A": "\u{0}"}),
        json!({"A": 1}),
        json!([]),
        many(256),
        many(257),
        json!({"ProgramFiles(x86)": "C:\\"}),
        json!({"A": "x".repeat(32_768)}),
        json!({"A": "x".repeat(32_769)}),
        json!({"A".repeat(257): "x"}),
    ]);
}

#[test]
fn errors_say_what_was_expected() {
    let check = |error: String, expected: &str| assert_eq!(error, expected);
    check(
        read::<Line<3>>(&json!("abcd")).unwrap_err(),
        ".: is too long: at most 3 characters",
    );
    check(
        read::<Line<3>>(&json!("a\u{1b}")).unwrap_err(),
        ".: contains the control character U+001B; remove it",
    );
    check(
        read::<Text<3>>(&json!(" ")).unwrap_err(),
        ".: must not be empty; if it is optional, omit it",
    );
    check(
        read::<Whole<1, 10>>(&json!(11)).unwrap_err(),
        ".: invalid value: integer `11`, expected a whole number from 1 to 10",
    );
    check(
        read::<List<Line<3>, 1, 2>>(&json!(["a", "b", "c"])).unwrap_err(),
        ".: is too long: at most 2 values",
    );
    check(
        read::<List<Line<3>, 1, 2>>(&json!(["a", ""])).unwrap_err(),
        "[1]: must not be empty; if it is optional, omit it",
    );
}

#[test]
fn money_is_exact_to_a_millionth() {
    let amount = |text: &str| serde_json::from_str::<Money>(text).unwrap();
    assert_eq!(amount("1.5").micros(), 1_500_000);
    assert_eq!(amount("0.1").micros(), 100_000);
    assert_eq!(amount("3"), Money::of_micros(3_000_000).unwrap());
    assert_eq!(
        serde_json::to_string(&amount("999999.999999")).unwrap(),
        "999999.999999"
    );
    assert_eq!(Money::of_micros(0), None);
}

#[test]
fn values_of_variables_are_not_shown() {
    let env: Env = serde_json::from_value(json!({"TOKEN": "hunter2"})).unwrap();
    assert!(!format!("{env:?}").contains("hunter2"));
    assert_eq!(env.value("TOKEN"), Some("hunter2"));
    assert_eq!(
        serde_json::to_value(&env).unwrap(),
        json!({"TOKEN": "hunter2"})
    );
    assert_eq!(format!("{:?}", EnvValue::parse("x").unwrap()), "…");
}

proptest! {
    #[test]
    fn texts_agree_with_their_schemas(text in "[\\x00-\\x22\\x7e-\\xa1a]{0,10}|\\PC{0,10}") {
        thread_local! {
            static SHOWN: [Advertised; 3] = [
                Advertised::of::<Text<8>>(),
                Advertised::of::<Line<8>>(),
                Advertised::of::<Raw<8>>(),
            ];
        }
        let value = json!(text);
        SHOWN.with(|[text, line, raw]| {
            text.agrees::<Text<8>>(&value)?;
            line.agrees::<Line<8>>(&value)?;
            raw.agrees::<Raw<8>>(&value)
        })
        .map_err(TestCaseError::fail)?;
    }

    #[test]
    fn every_amount_comes_back(micros in 1..=1_000_000_000_000_u64) {
        let money = Money::of_micros(micros).unwrap();
        let json = serde_json::to_string(&money).unwrap();
        prop_assert_eq!(serde_json::from_str::<Money>(&json).unwrap(), money);
    }
}
