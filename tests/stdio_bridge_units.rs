//! The unit tests of the example `stdio_bridge`, which `cargo test` does not run in an example.
#![allow(dead_code, reason = "only a part of the example is here")]

#[path = "../examples/stdio_bridge/accept.rs"]
mod accept;
#[path = "../examples/stdio_bridge/caller.rs"]
mod caller;
#[path = "../examples/stdio_bridge/line.rs"]
mod line;
#[path = "../examples/stdio_bridge/lock.rs"]
mod lock;
#[path = "../examples/stdio_bridge/messages.rs"]
mod messages;
#[path = "../examples/stdio_bridge/number.rs"]
mod number;
#[path = "../examples/stdio_bridge/object.rs"]
mod object;
#[path = "../examples/stdio_bridge/outlet.rs"]
mod outlet;
#[path = "../examples/stdio_bridge/questions.rs"]
mod questions;
#[path = "../examples/stdio_bridge/text.rs"]
mod text;
#[path = "../examples/stdio_bridge/waiting.rs"]
mod waiting;
