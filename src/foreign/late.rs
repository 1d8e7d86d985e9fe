use std::sync::Arc;
use std::vec::IntoIter;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::unfold;
use http::StatusCode;
use http::header::CONTENT_LENGTH;
use http_body::Frame;
use http_body_util::StreamBody;

use super::event::Event;
use super::events::{End, Events, Piece};
use super::reply::{is_of, is_plain};
use crate::exchange::{Caller, InFlight};
use crate::reply::Settled;

type Next = Result<Frame<Bytes>, axum::Error>;

/// A stream that is read event by event.
struct Reading {
    events: Events,
    /// What is behind the last one, once that is read.
    end: Option<IntoIter<Next>>,
}

/// The stream of a GET in a session, without the answers to what has been answered here. A service may send there what it
/// has for a POST that is gone, and rmcp does if the answer meets the cancel.
pub(crate) fn without_late_answers(response: Response, caller: Caller, in_flight: &Arc<InFlight<Settled>>) -> Response {
    let is_stream = response.status() == StatusCode::OK && is_of(response.headers(), "text", "event-stream");
    if !is_stream || !is_plain(response.headers()) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    let in_flight = Arc::clone(in_flight);
    let is_late =
        move |event: &[u8]| in_flight.has_ended_early(caller, || Event::read(event).answered().map(str::to_owned));
    let reading = Reading { events: Events::new(body), end: None };
    let frames = unfold((reading, is_late), async |(mut reading, is_late)| {
        let next = reading.next(&is_late).await?;
        Some((next, (reading, is_late)))
    });
    Response::from_parts(parts, Body::new(StreamBody::new(frames)))
}

impl Reading {
    async fn next(&mut self, is_late: &impl Fn(&[u8]) -> bool) -> Option<Next> {
        if self.end.is_none() {
            while let Some(piece) = self.events.next().await {
                match piece {
                    Piece::Event(event) if is_late(&event) => {
                        tracing::debug!("a late answer is dropped");
                        if let Some(id) = Event::read(&event).id {
                            // Its client comes back with it, and does not get the answer again.
                            return Some(Ok(Frame::data(format!("id: {id}\ndata:\n\n").into())));
                        }
                    }
                    Piece::Event(bytes) | Piece::Part(bytes) => return Some(Ok(Frame::data(bytes))),
                }
            }
        }
        let end = self.end.get_or_insert_with(|| {
            let End { unfinished, trailers, error } = self.events.take_end();
            let unfinished = Some(unfinished).filter(|bytes| !bytes.is_empty()).map(Frame::data);
            let frames = unfinished.into_iter().chain(trailers.map(Frame::trailers)).map(Ok);
            frames.chain(error.map(Err)).collect::<Vec<_>>().into_iter()
        });
        end.next()
    }
}
