//! What odd and hostile clients send to an `McpRouter`: it is answered or refused, never a panic, and never a long wait.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::time::Instant;

use mcp_layer::{Arguments, CallToolResult, McpMessage, McpRouter, Reply, Tool};
use serde_json::{Value, json};

use support::{
    Answer, BOUND, Era, HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, Post, Site, mcp, post,
};

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

/// A bit of everything.
fn router() -> McpRouter {
    let schema = json!({
        "type": "object",
        "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "a": { "type": "object", "properties": { "b": { "type": "integer", "x-mcp-header": "B" } } },
        },
    });
    let echo = async |Arguments(arguments): Arguments<Value>| CallToolResult::structured(json!({ "was": arguments }));
    let reads = async |Arguments(_): Arguments<Value>| CallToolResult::text("read");
    let inner = McpRouter::default().request("get", async || Reply(json!({}))).fallback(async || Reply(json!({})));
    mcp()
        .tool(Tool::with_schema("echo", "Says it again", schema, echo))
        .tool(Tool::with_schema("reads", "", json!({}), reads))
        .tool(Tool::with_schema("plain", "", json!({}), async || CallToolResult::text("plain")))
        .request("raw", async |message: McpMessage| Reply(json!(message.as_str().len())))
        .notification("notifications/x", async || {})
        .nest("nested", inner)
}

fn site() -> Site {
    Site::serving(router())
}

/// A call whose params stand so in the text, behind the `_meta` that its era wants.
fn call_of(era: Era, params: &str) -> Post {
    let meta = if era == Era::Modern { META } else { r#""_meta":{}"# };
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{{meta},{params}}}}}"#);
    match era {
        Era::Legacy => post(body),
        Era::Modern => post(body).with("mcp-protocol-version", support::MODERN).and("mcp-method", "tools/call"),
    }
}

/// It is an answer of the router's or a refusal of the layer's, and says so as JSON-RPC does.
#[track_caller]
fn is_well_made(answer: &Answer, asked: &str) {
    assert!([200, 202, 400, 404].contains(&answer.status), "{answer:?} to {asked}");
    if answer.status == 202 {
        return answer.accepted();
    }
    let whole: Value = serde_json::from_slice(&answer.body).unwrap_or_else(|_| panic!("{answer:?} to {asked}"));
    let code = whole.get("error").map(|error| error["code"].as_i64().unwrap());
    assert!(whole["jsonrpc"] == "2.0" && (code.is_some() != whole.get("result").is_some()), "{answer:?} to {asked}");
    // Nothing here fails by itself, so that this would be a panic.
    assert_ne!(code, Some(support::INTERNAL_ERROR), "{answer:?} to {asked}");
    // What a client sends may be quoted, but not at length.
    let message = whole["error"]["message"].as_str().unwrap_or_default();
    assert!(message.len() < 1_000, "{} bytes of message to {asked}", message.len());
}

#[tokio::test]
async fn names_and_methods_of_any_size_are_answered() {
    let site = site();
    for name in [
        "x".repeat(1 << 20),
        "/".repeat(1 << 20),
        "nested/".repeat(100_000),
        "notifications/".repeat(100_000),
        "\u{1f980}".repeat(200_000),
        "\\u0000".repeat(100_000),
        "\\\"".repeat(200_000),
        "..".repeat(200_000),
    ] {
        let began = Instant::now();
        for body in [
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{name}"}}"#),
            format!(r#"{{"jsonrpc":"2.0","method":"{name}"}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{name}"}}}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"cursor":"{name}"}}}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"{name}"}}}}"#),
        ] {
            is_well_made(&site.ask(&post(body)).await, &name[..20]);
        }
        assert!(began.elapsed() < BOUND, "{:?} for {}", began.elapsed(), &name[..20]);
    }
    assert_eq!(site.server.parked(), 0);
}

#[tokio::test]
async fn arguments_of_any_shape_are_answered_in_time() {
    let site = site();
    let members = |each: &dyn Fn(usize) -> String, most: usize| (0..most).map(each).collect::<Vec<_>>().join(",");
    for arguments in [
        format!("{{{}}}", members(&|at| format!(r#""{at}":0"#), 50_000)),
        format!("{{{}}}", members(&|_| r#""a":{}"#.to_owned(), 100_000)),
        format!("{{{}}}", members(&|at| format!(r#""a{at}":{{"b":1,"region":"x"}}"#), 12_500)),
        format!(r#"{{"region":"{}"}}"#, "x".repeat(1 << 20)),
        format!(r#"{{"region":"{}"}}"#, "\\u00e9".repeat(200_000)),
        format!(r#"{{"a":{{"b":{}}}}}"#, "9".repeat(1 << 20)),
        format!(r#"{{"a":{{"b":0.{}}}}}"#, "0".repeat(1 << 20)),
        format!(r#"{{"a":{{"b":1e{}}}}}"#, "9".repeat(1 << 20)),
        format!(r#"{{"x":[{}]}}"#, members(&|_| "[]".to_owned(), 100_000)),
        format!(r#"{{"{}":1}}"#, "\\n".repeat(200_000)),
        format!("{{{}}}", " \n".repeat(500_000)),
    ] {
        for era in Era::BOTH {
            for tool in ["echo", "plain"] {
                let began = Instant::now();
                let call = call_of(era, &format!(r#""name":"{tool}","arguments":{arguments}"#)).and("mcp-name", tool);
                for request in [call.clone(), call.and("mcp-param-region", "x").and("mcp-param-b", "1")] {
                    is_well_made(&site.ask(&request).await, &arguments[..20]);
                }
                assert!(began.elapsed() < BOUND, "{:?} for {}", began.elapsed(), &arguments[..20]);
            }
        }
    }
}

#[tokio::test]
async fn arguments_as_deep_as_a_message_may_be_are_read() {
    let site = site();
    for (inner, close) in [("[", "]"), (r#"{"a":"#, "}")] {
        for era in Era::BOTH {
            // The message and its params and arguments are three.
            for (depth, is_read) in [(125, true), (126, false), (100_000, false)] {
                let nested = inner.repeat(depth) + "1" + &close.repeat(depth);
                let call =
                    call_of(era, &format!(r#""name":"reads","arguments":{{"x":{nested}}}"#)).and("mcp-name", "reads");
                let answer = site.ask(&call).await;
                match is_read {
                    true => assert_eq!(answer.result("1").get("isError"), None, "{depth}"),
                    false => drop(answer.error(400, PARSE_ERROR, None)),
                }
            }
        }
    }
}

#[tokio::test]
async fn escapes_spell_the_same_to_all_who_read_them() {
    let site = site();
    for (params, echoed) in [
        (r#""n\u0061me":"\u0065cho","\u0061rguments":{"r\u0065gion":"\u0065\u0075"}"#, "eu"),
        (r#""name":"ec\u0068o","arguments":{"region":"\ud83e\udd80"}"#, "\u{1f980}"),
        (r#""name":"echo","arguments":{"region":"\/\b\f\n\r\t\"\\\u0000"}"#, "/\u{8}\u{c}\n\r\t\"\\\u{0}"),
    ] {
        for era in Era::BOTH {
            use base64::Engine as _;

            let encoded = base64::engine::general_purpose::STANDARD.encode(echoed);
            let headed = call_of(era, params).and("mcp-name", "echo");
            let headed = headed.and("mcp-param-region", &format!("=?base64?{encoded}?="));
            let result = site.ask(&headed).await.result("1");
            assert_eq!(result["structuredContent"]["was"]["region"], echoed);
        }
    }
}

#[tokio::test]
async fn text_that_spells_nothing_is_refused() {
    let site = site();
    for era in Era::BOTH {
        // Half a character.
        let call = call_of(era, r#""name":"echo","arguments":{"x":"\ud800"}"#).and("mcp-name", "echo");
        let answer = site.ask(&call).await;
        is_well_made(&answer, "half a character");
        assert_eq!(answer.result("1")["isError"], true);
        for (params, legacy) in [
            (r#""name":"\ud800""#, INVALID_PARAMS),
            (r#""n\ud800ame":"echo""#, INVALID_PARAMS),
            (r#""name":"echo","arguments":["\ud800"],"\ud800":1"#, INVALID_PARAMS),
        ] {
            let answer = site.ask(&call_of(era, params)).await;
            is_well_made(&answer, params);
            let whole: Value = serde_json::from_slice(&answer.body).unwrap();
            let code = whole["error"]["code"].as_i64().unwrap();
            assert!([legacy, INVALID_REQUEST, HEADER_MISMATCH].contains(&code), "{params}: {code}");
        }
        // A key that no reader can spell is one that no reader looks for.
        let unknown = call_of(era, r#""name":"echo","\ud800":1,"arguments":{"x":"y"}"#).and("mcp-name", "echo");
        assert_eq!(site.ask(&unknown).await.result("1").get("isError"), None);
    }
}

#[tokio::test]
async fn headers_of_a_client_that_lies_are_refused() {
    let site = site();
    let named = |name: &str| call_of(Era::Modern, r#""name":"echo","arguments":{}"#).and("mcp-name", name);
    for wrong in ["plain", "echo,plain", "ECHO", "", "=?base64?cGxhaW4=?="] {
        site.ask(&named(wrong)).await.error(400, HEADER_MISMATCH, "1");
    }
    site.ask(&named("echo").and("mcp-name", "plain")).await.error(400, HEADER_MISMATCH, "1");
    site.ask(&named("echo").with("mcp-method", "tools/list")).await.error(400, HEADER_MISMATCH, "1");
    site.ask(&named("echo").and("mcp-param-region", &"x".repeat(100_000))).await.error(400, HEADER_MISMATCH, "1");
}

/// Numbers that only look like chance.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % most as u64).unwrap()
    }

    fn of<'a>(&mut self, pieces: &[&'a str]) -> &'a str {
        pieces[self.below(pieces.len())]
    }
}

const PIECES: [&str; 40] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\\u0061",
    "\\ud800",
    "null",
    "true",
    "0",
    "-1",
    "1.0",
    "1e999",
    " ",
    "\n",
    "\"name\"",
    "\"arguments\"",
    "\"echo\"",
    "\"plain\"",
    "\"region\"",
    "\"a\"",
    "\"b\"",
    "\"id\"",
    "\"method\"",
    "\"params\"",
    "\"jsonrpc\"",
    "\"2.0\"",
    "\"tools/call\"",
    "\"tools/list\"",
    "\"cursor\"",
    "\"_meta\"",
    "\"io.modelcontextprotocol/protocolVersion\"",
    "\"2026-07-28\"",
    "\"2025-11-25\"",
    "\"notifications/x\"",
    "\"nested/\"",
    "\u{1f980}",
];

#[tokio::test]
async fn messages_that_chance_has_changed_are_answered_or_refused() {
    let site = site();
    let bodies = [
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{{META},"name":"echo","arguments":{{"region":"x","a":{{"b":1}}}}}}}}"#
        ),
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{{META},"cursor":null}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{{{META}}}}}"#),
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"region":"x","a":[1]}}}"#
            .to_owned(),
        r#"{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"a":[{}]}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"method":"nested/a/b","params":{}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.to_owned(),
    ];
    let mut chance = Chance(0x2026_0728_dead_beef);
    for turn in 0..20_000 {
        let mut body = bodies[chance.below(bodies.len())].clone();
        for _ in 0..=chance.below(3) {
            let mut at = chance.below(body.len() + 1);
            while !body.is_char_boundary(at) {
                at -= 1;
            }
            let mut end = (at + chance.below(12)).min(body.len());
            while !body.is_char_boundary(end) {
                end -= 1;
            }
            let piece = chance.of(&PIECES);
            if turn % 3 == 0 { body.insert_str(at, piece) } else { body.replace_range(at..end.max(at), piece) }
        }
        let request = match chance.below(3) {
            0 => post(body.clone()),
            1 => post(body.clone()).without("mcp-protocol-version"),
            _ => {
                let modern = post(body.clone()).with("mcp-protocol-version", support::MODERN);
                let modern = modern.and("mcp-method", chance.of(&["tools/call", "tools/list", "server/discover"]));
                let modern = modern.and("mcp-name", chance.of(&["echo", "plain", ""]));
                modern.and("mcp-param-region", "x").and("mcp-param-b", chance.of(&["1", "1.0", "-1"]))
            }
        };
        is_well_made(&site.ask(&request).await, &body);
    }
    assert_eq!(site.server.parked(), 0);
    site.ask(&post(support::request("1", "ping", &json!({})))).await.result("1");
}

#[tokio::test]
async fn many_tools_are_listed_and_found_in_no_time() {
    let began = Instant::now();
    let tools = (0..5_000).fold(mcp(), |mcp, at| {
        let schema = json!({ "type": "object", "properties": { "p": { "type": "string", "x-mcp-header": "P" } } });
        mcp.tool(Tool::with_schema(format!("t{at}"), "A tool", schema, async || CallToolResult::new()))
    });
    let methods = (0..5_000).fold(tools, |mcp, at| {
        let inner = McpRouter::default().request("x", async || Reply(json!({}))).fallback(async || Reply(json!({})));
        mcp.nest(&format!("n{at}"), inner)
    });
    let site = Site::serving(methods);
    for era in Era::BOTH {
        let listed = site.ask(&era.request("1", "tools/list", &json!({}))).await.result("1");
        assert_eq!(listed["tools"].as_array().unwrap().len(), 5_000);
        for at in [0, 2_500, 4_999] {
            site.ask(&era.call("1", &json!({ "name": format!("t{at}") }))).await.result("1");
            site.ask(&era.request("1", &format!("n{at}/x"), &json!({}))).await.result("1");
            site.ask(&era.request("1", &format!("n{at}/y"), &json!({}))).await.result("1");
        }
    }
    assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
}
