//! The machine's memory, and the server's default share of it.

use std::fs;

/// Bounds of the server's share: enough for documents of any size, and not more than most need.
const LEAST: usize = 256 << 20;
const MOST: usize = 2 << 30;

/// A quarter of the machine's memory, or of the container's limit.
pub(super) fn share() -> usize {
    let limits = [
        fs::read_to_string("/proc/meminfo")
            .ok()
            .as_deref()
            .and_then(total),
        limit("/sys/fs/cgroup/memory.max"),
        limit("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
    ];
    let least = limits.into_iter().flatten().min();
    least.map_or(LEAST, |bytes| (bytes / 4).clamp(LEAST, MOST))
}

/// All memory, as the kernel reports it.
fn total(meminfo: &str) -> Option<usize> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: usize = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1_024)
}

/// A limit in a file; none if there is no file or no limit.
fn limit(path: &str) -> Option<usize> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_understood() {
        let meminfo = "MemTotal:       24633112 kB\nMemFree:         1000 kB\n";
        assert_eq!(total(meminfo), Some(24_633_112 * 1_024));
        assert_eq!(total("nothing"), None);
        assert!((LEAST..=MOST).contains(&share()));
    }
}
