//! The board for a job in a sandbox, served by another program for each connection.

use orchestra_process::Sandbox;
use orchestra_runner::supervise::{BoardServer, Order, Program, Shell};

use super::rig::{Rig, program, run};

/// An order for a job in a sandbox that may run the example.
fn confined(rig: &Rig, line: &str, server: &str) -> Order {
    let path = std::env::var_os("PATH").unwrap();
    let order = rig.order(Program::Shell {
        shell: Shell::Sh,
        line: line.replace("EXAMPLE", program().to_str().unwrap()),
        error_action: None,
    });
    Order {
        sandbox: Sandbox::Workspace {
            paths: Vec::new(),
            read_only: vec![program()],
            protected: Vec::new(),
        },
        board: Some(BoardServer {
            program: "/bin/sh".into(),
            arguments: ["-c", server, "plan/job"].map(Into::into).to_vec(),
            environment: vec![("PATH".into(), path)],
        }),
        ..order
    }
}

#[tokio::test]
async fn each_connection_of_a_sandboxed_job_has_a_server_that_knows_the_job() {
    let rig = Rig::new();
    // More connections at once than are served at once.
    let order = confined(
        &rig,
        "EXAMPLE board 1 2 3 4 5 6",
        r#"read -r line; echo "$0 $line $$""#,
    );
    let ending = run(&order).await;
    assert!(ending.is_success(), "{ending}: {:?}", rig.texts());
    let texts = rig.texts();
    let mut servers = Vec::new();
    for (number, text) in (1..=6).zip(&texts) {
        let server = text.strip_prefix(&format!("plan/job {number} "));
        servers.push(server.unwrap_or_else(|| panic!("{texts:?}")));
    }
    servers.sort_unstable();
    servers.dedup();
    assert_eq!(servers.len(), 6, "{texts:?}");
}

#[tokio::test]
async fn server_has_ended_in_order_when_the_end_of_its_job_is_reported() {
    let rig = Rig::new();
    let written = rig.home().join("written");
    // A process that holds a connection is killed with the job.
    let server = format!(
        "read -r line; echo open; while read -r line; do :; done; echo end > {}",
        written.display()
    );
    let line = "EXAMPLE hold & EXAMPLE board 1";
    let ending = run(&confined(&rig, line, &server)).await;
    assert!(ending.is_success(), "{ending}: {:?}", rig.texts());
    assert_eq!(std::fs::read_to_string(written).unwrap(), "end\n");
}

#[tokio::test]
async fn job_without_a_board_has_no_descriptor() {
    let rig = Rig::new();
    let mut order = confined(&rig, r#"echo "<$ORCHESTRA_SOCKET>""#, "true");
    order.board = None;
    assert!(run(&order).await.is_success());
    assert_eq!(rig.texts(), ["<>"]);
}
