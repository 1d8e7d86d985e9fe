use std::io::{Error, ErrorKind};

use bytes::BytesMut;
use tokio::io::AsyncRead;
use tokio_util::codec::{Decoder, FramedRead, LinesCodec, LinesCodecError};

/// What a process writes, line by line.
pub(crate) type Lines<R> = FramedRead<R, Decode>;

/// Goes on after a line that cannot be read. `FramedRead` would rest after an error until more comes.
#[derive(Debug)]
pub(crate) struct Decode(LinesCodec);

/// Why a line cannot be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Unreadable {
    NotUtf8,
    TooLong,
}

/// A line has this many bytes at most.
pub(crate) fn lines<R: AsyncRead>(read: R, longest: usize) -> Lines<R> {
    FramedRead::new(read, Decode(LinesCodec::new_with_max_length(longest)))
}

impl Decoder for Decode {
    type Item = Result<String, Unreadable>;
    type Error = Error;

    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Self::Item>, Error> {
        read(self.0.decode(bytes))
    }

    fn decode_eof(&mut self, bytes: &mut BytesMut) -> Result<Option<Self::Item>, Error> {
        read(self.0.decode_eof(bytes))
    }
}

fn read(line: Result<Option<String>, LinesCodecError>) -> Result<Option<Result<String, Unreadable>>, Error> {
    match line {
        Ok(line) => Ok(line.map(Ok)),
        Err(LinesCodecError::MaxLineLengthExceeded) => Ok(Some(Err(Unreadable::TooLong))),
        Err(LinesCodecError::Io(error)) if error.kind() == ErrorKind::InvalidData => Ok(Some(Err(Unreadable::NotUtf8))),
        Err(LinesCodecError::Io(error)) => Err(error),
    }
}
