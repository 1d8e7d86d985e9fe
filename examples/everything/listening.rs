//! Changes, and whoever listens to them.

use std::sync::Arc;

use mcp_layer::{CallToolResult, Change, McpRouter, Subscriptions, Tool};

use crate::counted::Counted;
use crate::debug::Debug;

pub(crate) fn router() -> McpRouter<Arc<Debug>> {
    let subscriptions = Subscriptions::new();
    let trigger = |name, description, change: Change| {
        let subscriptions = subscriptions.clone();
        let publish = async move || {
            subscriptions.publish(change);
            CallToolResult::text("told")
        };
        Tool::new(name, description, Counted(publish))
    };
    McpRouter::default()
        .tool(trigger("test_trigger_tool_change", "Says that the tools have changed", Change::ToolsListChanged))
        .tool(trigger("test_trigger_prompt_change", "Says that the prompts have changed", Change::PromptsListChanged))
        .subscriptions(&subscriptions)
}
