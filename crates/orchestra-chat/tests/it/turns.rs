//! The loop by itself: events in, wants out, no time and no model.

use std::time::Duration;

use orchestra_chat::{
    Approval, Budget, Chat, Context, Described, Due, End, Ending, Event, Message, Nature, Note,
    Outcome, Price, Reply, Request, SaidCall, Settings, Spent, Tools, Usage, Verdict, Want,
};
use serde_json::{Value, json};

use crate::support::{answered, tools};

/// A conversation whose wants are looked at.
struct Loop {
    chat: Chat,
    now: Duration,
}

impl Loop {
    fn new(settings: Settings) -> Self {
        Self::with(settings, tools())
    }

    fn with(settings: Settings, tools: Tools) -> Self {
        Self {
            chat: Chat::new(settings, tools),
            now: Duration::ZERO,
        }
    }

    fn tell(&mut self, event: Event) -> Vec<Want> {
        self.chat.handle(event, self.now);
        std::iter::from_fn(|| self.chat.poll()).collect()
    }

    fn say(&mut self, text: &str) -> Vec<Want> {
        self.tell(Event::Said(text.to_owned()))
    }

    fn reply(&mut self, text: &str, calls: &[(&str, Value)]) -> Vec<Want> {
        let calls = calls.iter().map(|(name, arguments)| SaidCall {
            id: None,
            name: (*name).to_owned(),
            arguments: arguments.clone(),
            is_thought: false,
        });
        self.tell(Event::Replied(Reply {
            text: text.to_owned(),
            calls: calls.collect(),
            usage: Usage {
                input: 100,
                output: 10,
            },
            ..Reply::default()
        }))
    }

    fn answer(&mut self, number: usize, text: &str) -> Vec<Want> {
        let outcome = answered(text);
        self.tell(Event::Answered { number, outcome })
    }

    fn decide(&mut self, number: usize, verdict: Verdict) -> Vec<Want> {
        self.tell(Event::Decided { number, verdict })
    }
}

fn request(wants: &[Want]) -> &Request {
    let found = wants.iter().find_map(|want| match want {
        Want::Ask(request) => Some(&**request),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("{wants:?}"))
}

fn calls(wants: &[Want]) -> Vec<&Due> {
    let found = wants.iter().filter_map(|want| match want {
        Want::Call(due) => Some(due),
        _ => None,
    });
    found.collect()
}

fn approvals(wants: &[Want]) -> Vec<&Due> {
    let found = wants.iter().filter_map(|want| match want {
        Want::Approve(due) => Some(due),
        _ => None,
    });
    found.collect()
}

fn ending(wants: &[Want]) -> &Ending {
    let found = wants.iter().find_map(|want| match want {
        Want::End(ending) => Some(&**ending),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("{wants:?}"))
}

#[test]
fn readers_are_called_beside_each_other_and_what_changes_something_in_its_turn() {
    let mut held = Loop::new(Settings {
        approval: Approval::Yes,
        ..Settings::default()
    });
    held.say("Go.");
    let wants = held.reply(
        "",
        &[
            ("get_weather", json!({"city": "A"})),
            ("search_web", json!({"query": "b"})),
            ("create_task", json!({"title": "c"})),
            ("get_weather", json!({"city": "D"})),
        ],
    );
    let numbers = |wants: &[Want]| {
        calls(wants)
            .iter()
            .map(|due| due.number)
            .collect::<Vec<_>>()
    };
    assert_eq!(numbers(&wants), [1, 2]);
    assert!(held.answer(2, "b").is_empty());
    assert_eq!(numbers(&held.answer(1, "a")), [3]);
    assert_eq!(numbers(&held.answer(3, "c")), [4]);
    let wants = held.answer(4, "d");
    let asked = request(&wants);
    // Answers stand in the order of the calls.
    let texts: Vec<&str> = asked
        .messages
        .iter()
        .skip(3)
        .map(|message| message.text().lines().last().unwrap())
        .collect();
    assert_eq!(texts, ["a", "b", "c", "d"]);
}

#[test]
fn what_changes_something_is_asked_about_and_what_reads_is_not() {
    let mut held = Loop::new(Settings {
        approval: Approval::Ask,
        ..Settings::default()
    });
    held.say("Go.");
    let title = |title: &str| ("create_task", json!({"title": title}));
    let wants = held.reply("", &[title("a"), title("b"), title("c")]);
    assert_eq!((approvals(&wants).len(), calls(&wants).len()), (1, 0));
    // Once: the next is asked about.
    let wants = held.decide(1, Verdict::Once);
    assert_eq!(calls(&wants)[0].number, 1);
    let wants = held.answer(1, "ok");
    assert_eq!(approvals(&wants)[0].number, 2);
    // Always: the next is not.
    held.decide(2, Verdict::Always);
    let wants = held.answer(2, "ok");
    assert_eq!((approvals(&wants).len(), calls(&wants).len()), (0, 1));
    held.answer(3, "ok");
    // In the next turn neither, and of another tool it is asked.
    held.reply("Done.", &[]);
    held.say("More.");
    let wants = held.reply("", &[title("d")]);
    assert_eq!((approvals(&wants).len(), calls(&wants).len()), (0, 1));
    held.answer(1, "ok");
    let wants = held.reply("", &[("move_robot", json!({"position": {"x": 1, "y": 2}}))]);
    assert_eq!(approvals(&wants).len(), 1);
}

#[test]
fn a_no_is_told_to_the_model_and_edited_arguments_as_well() {
    let mut held = Loop::new(Settings {
        approval: Approval::Ask,
        ..Settings::default()
    });
    held.say("Go.");
    held.reply("", &[("create_task", json!({"title": "a"}))]);
    let wants = held.decide(1, Verdict::No);
    let last = request(&wants).messages.last().unwrap().text();
    assert!(last.contains("the person does not agree"), "{last}");
    held.reply("", &[("create_task", json!({"title": "b"}))]);
    let arguments = json!({"title": "better"}).as_object().unwrap().clone();
    let wants = held.decide(2, Verdict::Edit(arguments));
    assert_eq!(calls(&wants)[0].call.arguments["title"], "better");
    let wants = held.answer(2, "made");
    let last = request(&wants).messages.last().unwrap().text();
    assert!(
        last.contains("other arguments: {\"title\":\"better\"}") && last.ends_with("made"),
        "{last}"
    );
    // A decision on a call that waits for none changes nothing.
    assert!(held.decide(2, Verdict::No).is_empty());
}

#[test]
fn where_nobody_is_there_to_ask_nothing_is_changed() {
    let mut held = Loop::new(Settings::default());
    held.say("Go.");
    let wants = held.reply(
        "",
        &[
            ("create_task", json!({"title": "a"})),
            ("get_weather", json!({"city": "A"})),
        ],
    );
    let made = calls(&wants);
    assert_eq!((made.len(), made[0].call.tool.as_str()), (1, "get_weather"));
    let wants = held.answer(2, "sunny");
    let messages = &request(&wants).messages;
    assert!(messages[3].text().contains("nobody is here to agree"));
    assert!(messages[4].text().contains("sunny"));
}

#[test]
fn a_rule_of_a_server_that_wants_somebody_asked_is_asked_about() {
    let mut held = Loop::new(Settings {
        approval: Approval::Ask,
        ..Settings::default()
    });
    held.say("Go.");
    let wants = held.reply("", &[("weather__get-alerts", json!({"state": "CA"}))]);
    let due = calls(&wants)[0];
    assert_eq!(
        (due.is_agreed, due.server.as_deref()),
        (false, Some("weather"))
    );
    let outcome = Outcome::WantsConsent("rules[0]".to_owned());
    let wants = held.tell(Event::Answered { number: 1, outcome });
    assert_eq!(approvals(&wants)[0].rule.as_deref(), Some("rules[0]"));
    let wants = held.decide(1, Verdict::Once);
    assert!(calls(&wants)[0].is_agreed);
    let wants = held.answer(1, "none");
    assert!(
        request(&wants)
            .messages
            .last()
            .unwrap()
            .text()
            .contains("none")
    );
}

#[test]
fn a_call_that_was_agreed_to_is_made_once_whatever_is_said_of_rules() {
    for approval in [Approval::Ask, Approval::Yes] {
        let mut held = Loop::new(Settings {
            approval,
            ..Settings::default()
        });
        held.say("Go.");
        let mut wants = held.reply("", &[("create_task", json!({"title": "a"}))]);
        if approval == Approval::Ask {
            wants = held.decide(1, Verdict::Once);
        }
        assert_eq!(calls(&wants).len(), 1);
        let outcome = Outcome::WantsConsent("once more".to_owned());
        let wants = held.tell(Event::Answered { number: 1, outcome });
        assert_eq!((approvals(&wants).len(), calls(&wants).len()), (0, 0));
        let last = request(&wants).messages.last().unwrap();
        assert!(last.text().contains("wants somebody to agree"), "{last:?}");
    }
}

#[test]
fn a_model_that_goes_on_calling_after_its_rounds_calls_nothing_more() {
    let mut held = Loop::new(Settings {
        budget: Budget {
            rounds: 2,
            ..Budget::default()
        },
        ..Settings::default()
    });
    held.say("Go.");
    for city in ["A", "B"] {
        let wants = held.reply("", &[("get_weather", json!({"city": city}))]);
        let number = calls(&wants)[0].number;
        held.answer(number, "sunny");
    }
    let wants = held.reply("", &[("get_weather", json!({"city": "C"}))]);
    assert!(calls(&wants).is_empty(), "{wants:?}");
    assert_eq!(ending(&wants).how, End::Spent(Spent::Rounds));
}

#[test]
fn answer_that_was_cut_off_makes_none_of_its_calls() {
    let mut held = Loop::new(Settings {
        approval: Approval::Yes,
        ..Settings::default()
    });
    held.say("Go.");
    let call = |name: &str, arguments: Value| SaidCall {
        id: None,
        name: name.to_owned(),
        arguments,
        is_thought: false,
    };
    let wants = held.tell(Event::Replied(Reply {
        calls: vec![
            call("get_weather", json!({"city": "Rome"})),
            call("create_task", json!("{\"title\": \"half of wh")),
        ],
        is_cut: true,
        ..Reply::default()
    }));
    assert!(calls(&wants).is_empty());
    let messages = &request(&wants).messages;
    let is_told = |part: &str| messages.iter().any(|message| message.text().contains(part));
    assert!(
        is_told("cut off in the middle") && is_told("incomplete"),
        "{messages:?}"
    );
}

#[test]
fn a_tool_that_is_there_is_never_taken_for_one_of_a_like_name() {
    let mut many: Vec<Described> = (0..200)
        .map(|at| described(&format!("make_things_{at}"), Nature::Reads))
        .collect();
    many.push(described("create_tasks", Nature::Reads));
    many.push(described("create_task", Nature::Reads));
    many.push(described("uninstall_package", Nature::Changes));
    let mut held = Loop::with(
        Settings {
            approval: Approval::Yes,
            ..Settings::default()
        },
        Tools::new(many),
    );
    held.say("Anything with create_tasks?");
    for name in ["create_task", "create_tasks"] {
        let wants = held.reply("", &[(name, json!({}))]);
        let due = calls(&wants)[0];
        assert_eq!(due.call.tool, name);
        held.answer(due.number, "done");
    }
    let wants = held.reply("", &[("install_package", json!({}))]);
    assert!(calls(&wants).is_empty(), "{wants:?}");
}

fn described(name: &str, nature: Nature) -> Described {
    Described {
        name: name.to_owned(),
        description: String::new(),
        schema: json!({"type": "object"}),
        lean: None,
        server: None,
        nature,
    }
}

#[test]
fn budgets_end_a_turn_and_say_which() {
    let price = Some(Price {
        input: 1_000_000.0,
        output: 0.0,
    });
    for (budget, price, spent) in [
        (
            Budget {
                tokens: Some(200),
                ..Budget::default()
            },
            None,
            Spent::Tokens,
        ),
        (
            Budget {
                cost: Some(150.0),
                ..Budget::default()
            },
            price,
            Spent::Money,
        ),
        (
            Budget {
                time: Some(Duration::from_secs(5)),
                ..Budget::default()
            },
            None,
            Spent::Time,
        ),
    ] {
        let mut held = Loop::new(Settings {
            budget,
            price,
            ..Settings::default()
        });
        held.say("Go.");
        held.reply("", &[("get_weather", json!({"city": "A"}))]);
        held.now = Duration::from_secs(2);
        let wants = held.answer(1, "a");
        assert!(matches!(wants.last(), Some(Want::Ask(_))), "{spent:?}");
        held.reply("", &[("get_weather", json!({"city": "B"}))]);
        held.now = Duration::from_secs(6);
        let wants = held.answer(2, "b");
        assert_eq!(ending(&wants).how, End::Spent(spent));
        assert_eq!(ending(&wants).cost.is_some(), price.is_some());
    }
}

#[test]
fn the_time_that_a_person_takes_is_not_counted() {
    let budget = Budget {
        time: Some(Duration::from_secs(5)),
        ..Budget::default()
    };
    let settings = Settings {
        budget,
        approval: Approval::Ask,
        ..Settings::default()
    };
    let mut held = Loop::new(settings);
    held.say("Go.");
    assert_eq!(held.chat.deadline(), Some(Duration::from_secs(5)));
    held.reply("", &[("create_task", json!({"title": "a"}))]);
    assert_eq!(held.chat.deadline(), None);
    held.now = Duration::from_secs(3_600);
    held.decide(1, Verdict::Once);
    assert_eq!(held.chat.deadline(), Some(Duration::from_secs(3_605)));
    let wants = held.answer(1, "ok");
    assert!(matches!(wants.last(), Some(Want::Ask(_))));
}

#[test]
fn a_turn_that_is_stopped_leaves_a_conversation_that_goes_on() {
    let mut held = Loop::new(Settings::default());
    held.say("Go.");
    held.reply(
        "Looking.",
        &[
            ("get_weather", json!({"city": "A"})),
            ("get_weather", json!({"city": "B"})),
        ],
    );
    held.answer(1, "a");
    let wants = held.tell(Event::Stopped {
        said: String::new(),
    });
    assert_eq!(ending(&wants).how, End::Stopped);
    assert!(!held.chat.is_busy());
    // What comes late is nobody's.
    assert!(held.answer(2, "late").is_empty());
    let wants = held.say("And?");
    let answers = request(&wants)
        .messages
        .iter()
        .filter(|message| matches!(message, Message::Tool(_)));
    assert_eq!(answers.count(), 2, "every call has an answer");
}

fn many(number: usize) -> Tools {
    Tools::new((0..number).map(|at| Described {
        name: format!("server{}__tool_{at}", at / 20),
        description: match at {
            777 => "Tells weather alerts of a state.".to_owned(),
            1_500 => "Converts money between currencies.".to_owned(),
            _ => format!("Does the thing of number {at} with care."),
        },
        schema: json!({"type": "object", "properties": {"state": {"type": "string"}}}),
        lean: None,
        server: Some(format!("server{}", at / 20)),
        nature: Nature::Reads,
    }))
}

#[test]
fn of_too_many_tools_those_are_shown_that_the_question_may_need() {
    let mut held = Loop::with(Settings::default(), many(2_000));
    let wants = held.say("Any weather alerts in California?");
    let asked = request(&wants);
    let names: Vec<&str> = asked.tools.iter().map(|tool| tool.name()).collect();
    assert!(
        names.contains(&"server38__tool_777") && names[0] == "find_tools",
        "{names:?}"
    );
    assert!(names.len() <= 64);
    let chosen = |want: &&Want| matches!(want, Want::Tell(Note::Chosen { of: 2_000, .. }));
    assert_eq!(wants.iter().filter(chosen).count(), 1);
    // What it finds can be called from then on.
    let wants = held.reply("", &[("find_tools", json!({"query": "convert currency"}))]);
    let asked = request(&wants);
    assert!(
        asked
            .messages
            .last()
            .unwrap()
            .text()
            .contains("server75__tool_1500")
    );
    assert!(
        asked
            .tools
            .iter()
            .any(|tool| tool.name() == "server75__tool_1500")
    );
    let wants = held.reply("", &[("server75__tool_1500", json!({"state": "x"}))]);
    assert_eq!(calls(&wants).len(), 1);
}

#[test]
fn a_tool_that_is_not_shown_is_called_by_its_name_all_the_same() {
    let mut held = Loop::with(Settings::default(), many(2_000));
    held.say("Any weather alerts?");
    let wants = held.reply("", &[("server10__tool_200", json!({"state": "CA"}))]);
    assert_eq!(calls(&wants)[0].call.tool, "server10__tool_200");
}

#[test]
fn the_room_is_what_is_needed_and_nothing_is_left_out_without_a_word() {
    let context = Context::of(4_096);
    let mut held = Loop::new(Settings {
        context,
        ..Settings::default()
    });
    let wants = held.say("Hello.");
    let room = request(&wants).context;
    assert!((2_048..=4_096).contains(&room), "{room}");
    let left_out = |wants: &[Want]| {
        wants
            .iter()
            .any(|want| matches!(want, Want::Tell(Note::LeftOut(_))))
    };
    assert!(!left_out(&wants));
    for at in 1..=12 {
        held.reply("", &[("search_web", json!({"query": format!("{at}")}))]);
        let long = format!("{at} {}", "word ".repeat(800));
        held.answer(1, &long);
        held.reply("Well.", &[]);
        let wants = held.say("And?");
        let asked = request(&wants);
        assert!(asked.context <= 4_096);
        assert!(matches!(asked.messages[0], Message::System(_)));
        assert_eq!(asked.messages.last().unwrap().text(), "And?");
        if at > 4 {
            assert!(left_out(&wants), "at {at}");
        }
    }
    // A question that does not fit by itself is told of.
    held.reply("Well.", &[]);
    let wants = held.say(&"word ".repeat(10_000));
    assert!(
        wants
            .iter()
            .any(|want| matches!(want, Want::Tell(Note::TooLong)))
    );
}

#[test]
fn the_same_events_want_the_same() {
    let events = || {
        let mut held = Loop::new(Settings {
            approval: Approval::Ask,
            ..Settings::default()
        });
        let mut wants = held.say("Go.");
        wants.extend(held.reply(
            "",
            &[
                ("create_task", json!({"title": "a"})),
                ("get_weather", json!({"city": "A"})),
            ],
        ));
        wants.extend(held.decide(1, Verdict::Once));
        wants.extend(held.answer(1, "a"));
        wants.extend(held.answer(2, "b"));
        wants.extend(held.reply("Done.", &[]));
        format!("{wants:?}")
    };
    assert_eq!(events(), events());
}

#[test]
fn tools_come_and_go() {
    let mut held = Loop::new(Settings::default());
    let wants = held.say("Go.");
    assert_eq!(request(&wants).tools.len(), 10);
    held.reply("", &[("get_weather", json!({"city": "A"}))]);
    held.chat.set_tools(many(3));
    let wants = held.answer(1, "a");
    let names: Vec<&str> = request(&wants)
        .tools
        .iter()
        .map(|tool| tool.name())
        .collect();
    assert_eq!(
        names,
        ["server0__tool_0", "server0__tool_1", "server0__tool_2"]
    );
    // One that has gone is no tool any more.
    let wants = held.reply("", &[("get_weather", json!({"city": "B"}))]);
    assert!(
        request(&wants)
            .messages
            .last()
            .unwrap()
            .text()
            .contains("There is no tool `get_weather`")
    );
}
