use std::collections::VecDeque;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::Frame;
use http_body_util::BodyExt;

use super::event::Event;

/// An event is held until it is whole, up to this size.
const LONGEST: usize = 1024 * 1024;
/// A stream may begin with events that hold no message: one that primes its client, comments.
const MOST_PEEKED: usize = 16;

/// The events of a body, one by one.
#[derive(Debug)]
pub(super) struct Events {
    body: Body,
    held: Bytes,
    /// Read ahead.
    peeked: VecDeque<Piece>,
    scan: Scan,
    end: End,
}

/// What there is behind the last event of a body.
#[derive(Debug, Default)]
pub(super) struct End {
    /// What is no whole event.
    pub(super) unfinished: Bytes,
    pub(super) trailers: Option<HeaderMap>,
    /// How it breaks off.
    pub(super) error: Option<axum::Error>,
}

/// What comes of a body.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Piece {
    /// A whole event, with the empty line that ends it.
    Event(Bytes),
    /// A part of one that is too long to be held.
    Part(Bytes),
}

impl Events {
    pub(super) fn new(body: Body) -> Self {
        Self { body, held: Bytes::new(), peeked: VecDeque::new(), scan: Scan::default(), end: End::default() }
    }

    /// Reads ahead to the first event that holds a message.
    pub(super) async fn first_message(&mut self) -> Option<Event<'_>> {
        while self.peeked.len() < MOST_PEEKED {
            let piece = self.read().await?;
            let is_passed_over = matches!(&piece, Piece::Event(event) if !Event::read(event).has_data());
            self.peeked.push_back(piece);
            if !is_passed_over {
                break;
            }
        }
        match self.peeked.back() {
            Some(Piece::Event(event)) => Some(Event::read(event)),
            _ => None,
        }
    }

    /// The next piece. `None` at the end of the body, also where it breaks off: what is left then is no event.
    pub(super) async fn next(&mut self) -> Option<Piece> {
        match self.peeked.pop_front() {
            None => self.read().await,
            peeked => peeked,
        }
    }

    async fn read(&mut self) -> Option<Piece> {
        loop {
            if let Some(end) = self.scan.end_of_event(&self.held) {
                let event = self.held.split_to(end);
                let is_whole = !std::mem::take(&mut self.scan.in_parts);
                return Some(if is_whole { Piece::Event(event) } else { Piece::Part(event) });
            }
            if self.held.len() > LONGEST {
                self.scan.in_parts = true;
                return Some(Piece::Part(self.take_held()));
            }
            match self.body.frame().await.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => self.held = joined(std::mem::take(&mut self.held), data),
                Some(Ok(Err(frame))) => self.end.trailers = frame.into_trailers().ok(),
                end => {
                    // It is not to be read on.
                    self.body = Body::empty();
                    self.end.error = end.and_then(Result::err).or(self.end.error.take());
                    return None;
                }
            }
        }
    }

    /// Once there is no next piece.
    pub(super) fn take_end(&mut self) -> End {
        End { unfinished: self.take_held(), ..std::mem::take(&mut self.end) }
    }

    fn take_held(&mut self) -> Bytes {
        self.scan.scanned = 0;
        std::mem::take(&mut self.held)
    }

    /// What has come and is no whole event, and what is still to come.
    pub(super) fn into_rest(mut self) -> (Bytes, Body) {
        (self.take_held(), self.body)
    }
}

/// Puts the next frame of a body behind what is held of it. Most of the time nothing is, and nothing is copied.
pub(super) fn joined(held: Bytes, data: Bytes) -> Bytes {
    if held.is_empty() {
        return data;
    }
    let mut both = held.try_into_mut().unwrap_or_else(|held| BytesMut::from(&held[..]));
    both.extend_from_slice(&data);
    both.freeze()
}

/// How far a stream is scanned for the ends of its lines: LF, CRLF or CR.
#[derive(Debug, Default)]
struct Scan {
    /// Of what is held.
    scanned: usize,
    line: Line,
    /// The event that is being read has fields.
    has_fields: bool,
    /// A line feed that comes next belongs to the end of the last line.
    after_cr: bool,
    /// … and that line has ended an event.
    after_event: bool,
    /// The event that is being read has been let through in part.
    in_parts: bool,
}

/// The line that is being read, by its first byte.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Line {
    Comment,
    #[default]
    Empty,
    Field,
}

impl Scan {
    /// Scans on, to the end of the next event: behind the empty line, or behind a comment that stands alone, which keeps
    /// connections open and must not wait.
    fn end_of_event(&mut self, held: &[u8]) -> Option<usize> {
        while let Some(&byte) = held.get(self.scanned) {
            self.scanned += 1;
            let is_rest_of_crlf = self.after_cr && byte == b'\n';
            self.after_cr = byte == b'\r';
            let ends_event = match byte {
                _ if is_rest_of_crlf => self.after_event,
                b'\n' | b'\r' => self.end_of_line(),
                _ => {
                    if self.line == Line::Empty {
                        self.line = if byte == b':' { Line::Comment } else { Line::Field };
                    }
                    false
                }
            };
            self.after_event = ends_event && self.after_cr;
            // Where the rest of a CRLF is here already, it goes along; where it is late, it goes alone.
            if ends_event && !(self.after_cr && held.get(self.scanned) == Some(&b'\n')) {
                return Some(std::mem::take(&mut self.scanned));
            }
        }
        None
    }

    /// Says whether an event ends with this line.
    fn end_of_line(&mut self) -> bool {
        let ends_event = match std::mem::take(&mut self.line) {
            Line::Comment => !self.has_fields && !self.in_parts,
            Line::Empty => true,
            Line::Field => false,
        };
        self.has_fields = !ends_event;
        ends_event
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, stream};

    use super::*;

    fn pieces(frames: &[&str]) -> Vec<Piece> {
        let frames: Vec<_> =
            frames.iter().map(|frame| Ok::<_, std::io::Error>(Bytes::from((*frame).to_owned()))).collect();
        let mut events = Events::new(Body::from_stream(stream::iter(frames)));
        std::iter::from_fn(|| events.next().now_or_never().unwrap()).collect()
    }

    fn events(texts: &[&'static str]) -> Vec<Piece> {
        texts.iter().map(|text| Piece::Event(Bytes::from_static(text.as_bytes()))).collect()
    }

    #[test]
    fn events_end_at_an_empty_line_of_any_kind() {
        assert_eq!(pieces(&["data: 1\n\ndata: 2\n\n"]), events(&["data: 1\n\n", "data: 2\n\n"]));
        assert_eq!(
            pieces(&["id: 1\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n"]),
            events(&["id: 1\r\ndata: 1\r\n\r\n", "data: 2\r\n\r\n"])
        );
        assert_eq!(pieces(&["data: 1\r\rdata: 2\r\r"]), events(&["data: 1\r\r", "data: 2\r\r"]));
    }

    #[test]
    fn a_comment_between_events_does_not_wait() {
        assert_eq!(pieces(&[": x\n", "\n", ":\r\n: y\rdata: 1\n: z\n\n"]), {
            events(&[": x\n", "\n", ":\r\n", ": y\r", "data: 1\n: z\n\n"])
        });
    }

    #[test]
    fn an_event_is_whole_however_it_is_cut() {
        for line_end in ["\n", "\r\n", "\r"] {
            let text = format!("id: 1{line_end}data: a{line_end}{line_end}data: b{line_end}{line_end}");
            let bytes: Vec<String> = text.chars().map(String::from).collect();
            let cut = pieces(&bytes.iter().map(String::as_str).collect::<Vec<_>>());
            let whole: Vec<u8> = cut
                .iter()
                .flat_map(|piece| match piece {
                    Piece::Event(bytes) => bytes.to_vec(),
                    Piece::Part(_) => panic!("{cut:?}"),
                })
                .collect();
            assert_eq!(whole, text.as_bytes());
            let with_data = cut.iter().filter(|piece| matches!(piece, Piece::Event(event) if event.len() > 1)).count();
            assert_eq!(with_data, 2, "{cut:?}");
        }
    }

    #[test]
    fn events_that_come_whole_are_not_copied() {
        let frame = Bytes::from("data: 1\n\ndata: 2\n\n".to_owned());
        let mut events = Events::new(Body::from(frame.clone()));
        for event in [&frame[..9], &frame[9..]] {
            let Some(Some(Piece::Event(piece))) = events.next().now_or_never() else { panic!("no event") };
            assert_eq!(piece.as_ptr(), event.as_ptr());
        }
    }

    #[test]
    fn what_is_no_event_at_the_end_is_kept_back() {
        assert_eq!(pieces(&["data: 1\n\n", "data: 2\n"]), events(&["data: 1\n\n"]));
    }

    #[test]
    fn an_event_that_is_too_long_comes_in_parts() {
        let long = "x".repeat(LONGEST + 1);
        let all = pieces(&["data: ", &long, "y\n", "\n", "data: 2\n\n"]);
        assert!(matches!(&all[0], Piece::Part(part) if part.len() == LONGEST + 7), "{}", all.len());
        assert_eq!(
            all[1..],
            [Piece::Part(Bytes::from_static(b"y\n\n")), Piece::Event(Bytes::from_static(b"data: 2\n\n"))]
        );
    }
}
