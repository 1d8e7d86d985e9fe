//! Whose request ids they are.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use mcp_layer::McpServerBuilder;

use support::{Asked, CANCELLED, INVALID_REQUEST, Post, Site, cancel, held, post};

type Headers<'a> = &'a [(&'a str, &'a str)];

fn from(headers: Headers<'_>, body: String) -> Post {
    headers.iter().fold(post(body), |post, (name, value)| post.and(name, value))
}

/// A request of `owner` is ended by a cancel of `ends`, but not by those of the strangers before it.
async fn only(
    options: fn(McpServerBuilder) -> McpServerBuilder,
    owner: Headers<'_>,
    ends: Headers<'_>,
    strangers: &[Headers<'_>],
) {
    let site = Site::with(options);
    let parked = site.begin(&from(owner, held("1")));
    site.parked(1).await;
    for stranger in strangers {
        site.ask(&from(stranger, cancel("1"))).await.accepted();
        assert_eq!(site.server.parked(), 1, "{stranger:?} cancelled a request of {owner:?}");
    }
    assert_eq!(site.probe.heard().len(), strangers.len());
    site.ask(&from(ends, cancel("1"))).await.accepted();
    parked.answer().await.error(200, CANCELLED, "1");
}

const A: (&str, &str) = ("authorization", "Bearer a");
const B: (&str, &str) = ("authorization", "Bearer b");
const S: (&str, &str) = ("mcp-session-id", "s");
const T: (&str, &str) = ("mcp-session-id", "t");

#[tokio::test]
async fn strangers_cancel_nothing() {
    only(|it| it, &[A], &[A], &[&[], &[B], &[S], &[A, S], &[("authorization", "bearer a")], &[("cookie", "Bearer a")]])
        .await;
    only(|it| it, &[S], &[S], &[&[], &[T], &[A], &[A, S], &[("mcp-session-id", "S")], &[("mcp-session-id", "")]]).await;
    only(|it| it, &[A, S], &[S, A], &[&[], &[A], &[S], &[B, S], &[A, T]]).await;
    only(|it| it, &[], &[], &[&[A], &[S], &[A, S]]).await;
    // What is in one header is not in another.
    only(|it| it, &[("authorization", "s")], &[("authorization", "s")], &[&[S]]).await;
}

#[tokio::test]
async fn equal_ids_of_different_callers_never_meet() {
    let site = Site::new();
    let callers: [Headers<'_>; 5] = [&[], &[A], &[B], &[S], &[A, S]];
    let mut parked: Vec<(Headers<'_>, Asked)> = Vec::new();
    for caller in callers {
        parked.push((caller, site.begin(&from(caller, held("1")))));
        site.parked(parked.len()).await;
    }
    while let Some((caller, asked)) = parked.pop() {
        site.ask(&from(caller, cancel("1"))).await.accepted();
        asked.answer().await.error(200, CANCELLED, "1");
        assert_eq!(site.server.parked(), parked.len());
        assert!(!parked.iter().any(|(_, asked)| asked.is_answered()));
    }
}

/// The user is whoever an auth layer outside says that it is.
fn by_user(options: McpServerBuilder) -> McpServerBuilder {
    options.principal(|parts| Some(parts.headers.get("x-user")?.to_str().ok()?.to_owned()))
}

#[tokio::test]
async fn a_principal_outlives_a_token_refresh() {
    let (ada, bob) = (("x-user", "ada"), ("x-user", "bob"));
    only(by_user, &[ada, A], &[ada, B], &[&[A], &[bob, A], &[], &[ada, A, S]]).await;
    only(by_user, &[ada], &[ada, B], &[&[bob], &[]]).await;
    only(by_user, &[ada, S], &[ada, B, S], &[&[S], &[bob, S], &[ada], &[ada, T]]).await;
}

#[tokio::test]
async fn an_empty_principal_is_none_and_nobody_elses() {
    let (ada, empty) = (("x-user", "ada"), ("x-user", ""));
    only(by_user, &[empty], &[], &[&[ada]]).await;
    // Once a function reads the principal, the Authorization says nothing.
    only(by_user, &[A], &[B, empty], &[&[ada, A]]).await;
    only(by_user, &[empty, S], &[S], &[&[ada, S], &[], &[empty]]).await;
    // And whoever has none cannot cancel at all, where that is set.
    only(|it| by_user(it).strict_callers(true), &[ada], &[ada], &[&[empty], &[A], &[]]).await;
}

#[tokio::test]
async fn strict_callers_must_be_someone_to_cancel() {
    let strict: fn(McpServerBuilder) -> McpServerBuilder = |it| it.strict_callers(true);
    only(strict, &[A], &[A], &[&[], &[B]]).await;
    only(strict, &[S], &[S], &[&[], &[T]]).await;

    let site = Site::with(strict);
    let parked = site.begin(&post(held("1")));
    site.parked(1).await;
    site.ask(&post(cancel("1"))).await.accepted();
    assert_eq!((site.server.parked(), site.probe.heard().len()), (1, 1));
    site.probe.open("gate");
    parked.answer().await.result("1");
}

#[tokio::test]
async fn a_repeated_header_makes_no_caller() {
    let site = Site::new();
    let repeated: [Headers<'_>; 4] = [&[A, B], &[A, A], &[S, T], &[S, S]];
    for headers in repeated {
        site.ask(&from(headers, held("\"req-1\""))).await.error(400, INVALID_REQUEST, "\"req-1\"");
        site.ask(&from(headers, cancel("1"))).await.error(400, INVALID_REQUEST, None);
    }
    assert_eq!(site.probe.log(), [""; 0]);
    assert_eq!(site.server.parked(), 0);
}

#[tokio::test]
async fn a_principal_function_that_panics_is_an_internal_error() {
    let site = Site::with(|options| options.principal(|_| panic!("a secret of the function")));
    let answer = site.ask(&post(support::call("1", &serde_json::json!({})))).await;
    answer.error(500, support::INTERNAL_ERROR, "1");
    assert!(!answer.text().contains("secret"));
    assert_eq!((site.server.parked(), site.probe.log()), (0, Vec::new()));
}
