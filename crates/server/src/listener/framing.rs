//! Requests that say their length in two ways are made unreadable before HTTP's parser sees them.

use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Longer than the longest name that matters, so that no other name is taken for it.
const NAME_BYTES_MAX: usize = b"transfer-encoding".len() + 1;
const HTTP_2: &[u8] = b"PRI * HTTP/2.0\r";

/// A stream whose requests give their length once. The parser takes a length beside chunks, and the same length
/// twice, drops one of them and says nothing; a proxy before us may have gone by the other one. So the colon of
/// the second becomes a NUL, which the parser refuses with 400, closing the connection. So does an end of line after the
/// last chunk that is no CRLF: the parser passes over it and goes on to a CRLF, where others see a request begin.
pub struct Framed<S> {
    stream: S,
    framing: Framing,
}

impl<S> Framed<S> {
    /// Requests are read from this.
    pub fn new(stream: S) -> Framed<S> {
        Framed { stream, framing: Framing::default() }
    }
}

/// Where in its requests the peer is. Only what the parser accepts must be followed rightly: after anything else
/// it closes the connection.
#[derive(Default)]
struct Framing {
    place: Place,
    /// The beginning of the line, in lower case.
    name: Vec<u8>,
    /// What follows the name of a length, or of a chunk's: digits.
    number: u64,
    length: bool,
    chunked: bool,
    /// The byte before was a CR.
    after_cr: bool,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the request line, or in the empty lines that may be before it.
    #[default]
    Start,
    /// At a header's name.
    Name,
    /// In a header's value; `true`: it is a length.
    Value(bool),
    Body,
    /// In the line with a chunk's size; `true`: behind the digits.
    Size(bool),
    Chunk,
    /// In the end of line after a chunk.
    ChunkEnd,
    /// In the lines after the last chunk.
    Trailer,
    /// HTTP/2, which frames without words.
    Other,
}

impl Framing {
    /// Goes on with what was read, and spoils what is said twice.
    fn follow(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() && self.place != Place::Other {
            let taken = match self.place {
                Place::Body | Place::Chunk => self.skip(bytes.len()),
                _ => {
                    bytes[0] = self.step(bytes[0]);
                    1
                }
            };
            bytes = &mut bytes[taken..];
        }
    }

    fn skip(&mut self, there: usize) -> usize {
        let taken = usize::try_from(self.number).unwrap_or(usize::MAX).min(there);
        self.number -= taken as u64;
        if self.number == 0 {
            let after = if self.place == Place::Body { Place::Start } else { Place::ChunkEnd };
            self.go(after);
        }
        taken
    }

    /// Takes one byte, and gives what the parser is to see of it.
    fn step(&mut self, byte: u8) -> u8 {
        let after_cr = mem::replace(&mut self.after_cr, byte == b'\r');
        match (self.place, byte) {
            (Place::Name, b':') => return self.named(),
            (Place::Trailer, b'\n') if !after_cr => return 0,
            (Place::Start | Place::Name | Place::Trailer, b'\n') => self.line(),
            (Place::Start | Place::Name | Place::Trailer, _)
                if self.name.len() < NAME_BYTES_MAX =>
            {
                self.name.push(byte.to_ascii_lowercase());
            }
            (Place::Value(_), b'\n') => self.go(Place::Name),
            (Place::Value(true), b'0'..=b'9') => self.digit(byte, 10),
            (Place::Size(_), b'\n') => self.sized(),
            (Place::Size(false), b) if b.is_ascii_hexdigit() => self.digit(byte, 16),
            (Place::Size(false), _) => self.place = Place::Size(true),
            (Place::ChunkEnd, b'\n') => self.begin_size(),
            _ => (),
        }
        byte
    }

    fn digit(&mut self, byte: u8, radix: u32) {
        let digit = char::from(byte).to_digit(radix).unwrap_or(0);
        self.number = self.number.saturating_mul(radix.into()).saturating_add(digit.into());
    }

    fn go(&mut self, place: Place) {
        self.place = place;
        self.name.clear();
    }

    fn named(&mut self) -> u8 {
        let (length, chunked) = (self.name == b"content-length", self.name == b"transfer-encoding");
        let twice = length && (self.length || self.chunked) || chunked && self.length;
        self.length |= length;
        self.chunked |= chunked;
        self.go(Place::Value(length));
        if twice { 0 } else { b':' }
    }

    /// A line that is no header with a value has ended.
    fn line(&mut self) {
        let empty = matches!(self.name[..], [] | [b'\r']);
        let place = match self.place {
            Place::Start if self.name.eq_ignore_ascii_case(HTTP_2) => Place::Other,
            Place::Start if !empty => {
                (self.length, self.chunked, self.number) = (false, false, 0);
                Place::Name
            }
            Place::Name if empty && self.chunked => return self.begin_size(),
            Place::Name if empty && self.number > 0 => Place::Body,
            Place::Name | Place::Trailer if empty => Place::Start,
            place => place,
        };
        self.go(place);
    }

    fn begin_size(&mut self) {
        self.number = 0;
        self.go(Place::Size(false));
    }

    fn sized(&mut self) {
        self.go(if self.number == 0 { Place::Trailer } else { Place::Chunk });
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Framed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if matches!(read, Poll::Ready(Ok(()))) {
            self.framing.follow(&mut buf.filled_mut()[before..]);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Framed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the parser sees, when it is read in pieces of each size.
    fn seen(requests: &str) -> String {
        let whole = pieces(requests, requests.len());
        for size in 1..requests.len() {
            assert_eq!(pieces(requests, size), whole, "in pieces of {size}");
        }
        whole
    }

    fn pieces(requests: &str, size: usize) -> String {
        let (mut framing, mut bytes) = (Framing::default(), requests.as_bytes().to_vec());
        bytes.chunks_mut(size).for_each(|piece| framing.follow(piece));
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn what_gives_its_length_once_is_left_as_it_is() {
        let requests = [
            "\r\nPOST / HTTP/1.1\r\nContent-Length: 22\r\nX: y\r\n\r\nContent-Length: 1\r\n\r\n.",
            "POST / HTTP/1.1\nTransfer-Encoding: gzip\nTransfer-Encoding: chunked\n\n",
            "1A;content-length: 1\r\nContent-Length: 1\r\nTransfe\r\n0\r\nContent-Length: 3\r\n\r\n",
            "GET / HTTP/1.1\r\nX-Content-Length: 5\r\nContent-Length: 0\r\nTransfer-Encodings: x\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: 1\r\n\r\nx",
        ]
        .concat();
        assert_eq!(seen(&requests), requests);
        let http_2 =
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nx:y\r\nContent-Length: 1\r\nContent-Length: 1";
        assert_eq!(seen(http_2), http_2);
    }

    #[test]
    fn what_follows_the_last_chunk_ends_where_the_parser_says() {
        let chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n";
        let other = "POST / HTTP/1.1\r\nContent-Length: 999\r\n\r\n";
        for (trailer, spoiled) in [("X: y\n\n", "X: y\0\0"), ("\n", "\0"), ("X:\r\n\n", "X:\r\n\0")]
        {
            assert_eq!(
                seen(&[chunked, trailer, other].concat()),
                [chunked, spoiled, other].concat()
            );
        }
    }

    #[test]
    fn what_gives_it_twice_cannot_be_read_in_any_request_of_a_connection() {
        let first = [
            "GET /healthz HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\n\r\n\r",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n",
        ];
        let lengths = ["Content-Length: 3", "content-length:3", "TRANSFER-encoding: chunked"];
        for first in first {
            for one in lengths {
                for other in lengths {
                    let both_chunked = one == lengths[2] && other == one;
                    let spoiled =
                        if both_chunked { other.to_owned() } else { other.replace(':', "\0") };
                    let head = |other: &str| {
                        format!("{first}POST / HTTP/1.1\r\n{one}\r\nX: y\r\n{other}\r\n")
                    };
                    assert_eq!(seen(&head(other)), head(&spoiled));
                }
            }
        }
    }
}
