//! Facts about the host and this process; those that the operating system does not provide are
//! empty.

use std::fs::read_to_string;

/// The machine's name.
pub(crate) fn host_name() -> String {
    let name = read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// The version of the kernel.
pub(crate) fn kernel() -> String {
    let version = read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    version.trim().to_owned()
}

/// The name of the distribution.
pub(crate) fn os_name() -> String {
    let release = read_to_string("/etc/os-release").unwrap_or_default();
    let name = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.unwrap_or_default().trim_matches('"').to_owned()
}

/// How many commands can compute at once.
pub(crate) fn cores() -> i32 {
    let cores = std::thread::available_parallelism();
    cores.map_or(1, |cores| i32::try_from(cores.get()).unwrap_or(i32::MAX))
}

/// The machine's memory.
pub(crate) fn memory_bytes() -> u64 {
    kibibytes("/proc/meminfo", "MemTotal:") << 10
}

/// Memory that this process has in use, and addresses that it has taken.
pub(crate) fn own_memory_bytes() -> (u64, u64) {
    let of = |field| kibibytes("/proc/self/status", field) << 10;
    (of("VmRSS:"), of("VmSize:"))
}

fn kibibytes(file: &str, field: &str) -> u64 {
    let text = read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|rest| rest.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_on_a_machine_with_more() {
        let (resident, reserved) = own_memory_bytes();
        assert!(resident > 0 && reserved >= resident);
        assert!(memory_bytes() > resident);
        assert!(cores() > 0 && !host_name().is_empty());
    }
}
