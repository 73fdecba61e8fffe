//! Tests of the program as its users meet it: real processes in directories of their own.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(target_os = "linux")]
mod actors;
mod annotations;
mod audit;
mod beyond;
#[cfg(target_os = "linux")]
mod board_soak;
mod bridge;
mod bridge_away;
mod bridge_own;
mod certs;
#[cfg(target_os = "linux")]
mod chat;
#[cfg(target_os = "linux")]
mod chat_batch;
#[cfg(target_os = "linux")]
mod chat_calls;
#[cfg(target_os = "linux")]
mod chat_guide;
mod chat_real;
mod chat_terminal;
mod cli;
mod cli_refused;
mod convert;
#[cfg(target_os = "linux")]
mod copied_workspace;
mod dashboard;
mod doctor;
#[cfg(target_os = "linux")]
mod durable;
#[cfg(target_os = "linux")]
mod earlier_workspace;
mod elsewhere;
mod ended_sessions;
#[cfg(target_os = "linux")]
mod engine;
#[cfg(target_os = "linux")]
mod engine_faults;
#[cfg(target_os = "linux")]
mod every_command;
mod faces;
mod foreign;
mod git_operations;
mod growth;
mod guide;
mod hang_up;
mod hook;
#[cfg(target_os = "linux")]
mod hostile_links;
#[cfg(target_os = "linux")]
mod hostile_repository;
mod import;
mod init;
mod init_entries;
#[cfg(target_os = "linux")]
mod job_board;
#[cfg(target_os = "linux")]
mod killed;
#[cfg(target_os = "linux")]
#[path = "../../../orchestra-plugin/tests/it/language_rig.rs"]
mod language_rig;
#[cfg(target_os = "linux")]
mod local_users;
mod mcp;
mod mcp_approve;
mod mcp_asks;
mod mcp_call;
mod mcp_clients;
mod mcp_failed;
mod mcp_hints;
mod mcp_login;
mod mcp_logs;
mod mcp_plugins;
mod mcp_replay;
mod mcp_shared;
mod mcp_shown;
mod mcp_sign_in;
mod mcp_started;
mod mcp_states;
mod mcp_tap;
mod mcp_trace;
mod memory;
#[cfg(target_os = "linux")]
mod memory_faults;
mod memory_model;
#[path = "../../../orchestra-chat/tests/it/fake.rs"]
#[expect(dead_code, reason = "the tests of the back ends have it say more")]
mod models;
mod oauth;
mod odd_json;
#[cfg(target_os = "linux")]
mod odd_members;
mod one_board;
mod others;
mod overload;
#[cfg(target_os = "linux")]
mod ownership;
mod plan_agents;
mod plan_bounds;
mod plan_consent;
mod plan_git;
mod plan_killed;
mod plan_settings;
mod plan_shell;
mod plan_told;
mod plan_trust;
mod plan_watch;
mod plans;
mod planted;
mod plugin_authority;
mod plugin_cmd;
mod plugin_documents;
#[cfg(target_os = "linux")]
mod plugin_languages;
mod plugins;
#[path = "../../../orchestra-gateway/tests/it/ports.rs"]
mod ports;
mod protocol;
mod pty;
mod readme;
mod realm;
mod removed;
mod run_directory;
#[cfg(target_os = "linux")]
#[path = "../../../orchestra-gateway/tests/it/runtimes.rs"]
mod runtimes;
mod secrets;
mod security;
mod skill_examples;
mod skills;
#[cfg(target_os = "linux")]
#[path = "../../../orchestra-runner/tests/it/skip.rs"]
mod skip;
mod stdio;
mod stopping;
mod support;
mod sync;
#[cfg(target_os = "linux")]
mod sync_soak;
mod tool;
mod tool_theirs;
mod top;
mod up;
