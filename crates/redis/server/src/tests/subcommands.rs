//! Subcommands are commands: MULTI checks them, and COMMAND describes them.

use super::client::Client;
use super::serve;
use crate::commands::COMMANDS;

fn check(client: &mut Client, script: &[(&str, &str)]) {
    for (line, want) in script {
        assert_eq!(client.run(line), *want, "{line}");
    }
}

const CONTAINERS: [&str; 6] = ["acl", "client", "command", "config", "memory", "object"];
const ABORTED: &str = "-EXECABORT Transaction discarded because of previous errors.";

#[test]
fn a_transaction_with_an_unknown_subcommand_is_discarded() {
    let (_server, mut client) = serve();
    for container in CONTAINERS {
        let upper = container.to_ascii_uppercase();
        let unknown = format!("-ERR unknown subcommand 'BAD'. Try {upper} HELP.");
        assert_eq!(client.run(&format!("{container} BAD")), unknown);
        client.run("MULTI");
        assert_eq!(client.run("SET a 1"), "+QUEUED");
        assert_eq!(client.run(&format!("{container} BAD")), unknown);
        assert_eq!(client.run("EXEC"), ABORTED, "{container}");
        assert_eq!(client.run("EXISTS a"), ":0");
    }
}

#[test]
fn a_transaction_with_a_wrong_number_of_arguments_is_discarded() {
    let (_server, mut client) = serve();
    for command in COMMANDS.iter().filter(|command| command.arity != -1) {
        if ["exec", "multi", "discard", "quit", "reset", "watch"].contains(&command.name) {
            continue;
        }
        let least = command.arity.unsigned_abs() as usize;
        let words: Vec<&str> = command.name.split('|').collect();
        // One argument too few, or, if that would call the container, one too many.
        let count = if least > words.len() { least - 1 } else { least + 1 };
        if command.arity < 0 && count > least {
            continue;
        }
        let mut line = words.clone();
        line.resize(count, "x");
        let want = format!("-ERR wrong number of arguments for '{}' command", command.name);
        client.run("MULTI");
        assert_eq!(client.run("SET a 1"), "+QUEUED");
        assert_eq!(client.run(&line.join(" ")), want);
        assert_eq!(client.run("EXEC"), ABORTED, "{line:?}");
    }
    assert_eq!(client.run("EXISTS a"), ":0");
}

#[test]
fn a_subcommand_with_a_wrong_number_of_arguments_is_named() {
    let (_server, mut client) = serve();
    for (line, name) in [
        ("CONFIG GET", "config|get"),
        ("CONFIG SET timeout", "config|set"),
        ("CLIENT ID x", "client|id"),
        ("CLIENT UNBLOCK", "client|unblock"),
        ("OBJECT ENCODING", "object|encoding"),
        ("MEMORY USAGE", "memory|usage"),
        ("ACL WHOAMI x", "acl|whoami"),
        ("COMMAND COUNT x", "command|count"),
    ] {
        let want = format!("-ERR wrong number of arguments for '{name}' command");
        assert_eq!(client.run(line), want);
        client.run("MULTI");
        assert_eq!(client.run("SET a 1"), "+QUEUED");
        assert_eq!(client.run(line), want);
        assert_eq!(client.run("EXEC"), ABORTED, "{line}");
        assert_eq!(client.run("EXISTS a"), ":0");
    }
}

#[test]
fn subcommands_run_in_a_transaction() {
    let (_server, mut client) = serve();
    check(
        &mut client,
        &[
            ("SET k 12", "+OK"),
            ("MULTI", "+OK"),
            ("CONFIG GET databases", "+QUEUED"),
            ("OBJECT ENCODING k", "+QUEUED"),
            ("object encoding k", "+QUEUED"),
            ("CLIENT GETNAME", "+QUEUED"),
            ("ACL WHOAMI", "+QUEUED"),
            ("EXEC", "[[\"databases\", \"16\"], \"int\", \"int\", nil, \"default\"]"),
            ("CONFIG|GET x", "-ERR unknown command 'CONFIG|GET', with args beginning with: 'x' "),
            ("COMMAND x|y", "-ERR unknown subcommand 'x|y'. Try COMMAND HELP."),
            ("CONFIG", "-ERR wrong number of arguments for 'config' command"),
        ],
    );
}

#[test]
fn every_container_prints_the_help_of_its_subcommands() {
    let (_server, mut client) = serve();
    for container in CONTAINERS {
        let upper = container.to_ascii_uppercase();
        let help = client.run(&format!("{container} help"));
        let head = format!("[+{upper} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:, ");
        assert!(help.starts_with(&head), "{help}");
        assert!(help.ends_with("+HELP, +    Prints this help.]"), "{help}");
        let prefix = format!("{container}|");
        for command in COMMANDS {
            if let Some(word) = command.name.strip_prefix(&prefix) {
                let line = format!("{} {}", word.to_ascii_uppercase(), command.usage);
                let lines = format!("+{}, +    {}", line.trim_end(), command.summary);
                assert!(help.contains(&lines), "{lines} in {help}");
            }
        }
        let wrong = format!("-ERR wrong number of arguments for '{container}|help' command");
        assert_eq!(client.run(&format!("{container} HELP x")), wrong);
    }
    let help = client.run("OBJECT HELP");
    for word in ["+ENCODING <key>, ", "+FREQ <key>, ", "+IDLETIME <key>, ", "+REFCOUNT <key>, "] {
        assert!(help.contains(word), "{help}");
    }
}

#[test]
fn command_list_knows_subcommands_and_filters() {
    let (_server, mut client) = serve();
    let names: Vec<String> = COMMANDS.iter().map(|c| format!("{:?}", c.name)).collect();
    assert_eq!(client.run("COMMAND LIST"), format!("[{}]", names.join(", ")));
    let syntax = "-ERR syntax error";
    check(
        &mut client,
        &[
            ("COMMAND LIST FILTERBY foo bar", syntax),
            ("COMMAND LIST FILTERBY", syntax),
            ("COMMAND LIST FILTERBY PATTERN", syntax),
            ("COMMAND LIST x", syntax),
            ("COMMAND LIST x PATTERN *", syntax),
            (
                "COMMAND LIST FILTERBY PATTERN config|*",
                "[\"config|get\", \"config|resetstat\", \"config|rewrite\", \"config|set\", \
                 \"config|help\"]",
            ),
            ("COMMAND LIST FILTERBY PATTERN CONFIG|G*", "[\"config|get\"]"),
            ("COMMAND LIST FILTERBY PATTERN xget", "[]"),
            ("COMMAND LIST FILTERBY MODULE nope", "[]"),
            ("COMMAND LIST FILTERBY ACLCAT nope", "[]"),
            (
                "COMMAND LIST FILTERBY ACLCAT transaction",
                "[\"multi\", \"exec\", \"discard\", \"watch\", \"unwatch\"]",
            ),
        ],
    );
    let connection = client.run("COMMAND LIST FILTERBY ACLCAT connection");
    assert!(connection.contains("\"client|id\"") && !connection.contains("\"client\""));
}

#[test]
fn command_info_nests_subcommands() {
    let (_server, mut client) = serve();
    let get =
        "[\"config|get\", :-3, [+admin], :0, :0, :0, [+@admin, +@slow, +@dangerous], [], [], []]";
    assert_eq!(client.run("COMMAND INFO config|get"), format!("[{get}]"));
    let config = client.run("COMMAND INFO config");
    assert!(config.starts_with("[[\"config\", :-2, [], :0, :0, :0, [+@slow], [], [], [["));
    assert!(config.contains(get), "{config}");
    assert_eq!(client.run("COMMAND INFO CONFIG|NOPE nope get|x"), "[nil, nil, nil]");
    assert_eq!(client.run("COMMAND DOCS nope"), "[]");
    let docs = client.run("COMMAND DOCS memory");
    assert!(docs.contains("\"subcommands\", [\"memory|usage\", [\"summary\", "), "{docs}");
    assert!(client.run("COMMAND DOCS config|get").starts_with("[\"config|get\", [\"summary\", "));
    // COMMAND without arguments has the entries of COMMAND INFO, each once.
    let all = client.run("COMMAND");
    assert_eq!(all, client.run("COMMAND INFO"));
    for command in COMMANDS {
        assert_eq!(all.matches(&format!("[{:?}, :", command.name)).count(), 1, "{}", command.name);
    }
}

#[test]
fn the_keys_of_commands_have_accesses() {
    let (_server, mut client) = serve();
    let none = "-ERR The command has no key arguments";
    let invalid = "-ERR Invalid command specified";
    check(
        &mut client,
        &[
            ("COMMAND GETKEYSANDFLAGS GET k", "[[\"k\", [+RO, +access]]]"),
            ("COMMAND GETKEYSANDFLAGS SET k v", "[[\"k\", [+OW, +update]]]"),
            ("COMMAND GETKEYSANDFLAGS SET k v EX 10", "[[\"k\", [+OW, +update]]]"),
            ("COMMAND GETKEYSANDFLAGS SET k v GET", "[[\"k\", [+RW, +access, +update]]]"),
            ("COMMAND GETKEYSANDFLAGS SET k GET", "[[\"k\", [+OW, +update]]]"),
            ("COMMAND GETKEYSANDFLAGS GETEX k PERSIST", "[[\"k\", [+RW, +access, +update]]]"),
            (
                "COMMAND GETKEYSANDFLAGS COPY a b",
                "[[\"a\", [+RO, +access]], [\"b\", [+OW, +update]]]",
            ),
            (
                "COMMAND GETKEYSANDFLAGS RENAME a b",
                "[[\"a\", [+RW, +access, +delete]], [\"b\", [+OW, +update]]]",
            ),
            (
                "COMMAND GETKEYSANDFLAGS DEL a b",
                "[[\"a\", [+RM, +delete]], [\"b\", [+RM, +delete]]]",
            ),
            (
                "COMMAND GETKEYSANDFLAGS MSETNX a 1 b 2",
                "[[\"a\", [+OW, +insert]], [\"b\", [+OW, +insert]]]",
            ),
            ("COMMAND GETKEYSANDFLAGS OBJECT ENCODING k", "[[\"k\", [+RO]]]"),
            ("COMMAND GETKEYSANDFLAGS OBJECT HELP", none),
            ("COMMAND GETKEYSANDFLAGS OBJECT NOPE k", invalid),
            ("COMMAND GETKEYSANDFLAGS NOPE k", invalid),
            ("COMMAND GETKEYS OBJECT ENCODING k", "[\"k\"]"),
            ("COMMAND GETKEYS MEMORY USAGE k", "[\"k\"]"),
            ("COMMAND GETKEYS CONFIG GET x", none),
            ("COMMAND GETKEYS MSET a 1 b", "[\"a\", \"b\"]"),
            ("COMMAND GETKEYS GET", "-ERR Invalid number of arguments specified for command"),
            (
                "COMMAND GETKEYSANDFLAGS",
                "-ERR wrong number of arguments for 'command|getkeysandflags' command",
            ),
        ],
    );
    let copy = client.run("COMMAND INFO copy");
    let range =
        "[\"type\", \"range\", \"spec\", [\"lastkey\", :0, \"keystep\", :1, \"limit\", :0]]";
    for (access, place) in [("+RO, +access", 1), ("+OW, +update", 2)] {
        let specification = format!(
            "[\"flags\", [{access}], \"begin_search\", [\"type\", \"index\", \"spec\", \
             [\"index\", :{place}]], \"find_keys\", {range}]"
        );
        assert!(copy.contains(&specification), "{specification} in {copy}");
    }
    let mset = client.run("COMMAND INFO mset");
    assert!(mset.contains("[\"lastkey\", :-1, \"keystep\", :2, \"limit\", :0]"), "{mset}");
}

#[test]
fn every_key_of_the_table_has_an_access() {
    for command in COMMANDS {
        let has_keys = command.keys.step > 0;
        assert_eq!(has_keys, !command.keys.access.is_empty(), "{}", command.name);
        for access in command.keys.access {
            assert!(["RO", "RW", "OW", "RM"].contains(&access[0]), "{}", command.name);
        }
    }
}

#[test]
fn the_client_list_names_the_subcommand() {
    let (_server, mut client) = serve();
    assert!(client.run("CLIENT LIST").contains(" cmd=client|list "));
    assert!(client.run("CLIENT INFO").contains(" cmd=client|info "));
}
