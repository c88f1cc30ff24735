//! The host names of this machine.
//!
//! Any web site can make a browser on this machine send requests here, also under a name of its own
//! that resolves to this machine (DNS rebinding). Such a request names another host.

use std::net::IpAddr;

/// Whether `host`, the value of a Host header, can only mean this machine: `localhost` or a name
/// below it, or a loopback address.
pub fn names_this_machine(host: &str) -> bool {
    // Called for every request of the public account, with a few bytes: a plain loop is faster than
    // a search made for long texts.
    let mut bytes = host.bytes();
    let port = bytes.rposition(|byte| byte == b':');
    let name = match port.and_then(|at| Some((host.get(..at)?, host.get(at + 1..)?))) {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bracketed = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    let name = bracketed.unwrap_or(name);
    // What nearly all clients use need not be parsed.
    if ["127.0.0.1", "localhost"].contains(&name) {
        return true;
    }
    if let Ok(address) = name.parse::<IpAddr>() {
        return address.to_canonical().is_loopback();
    }
    // Names below localhost never leave this machine (RFC 6761).
    let name = name.strip_suffix('.').unwrap_or(name);
    let last = name.rsplit('.').next().unwrap_or_default();
    last.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_trusted() {
        for (host, expected) in [
            ("localhost", true),
            ("LocalHost:8080", true),
            ("localhost.:8080", true),
            ("devstoreaccount1.localhost:10002", true),
            ("127.0.0.1:8080", true),
            ("127.9.9.9", true),
            ("[::1]:8080", true),
            ("[::1]", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("192.0.2.8:8080", false),
            ("evil.example:8080", false),
            ("localhost.evil.example", false),
            ("evil-localhost", false),
            ("127.0.0.1.evil.example", false),
            ("127.0.0.1:8080@evil.example", false),
            ("localhost:80:80", false),
            ("10.0.0.1", false),
            ("0.0.0.0:8080", false),
            ("[::]:8080", false),
            ("[::1", false),
            ("2130706433", false),
            ("", false),
            (":8080", false),
        ] {
            assert_eq!(names_this_machine(host), expected, "{host}");
        }
    }
}
