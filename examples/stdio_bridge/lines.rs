use std::io::Error;

use bytes::{Bytes, BytesMut};
use tokio::io::AsyncRead;
use tokio_util::codec::{AnyDelimiterCodec, AnyDelimiterCodecError, Decoder, FramedRead};

/// What a process writes, line by line.
pub(crate) type Lines<R> = FramedRead<R, Decode>;

/// Goes on after a line that cannot be read. `FramedRead` would rest after an error until more comes.
#[derive(Debug)]
pub(crate) struct Decode(AnyDelimiterCodec);

/// A line has too many bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TooLong;

/// A line has this many bytes at most. What is not UTF-8 in it is read as U+FFFD.
pub(crate) fn lines<R: AsyncRead>(read: R, longest: usize) -> Lines<R> {
    let codec = AnyDelimiterCodec::new_with_max_length(b"\n".to_vec(), b"\n".to_vec(), longest);
    FramedRead::new(read, Decode(codec))
}

impl Decoder for Decode {
    type Item = Result<String, TooLong>;
    type Error = Error;

    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Self::Item>, Error> {
        read(self.0.decode(bytes))
    }

    fn decode_eof(&mut self, bytes: &mut BytesMut) -> Result<Option<Self::Item>, Error> {
        read(self.0.decode_eof(bytes))
    }
}

fn read(line: Result<Option<Bytes>, AnyDelimiterCodecError>) -> Result<Option<Result<String, TooLong>>, Error> {
    match line {
        Ok(line) => Ok(line.map(|line| Ok(String::from_utf8_lossy(&line).into_owned()))),
        Err(AnyDelimiterCodecError::MaxChunkLengthExceeded) => Ok(Some(Err(TooLong))),
        Err(AnyDelimiterCodecError::Io(error)) => Err(error),
    }
}
