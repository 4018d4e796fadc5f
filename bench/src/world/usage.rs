//! What a process uses, as the kernel counts it.

use std::fs;
use std::time::Duration;

/// The kernel counts in hundredths of a second here, whatever its own tick is.
const TICK: Duration = Duration::from_millis(10);

/// The CPU time of a process; zero if it is gone.
pub fn cpu(pid: u32) -> Duration {
    let ticks = stat(pid).map_or(0, |stat| stat.own_ticks);
    TICK * ticks
}

/// The CPU time of those children of a process that have ended.
pub fn ended_children_cpu(pid: u32) -> Duration {
    let ticks = stat(pid).map_or(0, |stat| stat.ended_children_ticks);
    TICK * ticks
}

/// The CPU time of a process and all its children, those that ended included.
pub fn family_cpu(parent: u32) -> Duration {
    let Some(own) = stat(parent) else {
        return Duration::ZERO;
    };
    let children = fs::read_dir("/proc").into_iter().flatten();
    let children = children
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(stat)
        .filter(|stat| stat.parent == parent)
        .map(|stat| stat.own_ticks);
    TICK * (own.own_ticks + own.ended_children_ticks + children.sum::<u32>())
}

/// The CPU time of the whole machine so far, all cores and all processes together.
pub fn machine_cpu() -> Duration {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    TICK * busy_ticks(&text)
}

/// Everything in the first line but what was idle or waited for the disk.
fn busy_ticks(text: &str) -> u32 {
    let line = text.lines().next().unwrap_or_default();
    let fields = line.split_ascii_whitespace().skip(1).enumerate();
    // The last two are guests, which the first two hold already.
    let busy = fields.filter(|(place, _)| !matches!(place, 3 | 4 | 8..));
    busy.filter_map(|(_, field)| field.parse::<u32>().ok()).sum()
}

/// The parent of a process.
pub fn parent(pid: u32) -> Option<u32> {
    stat(pid).map(|stat| stat.parent)
}

/// The memory a process holds, in bytes.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: u64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

struct Stat {
    parent: u32,
    own_ticks: u32,
    ended_children_ticks: u32,
}

fn stat(pid: u32) -> Option<Stat> {
    read_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The name in the second field may itself hold spaces and parentheses.
fn read_stat(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u32>().ok();
    Some(Stat {
        parent: number(1)?,
        own_ticks: number(11)? + number(12)?,
        ended_children_ticks: number(13)? + number(14)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_machine_is_one_that_neither_idles_nor_waits_for_the_disk() {
        assert_eq!(busy_ticks("cpu  1 2 4 1000 2000 8 16 32 1 2\ncpu0 9 9"), 63);
    }

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let text = "12 (a (b) c) S 7 1 1 0 -1 4194560 1 2 3 4 50 60 70 80 20 0 1 0 100";
        let stat = read_stat(text).unwrap();
        assert_eq!((stat.parent, stat.own_ticks), (7, 110));
        assert_eq!(stat.ended_children_ticks, 150);
    }
}
