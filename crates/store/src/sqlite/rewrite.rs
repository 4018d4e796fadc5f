//! Writing the log again, after a sync of it failed or before a database is opened that somebody else left.
//!
//! When the kernel cannot write a page it says so once, and takes the page for clean from then on: the next sync
//! succeeds and writes nothing. What was committed would then be acknowledged on top of frames that are not on the
//! disk, and a power cut would take both. So every byte of the log is written once more, as it is read, before
//! anything is acknowledged again.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::{Result, StoreError};

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
/// The first bytes of a log whose checksums are over big-endian words; the same less one: little-endian.
const MAGIC_BIG_ENDIAN: u32 = 0x377f_0683;
/// What the format allows.
const PAGE_BYTES_MAX: usize = 65_536;

/// The path of a database's log.
pub fn log_path(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push("-wal");
    PathBuf::from(path)
}

/// Writes a database's log again, and syncs it. Answers how many of its first frames are whole: where the kernel
/// dropped what it could not write, fewer than were committed. Nobody may write to the log meanwhile.
pub fn rewrite(database: &Path) -> Result<u32> {
    let file = match File::options().read(true).write(true).open(log_path(database)) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(problem(error)),
    };
    let frames = write_again(&file).map_err(problem)?;
    file.sync_data().map_err(problem)?;
    Ok(frames)
}

fn problem(error: std::io::Error) -> StoreError {
    StoreError::Unavailable(format!("the log cannot be written again: {error}"))
}

fn write_again(file: &File) -> std::io::Result<u32> {
    let end = file.metadata()?.len();
    let mut header = [0; HEADER_BYTES];
    if end < HEADER_BYTES as u64 {
        return Ok(0);
    }
    file.read_exact_at(&mut header, 0)?;
    file.write_all_at(&header, 0)?;
    let mut chain = Chain::begin(&header);
    // A header that says nothing of frames leaves bytes, which are written again all the same.
    let page_bytes = chain.as_ref().map_or(4096, |chain| chain.page_bytes);
    let (mut at, mut whole) = (HEADER_BYTES as u64, 0);
    let mut frame = vec![0; FRAME_HEADER_BYTES + page_bytes];
    while at < end {
        let part = &mut frame[..(end - at).min((FRAME_HEADER_BYTES + page_bytes) as u64) as usize];
        file.read_exact_at(part, at)?;
        file.write_all_at(part, at)?;
        at += part.len() as u64;
        let is_next = chain.as_mut().is_some_and(|chain| chain.goes_on_with(part));
        match is_next {
            true => whole += 1,
            false => chain = None,
        }
    }
    Ok(whole)
}

/// The checksums of a log's frames, each of which goes on from the one before.
struct Chain {
    page_bytes: usize,
    salts: [u8; 8],
    sums: (u32, u32),
    big_endian: bool,
}

impl Chain {
    /// None if the header is not that of a log.
    fn begin(header: &[u8; HEADER_BYTES]) -> Option<Chain> {
        let magic = word(header, 0);
        let big_endian = magic == MAGIC_BIG_ENDIAN;
        let page_bytes = word(header, 8) as usize;
        let is_log = big_endian || magic == MAGIC_BIG_ENDIAN - 1;
        if !is_log || !page_bytes.is_power_of_two() || !(512..=PAGE_BYTES_MAX).contains(&page_bytes)
        {
            return None;
        }
        let salts = header[16..24].try_into().expect("eight bytes");
        let mut chain = Chain { page_bytes, salts, sums: (0, 0), big_endian };
        chain.add(&header[..24]);
        (chain.sums == (word(header, 24), word(header, 28))).then_some(chain)
    }

    /// Whether this is a whole frame that was written after the ones before.
    fn goes_on_with(&mut self, frame: &[u8]) -> bool {
        if frame.len() < FRAME_HEADER_BYTES + self.page_bytes || frame[8..16] != self.salts {
            return false;
        }
        self.add(&frame[..8]);
        self.add(&frame[FRAME_HEADER_BYTES..]);
        self.sums == (word(frame, 16), word(frame, 20))
    }

    fn add(&mut self, bytes: &[u8]) {
        let (mut first, mut second) = self.sums;
        for pair in bytes.chunks_exact(8) {
            let words: [u32; 2] = [0, 4].map(|at| {
                let bytes = pair[at..at + 4].try_into().expect("four bytes");
                if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
            });
            first = first.wrapping_add(words[0]).wrapping_add(second);
            second = second.wrapping_add(words[1]).wrapping_add(first);
        }
        self.sums = (first, second);
    }
}

/// A number of the log's own headers, which are big-endian whatever its checksums are.
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    /// A database with a log of several commits, and how many frames the last of them left.
    fn written(directory: &Path) -> (Connection, PathBuf, u32) {
        let path = directory.join("log.db");
        let connection = Connection::open(&path).unwrap();
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (x TEXT)",
            )
            .unwrap();
        for round in 0..20 {
            let text = "x".repeat(round * 700);
            connection.execute("INSERT INTO t VALUES (?1)", [text]).unwrap();
        }
        let frames = connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get::<_, u32>(1))
            .unwrap();
        (connection, path, frames)
    }

    #[test]
    fn a_log_is_written_again_as_it_is_and_its_frames_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        let (connection, path, frames) = written(directory.path());
        let before = std::fs::read(log_path(&path)).unwrap();
        assert!(frames > 20);
        assert_eq!(rewrite(&path).unwrap(), frames);
        assert_eq!(std::fs::read(log_path(&path)).unwrap(), before);
        drop(connection);
    }

    #[test]
    fn frames_after_one_that_was_dropped_do_not_count() {
        let directory = tempfile::tempdir().unwrap();
        let (connection, path, frames) = written(directory.path());
        let log = File::options().write(true).open(log_path(&path)).unwrap();
        let tenth = HEADER_BYTES as u64 + 10 * (FRAME_HEADER_BYTES as u64 + 4096);
        log.write_all_at(&[0; 4096], tenth + 100).unwrap();
        assert_eq!(rewrite(&path).unwrap(), 10);
        assert!(frames > 10);
        drop(connection);
    }

    #[test]
    fn what_is_no_log_has_no_frames() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log.db");
        assert_eq!(rewrite(&path).unwrap(), 0);
        for bytes in [0, 10, 32, 100, 9000] {
            std::fs::write(log_path(&path), vec![7; bytes]).unwrap();
            assert_eq!(rewrite(&path).unwrap(), 0);
            assert_eq!(std::fs::read(log_path(&path)).unwrap(), vec![7; bytes]);
        }
    }
}
