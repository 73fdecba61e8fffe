//! What a model is charged for the tools: name, description and input schema, in o200k tokens.

use orchestra_hub::{Provider, ToolDescriptor, Toolset};
use orchestra_wire::RawJson;
use serde_json::{Value, json};

use crate::bench::Bench;

pub(crate) fn cost(tool: &ToolDescriptor, schema: &RawJson) -> usize {
    let schema: Value = schema.parse().unwrap();
    let charged =
        json!({"name": tool.name, "description": tool.description, "input_schema": schema});
    tiktoken_rs::o200k_base_singleton()
        .encode_ordinary(&charged.to_string())
        .len()
}

#[tokio::test]
async fn the_tools_fit_their_budget() {
    let bench = Bench::new();
    let catalog = bench.builtin.catalog().borrow().clone();
    let shown = |tool: &ToolDescriptor| Toolset::Lean.shows(tool);
    assert_eq!(catalog.tools.iter().filter(|tool| shown(tool)).count(), 21);
    let mut costs: Vec<(usize, &str)> = catalog
        .tools
        .iter()
        .map(|tool| (cost(tool, &tool.input_schema), tool.name.as_str()))
        .collect();
    costs.sort_unstable_by(|a, b| b.cmp(a));
    let all: usize = costs.iter().map(|(cost, _)| cost).sum();
    assert!(all <= 8_000, "{all} tokens of {}: {costs:?}", costs.len());
    let mut costs: Vec<(usize, &str)> = catalog
        .tools
        .iter()
        .filter(|tool| shown(tool))
        .map(|tool| {
            let schema = tool.lean_schema.as_ref().unwrap_or(&tool.input_schema);
            (cost(tool, schema), tool.name.as_str())
        })
        .collect();
    costs.sort_unstable_by(|a, b| b.cmp(a));
    let lean: usize = costs.iter().map(|(cost, _)| cost).sum();
    println!("all: {all} tokens, lean: {lean}, largest first: {costs:?}");
    assert!(lean <= 1_800, "{lean} tokens of the lean set: {costs:?}");
}

#[tokio::test]
async fn descriptions_are_short() {
    let bench = Bench::new();
    for tool in &bench.builtin.catalog().borrow().tools {
        let words = tool
            .description
            .as_ref()
            .unwrap()
            .split_whitespace()
            .count();
        assert!((1..25).contains(&words), "{}: {words} words", tool.name);
        assert!(tool.title.is_some(), "{}", tool.name);
    }
}

/// What `get_context` may cost is counted without knowing the model; what a usual one is charged for the
/// answer stays within it, whatever the texts are.
#[tokio::test]
async fn context_costs_no_more_than_it_may() {
    let texts = [
        "The parser keeps its tokens in an arena, because freeing them one by one took longer than \
         parsing did; see the notes of March for the numbers.",
        "fn parse(input: &str) -> Result<Vec<Token>, Error> { let mut lexer = Lexer::new(input); \
         while let Some(token) = lexer.next()? { tokens.push(token); } Ok(tokens) }",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 2026-03-01T12:00:00Z 10.0.0.17",
        "解析器将其标记保存在竞技场中，因为逐个释放它们比解析本身花费的时间更长。",
        "構文解析器はトークンをアリーナに保持する。一つずつ解放すると解析より時間がかかるためだ。",
        "파서는 토큰을 아레나에 보관한다. 하나씩 해제하는 것이 구문 분석보다 오래 걸렸기 때문이다.",
        "Парсер хранит свои токены в арене, потому что освобождать их по одному было дольше, чем разбирать.",
        "يحتفظ المحلل برموزه في ساحة لأن تحريرها واحدا تلو الآخر استغرق وقتا أطول من التحليل",
        "पार्सर अपने टोकन को एरिना में रखता है क्योंकि उन्हें एक-एक करके मुक्त करने में अधिक समय लगता था",
        "ตัวแยกวิเคราะห์เก็บโทเค็นไว้ในสนามเพราะการปล่อยทีละรายการใช้เวลานานกว่าการแยกวิเคราะห์",
        "🦀🚀🔥 👩‍👩‍👧‍👦 🏳️‍🌈 𝔘𝔫𝔦𝔠𝔬𝔡𝔢",
    ];
    let mut over = Vec::new();
    for (at, text) in texts.iter().enumerate() {
        let bench = Bench::new();
        bench.ok("create_project", json!({"name": "My App"})).await;
        for number in 0..12 {
            // Others beside it, so that no two are alike.
            let beside = texts[(at + number) % texts.len()];
            let content = format!(
                "cache {number}: {beside} {}",
                format!("{text} ").repeat(number % 4)
            );
            let save = json!({"project": "my-app", "content": content, "summary": format!("cache {text}"),
                "tags": ["cache", format!("n{number}")], "source": "user"});
            bench.ok("save_memory", save).await;
        }
        for budget in [100, 200, 500, 1_000, 4_000] {
            let ask =
                json!({"project": "my-app", "query": "cache", "max_tokens": budget, "limit": 50});
            let answer = bench.call("get_context", ask).await;
            let charged = tiktoken_rs::o200k_base_singleton()
                .encode_ordinary(&answer.text)
                .len();
            let pieces = answer.value["items"].as_array().unwrap().len();
            assert!(pieces > 0, "{budget}: {text}");
            if charged > budget {
                over.push(format!("{charged} of {budget} for {pieces}: {text}"));
            }
        }
    }
    assert!(over.is_empty(), "{over:#?}");
}
