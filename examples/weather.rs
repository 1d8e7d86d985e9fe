//! A whole MCP server: two tools, one of which takes its time, tells how far it is, and can be cancelled.
//!
//! Start it, and give its address to any MCP client. Or call it by hand; stop `forecast` with Ctrl-C, or cancel it:
//!
//! ```sh
//! post() { curl -sN http://127.0.0.1:8000/mcp -H 'Content-Type: application/json' -d "$1"; echo; }
//! post '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"forecast",
//!        "arguments":{"city":"Oslo","days":7},"_meta":{"progressToken":"a"}}}' &
//! post '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use mcp_layer::{Arguments, CallToolResult, Cancellation, McpLayer, McpRouter, McpServer, Notifier, ServerInfo, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let stations = Arc::new(BTreeMap::from([("Cairo", 31.5), ("Lima", 19.0), ("Oslo", -4.5)]));
    let mcp = McpRouter::new(ServerInfo::new("weather", env!("CARGO_PKG_VERSION")).title("The weather"))
        .instructions("Ask for the weather of one city at a time.")
        .tool(Tool::new("now", "The weather of a city, as it is now", now).output::<Weather>())
        .tool(Tool::new("forecast", "The weather of a city on the days to come", forecast).title("Forecast"))
        .with_state(stations);
    let app = Router::new().route_service("/mcp", mcp).layer(McpLayer::new(McpServer::new()));

    let listener = tokio::net::TcpListener::bind("127.0.0.1:8000").await?;
    println!("listening on http://127.0.0.1:8000/mcp");
    axum::serve(listener, app).await
}

/// The temperatures of cities, in degrees Celsius.
type Stations = Arc<BTreeMap<&'static str, f64>>;

#[derive(JsonSchema, Serialize)]
struct Weather {
    /// In degrees Celsius
    temperature: f64,
}

#[derive(Deserialize, JsonSchema)]
struct Now {
    /// The name of the city, in English
    city: String,
}

async fn now(State(stations): State<Stations>, Arguments(Now { city }): Arguments<Now>) -> CallToolResult {
    match stations.get(city.as_str()) {
        Some(&temperature) => CallToolResult::structured(Weather { temperature }),
        None => unknown(&city, &stations),
    }
}

#[derive(Deserialize, JsonSchema)]
struct Forecast {
    /// The name of the city, in English
    city: String,
    /// How many days, from tomorrow on
    #[schemars(range(min = 1, max = 14))]
    days: u8,
}

async fn forecast(
    State(stations): State<Stations>,
    notifier: Notifier,
    cancellation: Cancellation,
    Arguments(Forecast { city, days }): Arguments<Forecast>,
) -> CallToolResult {
    let Some(temperature) = stations.get(city.as_str()) else { return unknown(&city, &stations) };
    let mut result = CallToolResult::new();
    for day in 1..=days.clamp(1, 14) {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(1)) => {} // the work of a day
            outcome = cancellation.cancelled() => {
                println!("{city}: {outcome:?} on day {day}");
                return result; // nobody reads it: the client has its answer already
            }
        }
        result = result.with_text(format!("Day {day}: {:.1} °C", temperature + f64::from(day).sin()));
        notifier.progress(day.into(), Some(days.into()), Some(&format!("day {day} is done")));
    }
    result
}

/// An error that a model reads, and can mend.
fn unknown(city: &str, stations: &Stations) -> CallToolResult {
    CallToolResult::error(format!(
        "No station in {city:?}; there are some in {:?}",
        stations.keys().collect::<Vec<_>>()
    ))
}
