//! Values in arguments: none is split, none vanishes, none becomes an option.

use proptest::{collection::vec, prelude::*};

use super::*;

fn template(groups: &[&[&str]]) -> Template {
    let groups: Vec<Vec<String>> = groups
        .iter()
        .map(|words| words.iter().map(|word| (*word).to_owned()).collect())
        .collect();
    Template::parse(&groups).unwrap()
}

fn refused(groups: &[&[&str]]) -> TemplateError {
    let groups: Vec<Vec<String>> = groups
        .iter()
        .map(|words| words.iter().map(|word| (*word).to_owned()).collect())
        .collect();
    Template::parse(&groups).unwrap_err()
}

fn values(one: &[(One, &str)], many: &[(Many, &[&str])]) -> Values {
    Values {
        one: one
            .iter()
            .map(|(name, value)| (*name, (*value).into()))
            .collect(),
        many: many
            .iter()
            .map(|(name, items)| (*name, items.iter().map(|&item| item.into()).collect()))
            .collect(),
    }
}

fn shown(template: &Template, values: &Values) -> Vec<String> {
    let arguments = template
        .expand(values, &|option| option == "--known")
        .unwrap();
    arguments
        .iter()
        .map(|word| word.to_str().unwrap().to_owned())
        .collect()
}

#[test]
fn groups_are_left_out_or_repeated() {
    let template = template(&[
        &["run", "--quiet"],
        &["--model", "{model}"],
        &["--add-dir={folders}"],
        &["--urls", "{urls,}"],
        &["?--known"],
        &["?--unknown=1", "{prompt}"],
        &["--json={{\"a\": {{}}}}"],
        &["--", "{prompt}"],
    ]);
    let none = values(&[(One::Prompt, "-x y")], &[]);
    assert_eq!(
        shown(&template, &none),
        [
            "run",
            "--quiet",
            "--known",
            "--json={\"a\": {}}",
            "--",
            "-x y"
        ]
    );
    let all = values(
        &[(One::Prompt, "p"), (One::Model, "m n")],
        &[(Many::Folders, &["/a b", "/c"]), (Many::Urls, &["x", "y"])],
    );
    assert_eq!(
        shown(&template, &all),
        [
            "run",
            "--quiet",
            "--model",
            "m n",
            "--add-dir=/a b",
            "--add-dir=/c",
            "--urls",
            "x,y",
            "--known",
            "--json={\"a\": {}}",
            "--",
            "p"
        ]
    );
}

#[test]
fn what_is_no_template_is_refused_with_what_there_is() {
    let unknown = refused(&[&["{modell}"]]).to_string();
    assert!(
        unknown.contains("{model}") && unknown.contains("{urls,}"),
        "{unknown}"
    );
    assert!(matches!(
        refused(&[&["{model,}"]]),
        TemplateError::Unknown { .. }
    ));
    assert!(matches!(
        refused(&[&["{model"]]),
        TemplateError::Open { .. }
    ));
    assert!(matches!(
        refused(&[&["model}"]]),
        TemplateError::Open { .. }
    ));
    assert_eq!(refused(&[&[]]), TemplateError::EmptyGroup);
    assert!(matches!(
        refused(&[&["{urls}", "{folders}"]]),
        TemplateError::TwoLists { .. }
    ));
    let long = "x".repeat(MAX_WORD_BYTES + 1);
    assert_eq!(refused(&[&[&long]]), TemplateError::TooLong);
}

#[test]
fn values_that_would_be_options_or_no_arguments_are_refused() {
    let expand = |words: &[&str], value: &str| {
        template(&[words]).expand(&values(&[(One::Model, value)], &[]), &|_| true)
    };
    let refused = expand(&["--model", "{model}"], "--yolo").unwrap_err();
    assert!(refused.to_string().contains("{model}"), "{refused}");
    assert!(expand(&["--model={model}"], "--yolo").is_ok());
    assert!(expand(&["--", "{model}"], "--yolo").is_ok());
    assert!(matches!(
        expand(&["--model={model}"], "a\0b"),
        Err(TemplateError::Nul { .. })
    ));
    let joined = template(&[&["--urls={urls,}"]]);
    let comma = values(&[], &[(Many::Urls, &["a,b"])]);
    assert!(matches!(
        joined.expand(&comma, &|_| true),
        Err(TemplateError::Comma { .. })
    ));
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,40}",
        Just("; rm -rf / $(x) `y` | & > <".to_owned()),
        Just("{model} {prompt} {{".to_owned()),
        Just("a\n-b\n--c".to_owned()),
        Just(String::new()),
    ]
}

proptest! {
    #[test]
    fn every_value_stands_whole_in_one_argument(
        prompt in value(),
        model in value(),
        folders in vec(value(), 0..5),
    ) {
        let template = template(&[
            &["--model={model}"],
            &["--add-dir={folders}"],
            &["--", "{prompt}"],
        ]);
        let values = Values {
            one: [(One::Prompt, prompt.clone().into()), (One::Model, model.clone().into())].into(),
            many: [(Many::Folders, folders.iter().map(OsString::from).collect())].into(),
        };
        let expanded = template.expand(&values, &|_| true).unwrap();
        let mut expected: Vec<OsString> = vec![format!("--model={model}").into()];
        expected.extend(folders.iter().map(|folder| format!("--add-dir={folder}").into()));
        expected.extend(["--".into(), prompt.into()]);
        prop_assert_eq!(expanded, expected);
    }

    #[test]
    fn any_text_is_a_template_or_an_error(words in vec("[-a-z{},?= ]{0,20}", 1..6)) {
        if let Ok(template) = Template::parse(&[words]) {
            let _ = template.expand(&Values::default(), &|_| false);
        }
    }
}
