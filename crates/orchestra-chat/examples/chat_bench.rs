//! How quick conversations are: `cargo xtask bench chat` builds and runs it, with the program as its argument. It
//! measures what a turn costs beside the model and the tools, how soon a word is shown that has come, and how soon
//! the program asks for something to be typed.

#![expect(clippy::print_stdout, reason = "it is a measurement")]
#![expect(clippy::unwrap_used, reason = "a measurement fails by panicking")]

#[path = "../../orchestra-runner/examples/plans_bench/bars.rs"]
mod bars;
#[path = "chat_bench/prompt.rs"]
mod prompt;
#[path = "chat_bench/turn.rs"]
mod turn;
#[path = "chat_bench/words.rs"]
mod words;

use bars::Bars;

fn main() {
    let program = std::env::args_os().nth(1);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut bars = Bars::default();
    runtime.block_on(turn::measure(&mut bars));
    runtime.block_on(words::measure(&mut bars));
    match program {
        Some(program) => prompt::measure(program.as_ref(), &mut bars),
        None => println!("no program is named: how soon it asks is not measured"),
    }
    bars.print();
}
