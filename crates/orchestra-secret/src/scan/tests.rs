//! Forms of secrets in texts, and texts without secrets.

use std::{collections::HashMap, mem::discriminant};

use proptest::prelude::*;

use super::{STEMS, Scanner, TRIGGERS};
use crate::sample::samples;
use crate::table::{SECRET_ENDS, SECRET_LAST_WORDS, SECRET_PARTS, SECRET_WORDS};
use crate::{Masker, is_secret_name, text};

fn check(cases: &[(&str, &str)]) {
    for (given, expected) in cases {
        assert_eq!(text(given), *expected, "{given}");
        assert_eq!(text(expected), *expected, "masked twice: {given}");
    }
}

#[test]
fn tokens_are_masked_and_their_prefix_remains() {
    check(&[
        ("use ghp_0123456789abcdefghij now", "use ghp_*** now"),
        ("\"sk-ant-api03-0123456789abcdef\"", "\"sk-ant-***\""),
        ("glpat-AbCdEfGh12345678_-xy.", "glpat-***."),
        ("key sk-abcdefghijklmnop1.", "key sk-***."),
        ("(npm_0123456789abcdefABCDEF0123456789abcd)", "(npm_***)"),
        (
            "task-sk-ant-0123456789abcdefgh sk-1",
            "task-sk-ant-*** sk-1",
        ),
        ("a\\nghp_0123456789abcdefghij", "a\\nghp_***"),
        (
            "\u{1b}[31mAKIAIOSFODNN7EXAMPLE\u{1b}[0m",
            "\u{1b}[31mAKIA***\u{1b}[0m",
        ),
        ("TOKEN=ghp_0123456789abcdefghij", "TOKEN=ghp_***"),
        (
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
            "eyJ***",
        ),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7bq5\nabcdefghijk1\n-----END RSA PRIVATE KEY-----\nok",
            "-----BEGIN RSA PRIVATE KEY-----\n***\n-----END RSA PRIVATE KEY-----\nok",
        ),
    ]);
}

#[test]
fn values_under_secret_names_are_masked() {
    check(&[
        ("DB_PASSPHRASE=hunter2222", "DB_PASSPHRASE=***"),
        ("export API_KEY=12345 && run", "export API_KEY=*** && run"),
        ("DB_PASS='two words' ./run", "DB_PASS='***' ./run"),
        ("{\"password\": \"a\\\"b-2\"}", "{\"password\": \"***\"}"),
        (
            "{\\\"password\\\": \\\"swordfish-7\\\"}",
            "{\\\"password\\\": \\\"***\\\"}",
        ),
        (
            "os.environ['DB_PASSWORD'] = 'hunter22'",
            "os.environ['DB_PASSWORD'] = '***'",
        ),
        (
            "\\n(\\\"DB_PASSWORD\\\", \\\"hunter22\\\")",
            "\\n(\\\"DB_PASSWORD\\\", \\\"***\\\")",
        ),
        ("login --password hunter2 now", "login --password *** now"),
        ("--token='hunter2'", "--token='***'"),
        ("token=AbCdEfGhIjKlMnOpQrStUvWx", "token=***"),
        (
            "\"token\": \"AbCdEfGhIjKlMnOpQrStUvWx\"",
            "\"token\": \"***\"",
        ),
        ("Server=x;Uid=me;Pwd=hunter22;", "Server=x;Uid=me;Pwd=***;"),
        ("API-Key: abc123, b", "API-Key: ***, b"),
        ("password:\n  hunter2222", "password:\n  ***"),
        (
            "{\"secrets\": [\"hunter21\", \"hunter22\"]}",
            "{\"secrets\": [\"***\", \"***\"]}",
        ),
    ]);
}

#[test]
fn credentials_of_headers_and_urls_are_masked() {
    check(&[
        (
            "Authorization: Bearer  abc9 x",
            "Authorization: Bearer  *** x",
        ),
        (
            "Authorization: Basic bWU6cHc= x",
            "Authorization: Basic *** x",
        ),
        (
            "\"Authorization\": \"Bearer abc.def\"",
            "\"Authorization\": \"Bearer ***\"",
        ),
        ("Cookie: a=one; b=two", "Cookie: ***"),
        ("https://h/p?token=abc&x=1", "https://h/p?token=***&x=1"),
        ("https://h/p?x=1&API_KEY=abc", "https://h/p?x=1&API_KEY=***"),
        (
            "https://h/cb?a=b&state=zyx#access_token=abc",
            "https://h/cb?a=b&state=***#access_token=***",
        ),
        (
            "git clone https://me:hunter2@host/x.git",
            "git clone https://me:***@host/x.git",
        ),
        ("postgres://app:pa/ss2@db/x", "postgres://app:***@db/x"),
        ("https://0123456789abcdef@host/x", "https://***@host/x"),
    ]);
}

#[test]
fn arguments_of_programs_are_masked() {
    check(&[
        ("mysql -u root -pswordfish shop", "mysql -u root -p*** shop"),
        (
            "sshpass -p swordfish ssh me@host",
            "sshpass -p *** ssh me@host",
        ),
        ("curl -ume:swordfish https://x", "curl -ume:*** https://x"),
        (
            "docker login -u me -p swordfish",
            "docker login -u me -p ***",
        ),
        (
            "kubectl create secret generic s --from-literal=k=swordfish",
            "kubectl create secret generic s --from-literal=k=***",
        ),
        ("echo swordfish | sudo -S ls", "echo *** | sudo -S ls"),
        ("sudo -S ls <<< 'swordfish'", "sudo -S ls <<< '***'"),
        ("bash -c 'mysql -pswordfish db'", "bash -c 'mysql -p*** db'"),
        (
            "sudo sh -c \"mysql -pswordfish db\"",
            "sudo sh -c \"mysql -p*** db\"",
        ),
        ("redis-cli -a swordfish ping", "redis-cli -a *** ping"),
        ("set password hunter2", "set password ***"),
        (
            "{\"text\": \"mysql -pswordfish shop\\nredis-cli -a swordfish ping\\n\"}",
            "{\"text\": \"mysql -p*** shop\\nredis-cli -a *** ping\\n\"}",
        ),
        (
            "mysql --ssl-ca=C:\\new\\nina\\ca -pswordfish",
            "mysql --ssl-ca=C:\\new\\nina\\ca -p***",
        ),
    ]);
}

#[test]
fn value_on_the_next_line_is_masked_in_a_text_and_in_a_stream() {
    for (given, expected) in [
        (
            "password: |\n  kR7vQ2mZx9\nuser: me",
            "password: |\n  ***\nuser: me",
        ),
        ("token: >-\r\n  kR7vQ2mZx9\r\n", "token: >-\r\n  ***\r\n"),
        (
            "sudo -S make <<EOF\nswordfish\nEOF\n",
            "sudo -S make <<EOF\n***\nEOF\n",
        ),
        (
            "docker login --password-stdin <<'EOF'\nswordfish\nEOF\nls\n",
            "docker login --password-stdin <<'EOF'\n***\nEOF\nls\n",
        ),
        (
            "- name: DB_PASSWORD\n  value: hunter2\n",
            "- name: DB_PASSWORD\n  value: ***\n",
        ),
        (
            "curl -s \\\n  -u me:swordfish https://x\n",
            "curl -s \\\n  -u me:*** https://x\n",
        ),
        (
            "{\n  \"name\": \"DB_PASSWORD\",\n  \"value\": \"hunter2\"\n}\n",
            "{\n  \"name\": \"DB_PASSWORD\",\n  \"value\": \"***\"\n}\n",
        ),
        (
            "\"password\": {\n  \"value\": \"hunter2\"\n}\n",
            "\"password\": {\n  \"value\": \"***\"\n}\n",
        ),
    ] {
        assert_eq!(text(given), expected, "{given}");
        assert_eq!(Masker::table().stream().text(given), expected, "{given}");
        assert_eq!(Masker::table().stream().text(expected), expected);
    }
    for plain in [
        "password: |\n  The password of the account.\n",
        "sudo -S make <<EOF\n$PASSWORD\nEOF\n",
        "sudo tee x <<EOF\nplain text\nEOF\n",
        "su - postgres <<EOF\ncreatedb shop\nEOF\n",
        "files:\n  x1y2z3\n",
        "- name: \"DB_PASSWORD\"\n  valueFrom: x\n- name: \"x\"\n  value: \"hunter2\"\n",
    ] {
        assert_eq!(text(plain), plain);
        assert_eq!(Masker::table().stream().text(plain), plain);
    }
}

#[test]
fn value_after_a_command_that_sets_a_variable_is_masked() {
    check(&[
        ("ENV DB_PASSWORD hunter2", "ENV DB_PASSWORD ***"),
        ("setx DB_PASSWORD hunter2", "setx DB_PASSWORD ***"),
        ("set -Ux API_TOKEN hunter2", "set -Ux API_TOKEN ***"),
    ]);
}

#[test]
fn tokens_without_a_prefix_are_masked() {
    let digest = "0123456789abcdef0123456789abcdef";
    let parts = [
        "MTA4oAtz4TFbY3pflkwyla4s",
        "zJxhvI",
        "3yvzPe9hB06wJpymDswpBcrQbvZjpT",
    ];
    for (given, expected) in [
        (format!("got {digest}-us12 here"), "got *** here"),
        (format!("got {}_mmk", "a7B2c9".repeat(6)), "got ***"),
        (format!("got {}.", parts.join(".")), "got ***."),
    ] {
        assert_eq!(text(&given), expected);
    }
    for plain in [
        format!("{digest}-user12"),
        format!("{digest}-us"),
        "MTA4oAtz4TFbY3pflkwyla4s.zip.3yvzPe9hB06wJpymDswpBcrQbvZjpT".to_owned(),
        format!("4b1d{}", "0c9e".repeat(15)),
    ] {
        assert_eq!(text(&plain), plain);
    }
}

#[test]
fn plain_text_is_not_changed() {
    for plain in [
        "setx PATH \"C:\\x1y2z3;C:\\tools2go\"",
        "ENV PATH /usr/local/x1y2z3/bin",
        "set -x EDITOR vim2go",
        "commit 4b1d0f3c5a7b9d1e3f5a7b9d1e3f5a7b9d1e3f5a",
        "id 4ea38b7b-f563-7709-4bae-87aea2b2c3d4",
        "echo y | sudo pacman -Syu vim2go",
        "{\"name\": \"password\", \"type\": \"string\", \"value\": \"required\"}",
        "{\"name\": \"sort_key\", \"value\": \"x1y2z3w4\"}",
        "{\"password\": {\"type\": \"string\", \"minLength\": 12}}",
        "\"tokens\": [\"hello\", \"world2go\"]",
        "\"required\": [\"password\", \"username\"]",
        "bundle config path vendor/bundle2go",
        "bundle config build.nokogiri --use-system-libraries",
        "curl -sSL https://host:8080/x1y2z3 -o out:file",
        "docker run -p 5432:5432 -p 127.0.0.1:5432:5432 image",
        "if a | b { c }",
        "| password | string | yes |",
        "password for the account: unknown",
        "the password for the user is x",
        "sqlplus / as sysdba",
        "sqlplus me@orcl @scripts/x1y2z3.sql",
        "cat notes2go.txt | sudo -S tee x",
        "(cd x1y2z3; echo done); sudo -S make",
        "<label name=\"password\">Password</label>",
        "re_compile_the_pattern_of_the_lexer_in_unicode",
        "Auth methods: AUTH PLAIN",
        "CREATE USER me IDENTIFIED WITH auth_socket",
        "https://username:password@host",
        "the token was lost",
        "cargo test -p wire",
        "Überraschung: 12 €",
        "sort -u names.txt",
        "sudo -u postgres psql -c 'select 1'",
        "ssh://git@host:22/x.git",
        "https://host:8080/a/@scope/b",
        "rg 'Token::new' src",
        "src/author.rs: 12 passed",
        "output_tokens: 12",
        "",
        "file:///a/b c.txt",
        "basic use",
        "task:ORC-1",
        "risk-averse-and-other-long-words",
        "let token = parse_token(input)?;",
        "password: String,",
        "token: &str",
        "fn password(&self) -> &str {",
        "if token == Token::Eof {",
        "self.token = token;",
        "GITHUB_TOKEN: ${{ secrets.GITHUB_TOKEN }}",
        "--token <TOKEN>  The token",
        "Use `--password` to set a password",
        "api_key = os.environ[\"API_KEY\"]",
        "TOKEN=$(cat token.txt)",
        "https://user:password@host",
        "docker run -u 1000:1000 -p 80:80 image",
        "mysql -p shop",
        "npm_config_registry=x",
        "key: value",
        "\"key\": \"ORC-12\"",
        "session_id: 0123456789abcdef",
        "sha256:0123456789abcdef0123456789abcdef",
        "author = \"Ada Lovelace\"",
        "progressToken: 7",
        "echo hello | cat",
        "Bearer tokens are credentials.",
        "nextCursor: eyJvZmZzZXQiOjEwfQ==",
        "const TOKEN_BYTES: usize = 32;",
        "pass: bool,",
        "password=None)",
        "token=token,",
    ] {
        assert_eq!(text(plain), plain);
    }
    assert!(!is_secret_name("plain"));
}

/// Number of bytes that a search of `piece`, repeated `times`, examines.
fn steps(piece: &str, times: usize) -> usize {
    Scanner::of(&piece.repeat(times)).steps.get()
}

/// Returns whether twice as many repetitions of a text need more than twice as many steps.
fn is_superlinear(piece: &str, times: usize) -> bool {
    let (once, twice) = (steps(piece, times), steps(piece, 2 * times));
    twice > 2 * once + once / 2 + 4_096
}

#[test]
fn repeated_trigger_is_searched_in_linear_steps() {
    let endings = [
        "", " ", "=", "=\"", ": ", "='a", " a ", "=[\"", " Digest ", "\\\"", "{", "|", " <<< ",
        "://a:b", ":\n",
    ];
    let mut slow = Vec::new();
    for trigger in &TRIGGERS.texts {
        for ending in endings {
            let piece = format!("{trigger}{ending}");
            // The bounds of a value are reached with many repetitions only.
            if is_superlinear(&piece, 50) && is_superlinear(&piece, 2_000) {
                slow.push(format!("{piece:?}"));
            }
        }
    }
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}

#[test]
fn word_of_every_secret_name_contains_a_trigger() {
    let words = [SECRET_PARTS, SECRET_WORDS, SECRET_LAST_WORDS, SECRET_ENDS].concat();
    for word in words {
        assert!(STEMS.iter().any(|stem| word.contains(stem)), "{word}");
    }
}

#[test]
fn values_that_look_like_words_are_masked_under_strong_names() {
    check(&[
        ("password = \"correct horse battery\"", "password = \"***\""),
        ("api_key: 'abc def'", "api_key: '***'"),
        ("mongodb://user:pa(ss@host/db", "mongodb://user:***@host/db"),
        (
            "postgres://user:{abc}xyz@host/db",
            "postgres://user:***@host/db",
        ),
        (
            "<add key=\"Password\" value=\"hunter2\"/>",
            "<add key=\"Password\" value=\"***\"/>",
        ),
        (
            "- name: DB_PASSWORD\n  value: hunter2",
            "- name: DB_PASSWORD\n  value: ***",
        ),
        ("Server=x;Pwd=hunter", "Server=x;Pwd=***"),
        ("ansible_ssh_pass=hunter", "ansible_ssh_pass=***"),
        ("secret_key = correcthorse", "secret_key = ***"),
        ("password: letmein.now", "password: ***"),
        ("net user bob hunter2 /add", "net user bob *** /add"),
        ("ssh-keygen -N hunter", "ssh-keygen -N ***"),
        ("PIN=4711", "PIN=***"),
        ("BEARER=xyzxyz", "BEARER=***"),
    ]);
    for plain in [
        "password = getPassword()",
        "password = input",
        "password: config.password",
        "\"password\": \"must contain eight characters\"",
        "\"password\": \"Enter your password\"",
        "f\"https://{user}:{password}@{host}\"",
        "const PIN: u8 = 4;",
        "computed style of the node identified by `nodeId`.",
        "- name: DB_PASSWORD\n  value: $DB_PASSWORD",
    ] {
        assert_eq!(text(plain), plain);
    }
}

#[test]
fn logins_of_databases_with_any_characters_are_masked() {
    check(&[
        (
            "root:Ab3/x9Kq@tcp(db:3306)/shop",
            "root:***@tcp(db:3306)/shop",
        ),
        (
            "DSN=root:Ab3/x9Kq==@tcp(db:3306)/shop",
            "DSN=root:***@tcp(db:3306)/shop",
        ),
        (
            "mysql://root:Ab3/x9Kq@tcp(db:3306)/shop",
            "mysql://root:***@tcp(db:3306)/shop",
        ),
        (
            "数据库\u{3000}root:x9Kq2b@unix(/run/db)/shop",
            "数据库\u{3000}root:***@unix(/run/db)/shop",
        ),
        (
            "sqlplus scott/tiger7@//db:1521/orcl",
            "sqlplus scott/***@//db:1521/orcl",
        ),
        (
            "expdp scott/tiger7@db:1521/orclpdb directory=x",
            "expdp scott/***@db:1521/orclpdb directory=x",
        ),
        (
            "rman target sys/tiger7@a catalog me/tiger8@b",
            "rman target sys/***@a catalog me/***@b",
        ),
        (
            "sqlplus me/tiger7@db < sql/setup.sql > logs/out.log",
            "sqlplus me/***@db < sql/setup.sql > logs/out.log",
        ),
        (
            "sqlplus -s < sql/setup.sql me/tiger7@db 2>&1",
            "sqlplus -s < sql/setup.sql me/***@db 2>&1",
        ),
        ("sqlplus scott/tiger7", "sqlplus scott/***"),
    ]);
    for plain in ["sqlplus me@orcl", "sqlldr data/rows.json", "sqlplus a/b/c"] {
        assert_eq!(text(plain), plain);
    }
}

#[test]
fn secret_behind_a_placeholder_is_masked() {
    check(&[
        (
            "docker login -u <user> -p swordfish7",
            "docker login -u <user> -p ***",
        ),
        (
            "mysql -u <my user> -pswordfish7",
            "mysql -u <my user> -p***",
        ),
        (
            "<b>docker login</b> -p swordfish7",
            "<b>docker login</b> -p ***",
        ),
        (
            "wpa_passphrase <ssid> swordfish7",
            "wpa_passphrase <ssid> ***",
        ),
        (
            "docker login >log -p swordfish7",
            "docker login >log -p ***",
        ),
    ]);
}

#[test]
fn here_document_is_masked_to_its_end_in_a_text_and_in_a_stream() {
    for (given, expected) in [
        (
            "chpasswd <<EOF\nann:pw1x\nbob:pw2x\nkim:pw3x\nEOF\nls\n",
            "chpasswd <<EOF\n***\n***\n***\nEOF\nls\n",
        ),
        (
            "chpasswd <<EOF\r\nann:pw1x\r\nbob:pw2x\r\nkim:pw3x\r\nEOF\r\nls\r\n",
            "chpasswd <<EOF\r\n***\r\n***\r\n***\r\nEOF\r\nls\r\n",
        ),
        (
            "chpasswd <<EOF\nann:two words\n$USER:$PW\nbob:pw2x\nEOF\n",
            "chpasswd <<EOF\nann:two words\n***\n***\nEOF\n",
        ),
        (
            "chpasswd <<EOF\na:1\nb:2\nc:3\nd:4\ne:5\nf:6\ng:7\nh:8\ni:9\n",
            "chpasswd <<EOF\n***\n***\n***\n***\n***\n***\n***\n***\ni:9\n",
        ),
        (
            "sudo -S make <<-EOF\n\tswordfish\n\tEOF\nfi\ndone\n",
            "sudo -S make <<-EOF\n\t***\n\tEOF\nfi\ndone\n",
        ),
        (
            "sudo -S make <<-'EOF'\n\tswordfish\n\tEOF\nfi\n",
            "sudo -S make <<-'EOF'\n\t***\n\tEOF\nfi\n",
        ),
        (
            "sudo -S make <<\\EOF\nswordfish\nEOF\nfi\n",
            "sudo -S make <<\\EOF\n***\nEOF\nfi\n",
        ),
        (
            "chpasswd <<EOF\nann:pw1x \nbob:pw2x\t\r\nEOF \nls\n",
            "chpasswd <<EOF\n*** \n***\t\r\nEOF \nls\n",
        ),
        (
            "docker login \\\n  --password-stdin <<EOF\nswordfish\nEOF\nfi\n",
            "docker login \\\n  --password-stdin <<EOF\n***\nEOF\nfi\n",
        ),
    ] {
        assert_eq!(text(given), expected, "{given}");
        assert_eq!(Masker::table().stream().text(given), expected, "{given}");
    }
}

#[test]
fn identifiers_of_records_are_not_masked() {
    let digest = "b82548c31e5f7a9b0c2d4e6f8a1b3c5d7e9f0a2b";
    let id = "550e8400-e29b-41d4-a716-446655440000";
    for plain in [
        format!("1764482078|{digest}|web: add a page"),
        format!("1764482078000000|{digest}|web: add a page"),
        format!("20251128|{id}"),
        format!("20251128123045678|{id}"),
    ] {
        assert_eq!(text(&plain), plain);
    }
    check(&[
        (
            "123456789012345|a7B2c9FuR59kD1nhyD162dWWBwQ",
            "123456789012345|***",
        ),
        (
            "123456789012345|b82548c31e5f7a9b0c2d4e6f8a1b3c5d",
            "123456789012345|***",
        ),
    ]);
}

#[test]
fn code_that_resembles_a_statement_is_not_masked() {
    for plain in [
        "<button onClick={() => setUser(null)} className=\"btn\">Logout</button>",
        "ceph-osd --setuser ceph >/var/log/x",
        "redis: setuser me >x1y2z3",
        "arn:aws:lambda:*:*:function:my-func:prod",
        "arn:aws:lambda:*:*:layer:base:x1y2z3",
        "influx -host db.example -format json",
        "influx -port 8086 -import x1y2z3",
        "rclone copy ./keys/token remote:x",
        "if (ACLSetUser(u, op, len) >= limit2go) {",
        "client.aclSetUser(\"me\", \">\" + password2go)",
        "rdb.ACLSetUser(ctx, \"me\", fmt.Sprintf(\">%s\", pw2go))",
    ] {
        assert_eq!(text(plain), plain);
    }
    check(&[
        (
            "redis-cli acl setuser me on '>swordfish7'",
            "redis-cli acl setuser me on '>***'",
        ),
        (
            "\"ACL\", \"SETUSER\", \"me\", \">swordfish7\"",
            "\"ACL\", \"SETUSER\", \"me\", \">***\"",
        ),
        ("*:*:shop:me:swordfish7", "*:*:shop:me:***"),
        ("(*:*:*:me:swordfish7", "(*:*:*:me:***"),
        ("influx -t swordfish7 ping", "influx -t *** ping"),
        (
            "rclone config create x s3 token swordfish7",
            "rclone config create x s3 token ***",
        ),
        ("zip -qrP swordfish7 x.zip y", "zip -qrP *** x.zip y"),
        (
            "security add-generic-password -Uw swordfish7",
            "security add-generic-password -Uw ***",
        ),
        ("ldapsearch -LLLxw swordfish7", "ldapsearch -LLLxw ***"),
    ]);
}

#[test]
fn option_of_a_secret_behind_other_letters_is_masked() {
    check(&[
        ("unzip -oP swordfish7 x.zip", "unzip -oP *** x.zip"),
        ("unzip -joP swordfish7 x.zip", "unzip -joP *** x.zip"),
        ("zip -ryP swordfish7 x.zip y", "zip -ryP *** x.zip y"),
        ("ssh-keygen -yP swordfish7 -f k", "ssh-keygen -yP *** -f k"),
        ("ldapadd -cxw swordfish7", "ldapadd -cxw ***"),
        ("http -ba me:swordfish7 GET url", "http -ba me:*** GET url"),
        (
            "security add-generic-password -AUw swordfish7",
            "security add-generic-password -AUw ***",
        ),
    ]);
}

#[test]
fn password_of_a_redis_user_in_code_is_masked() {
    check(&[
        (
            "rdb.ACLSetUser(ctx, \"me\", \"on\", \">swordfish7\")",
            "rdb.ACLSetUser(ctx, \"me\", \"on\", \">***\")",
        ),
        (
            "client.aclSetUser('me', ['on', '>swordfish7'])",
            "client.aclSetUser('me', ['on', '>***'])",
        ),
        (
            "redis.acl(\"SETUSER\", \"me\", \"on\", \">swordfish7\")",
            "redis.acl(\"SETUSER\", \"me\", \"on\", \">***\")",
        ),
        (
            "client.acl_setuser(\"me\", \">swordfish7\")",
            "client.acl_setuser(\"me\", \">***\")",
        ),
        (
            "{\"text\": \"redis.acl(\\\"SETUSER\\\", \\\"me\\\", \\\">swordfish7\\\")\"}",
            "{\"text\": \"redis.acl(\\\"SETUSER\\\", \\\"me\\\", \\\">***\\\")\"}",
        ),
    ]);
}

#[test]
fn section_of_xml_with_signs_and_line_ends_is_masked() {
    check(&[
        (
            "<password><![CDATA[ab<7Q2x]]></password>",
            "<password><![CDATA[***]]></password>",
        ),
        (
            "<password><![CDATA[\n  hunter2x>\n]]></password>",
            "<password><![CDATA[\n  ***\n]]></password>",
        ),
    ]);
    let token = "a7B2c9".repeat(100);
    assert_eq!(
        text(&format!(
            "<refresh_token><![CDATA[ {token} ]]></refresh_token>"
        )),
        "<refresh_token><![CDATA[ *** ]]></refresh_token>"
    );
    for plain in [
        "<password><![CDATA[<password>]]></password>",
        "<password><![CDATA[Password]]></password>",
        "<password><![CDATA[ab7Q2x",
    ] {
        assert_eq!(text(plain), plain);
    }
}

#[test]
fn exported_variable_of_fish_is_masked() {
    check(&[
        (
            "set --export DB_PASSWORD x1",
            "set --export DB_PASSWORD ***",
        ),
        (
            "set --universal --export DB_PASSWORD x1",
            "set --universal --export DB_PASSWORD ***",
        ),
        ("set -x -g DB_PASSWORD x1", "set -x -g DB_PASSWORD ***"),
    ]);
    for plain in ["set -g DB_PASSWORD x1", "export --x DB_PASSWORD x1"] {
        assert_eq!(text(plain), plain);
    }
}

/// Characters of two to four bytes.
const LONG: &[&str] = &["é", "\u{a0}", "\u{3000}", "🚀"];

/// Signs that begin, part or end values.
const SIGNS: &[&str] = &[
    "", " ", "\n", "=", ":", "'", "\"", "\\", "\\\"", "\\n", "<", ">", "/", "@", "|", ";", "(", "-",
];

/// Reads a text in every way.
fn read(given: &str) {
    let masker = Masker::table();
    let _ = masker.text(given);
    let _ = masker.stream().text(given);
    let words: Vec<&str> = given.split(' ').collect();
    let _ = masker.arguments(&words);
}

#[test]
fn secret_among_long_characters_is_masked() {
    check(&[("mysql \\\"é\" -pswordfish7", "mysql \\\"é\" -p***")]);
    for plain in [
        "<input placeholder=\"请输入token\">",
        "größepass'>",
        "主key\">",
    ] {
        assert_eq!(text(plain), plain);
    }
}

#[test]
fn long_characters_around_triggers_of_each_kind_never_panic() {
    let mut count = HashMap::new();
    for (trigger, kind) in TRIGGERS.texts.iter().zip(&TRIGGERS.kinds) {
        let seen = count.entry(discriminant(kind)).or_insert(0);
        *seen += 1;
        if *seen > 3 {
            continue;
        }
        for before in ["é", "=\"é", "\u{3000}a:b"] {
            for (one, two) in SIGNS
                .iter()
                .flat_map(|one| SIGNS.iter().map(move |two| (one, two)))
            {
                for end in ["", " ", "\"", "\\\"", ">"] {
                    let _ = text(&format!("{before}{trigger}{one}{two}é{end}"));
                    let _ = text(&format!("{before}{trigger}{one}{two}{end}é"));
                }
            }
        }
    }
}

#[test]
fn samples_with_a_long_character_at_any_place_never_panic() {
    for sample in samples("long") {
        for at in 0..=sample.text.len() {
            for long in LONG {
                let (head, tail) = sample.text.split_at(at);
                let _ = text(&format!("{head}{long}{tail}"));
                // In the place of a character.
                let rest = tail.get(1..).unwrap_or_default();
                let _ = text(&format!("{head}{long}{rest}"));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn comparison_and_automaton_find_the_same_triggers(parts in prop::collection::vec(
        (any::<prop::sample::Index>(), any::<bool>(), 0..4_usize),
        1..12,
    )) {
        let text: String = parts.iter().map(|(trigger, is_upper, cut)| {
            let trigger = trigger.get(&TRIGGERS.texts);
            let part = trigger.get(..trigger.len().saturating_sub(*cut)).unwrap_or_default();
            match is_upper {
                true => part.to_ascii_uppercase(),
                false => part.to_owned(),
            }
        }).collect();
        let automaton = TRIGGERS.automaton().unwrap();
        let found: Vec<_> = automaton
            .find_overlapping_iter(&text)
            .map(|hit| (hit.end(), hit.start(), hit.pattern().as_usize()))
            .collect();
        prop_assert_eq!(TRIGGERS.compared(text.as_bytes()), found);
    }

    #[test]
    fn triggers_among_signs_and_long_characters_never_panic(parts in prop::collection::vec(
        (any::<prop::sample::Index>(), prop::collection::vec(prop_oneof![
            prop::sample::select(SIGNS),
            prop::sample::select(LONG),
            Just("x1y2z3"),
        ], 0..5)),
        1..8,
    )) {
        let text = parts.iter().map(|(trigger, signs)| {
            format!("{}{}", trigger.get(&TRIGGERS.texts), signs.concat())
        });
        read(&text.collect::<String>());
    }
}
