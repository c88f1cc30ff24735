//! Failed logins and their delays, with a clock that the tests move.

use super::*;
use crate::Timeouts;

fn gate(logins: &Arc<Logins>, protocol: &'static str, peer: &str) -> LoginGate {
    let timeouts = Timeouts {
        idle: None,
        stalled: Duration::from_secs(1),
    };
    let activity = Activity::new(1, timeouts);
    LoginGate::new(
        Arc::clone(logins),
        protocol,
        peer.parse().unwrap(),
        activity,
    )
}

/// The delay of a wrong login.
fn fail(gate: &LoginGate, name: &str) -> Duration {
    let (attempt, wait) = gate.enter(Guessing::Password, name).unwrap();
    attempt.failed();
    wait
}

#[test]
fn after_some_free_failures_each_waits_longer_up_to_a_bound() {
    let logins = Arc::default();
    let gate = gate(&logins, "mongo", "10.0.0.1");
    let waits: Vec<Duration> = (0..20).map(|_| fail(&gate, "ada")).collect();
    assert!(waits.iter().take(10).all(Duration::is_zero), "{waits:?}");
    assert!(waits.is_sorted() && waits[10] >= FIRST_WAIT, "{waits:?}");
    assert_eq!(waits[19].as_secs(), 5);
}

#[test]
fn another_address_is_delayed_for_the_same_name_only_and_briefly() {
    let logins = Arc::default();
    let attacker = gate(&logins, "cql", "10.0.0.1");
    for _ in 0..40 {
        fail(&attacker, "ada");
    }
    let owner = gate(&logins, "cql", "10.0.0.2");
    let (attempt, wait) = owner.enter(Guessing::Password, "ada").unwrap();
    assert!(!wait.is_zero() && wait <= LONGEST_FOR_NAME, "{wait:?}");
    attempt.succeeded();
    for (protocol, name) in [("cql", "bob"), ("mongo", "ada"), ("cql", "ada")] {
        let other = gate(&logins, protocol, "10.0.0.2");
        let (_attempt, wait) = other.enter(Guessing::Password, name).unwrap();
        assert!(wait.is_zero(), "{protocol} {name}");
    }
    // The success reset the name, and not the guessing address.
    assert_eq!(fail(&attacker, "ada").as_secs(), 5);
}

#[test]
fn a_success_forgives_its_own_failures_and_not_those_at_other_names() {
    let logins: Arc<Logins> = Arc::default();
    let gate = gate(&logins, "mongo", "::ffff:10.0.0.1");
    for _ in 0..9 {
        fail(&gate, "ada");
    }
    gate.accepted(Guessing::Password, "ada");
    assert_eq!(logins.tracked.load(Ordering::Relaxed), 0);
    for _ in 0..9 {
        assert!(fail(&gate, "victim").is_zero());
    }
    for _ in 0..5 {
        gate.accepted(Guessing::Password, "eve");
        fail(&gate, "victim");
    }
    assert!(!fail(&gate, "victim").is_zero());
}

#[test]
fn many_connections_guess_no_faster_than_their_bound() {
    let logins = Arc::default();
    // One network, by IPv6.
    let address = |number| format!("2001:db8::{number:x}");
    let gates: Vec<LoginGate> = (0..1_000)
        .map(|number| gate(&logins, "mongo", &address(number)))
        .collect();
    // A program that opens all its connections at once is no attack.
    let enter = |gate| LoginGate::enter(gate, Guessing::Password, "ada");
    let at_once: Vec<_> = gates.iter().map(enter).collect();
    assert!(at_once.iter().flatten().all(|(_, wait)| wait.is_zero()));
    assert_eq!(at_once.iter().flatten().count(), gates.len());
    drop(at_once);
    for gate in gates.iter().take(10) {
        fail(gate, "ada");
    }
    let waiting = gates
        .iter()
        .filter_map(|gate| gate.enter(Guessing::Password, "ada"));
    let waiting: Vec<(Attempt<'_>, Duration)> = waiting.collect();
    let bound = usize::try_from(MAX_WAITING).unwrap();
    assert_eq!(waiting.len(), bound);
    for (attempt, _) in waiting {
        attempt.failed();
    }
    let elsewhere = gate(&logins, "mongo", "2001:db8:1::1");
    assert!(elsewhere.enter(Guessing::Password, "ada").is_some());
}

/// A program with an old password does not slow down others on its machine for long.
#[test]
fn who_logged_in_among_failures_of_others_waits_no_more() {
    let logins = Arc::default();
    let gate = gate(&logins, "mongo", "127.0.0.1");
    for _ in 0..40 {
        fail(&gate, "old");
    }
    let (attempt, wait) = gate.enter(Guessing::Password, "ada").unwrap();
    assert!(!wait.is_zero());
    attempt.succeeded();
    for _ in 0..5 {
        fail(&gate, "old");
        let (attempt, wait) = gate.enter(Guessing::Password, "ada").unwrap();
        assert!(wait.is_zero());
        attempt.succeeded();
    }
    // Its own failures count as ever.
    for _ in 0..10 {
        fail(&gate, "ada");
    }
    assert!(!fail(&gate, "ada").is_zero());
}

/// A real wait is a timer of the runtime, and ends.
#[tokio::test]
async fn a_login_waits_its_time() {
    let logins = Arc::default();
    let gate = gate(&logins, "mongo", "127.0.0.1");
    for _ in 0..10 {
        fail(&gate, "ada");
    }
    let began = Instant::now();
    gate.refused(Guessing::Password, "ada").await;
    assert!(began.elapsed() >= FIRST_WAIT);
}

#[tokio::test]
async fn what_is_remembered_is_bounded() {
    let logins: Arc<Logins> = Arc::default();
    for number in 0..MAX_TRACKED {
        let address = format!("10.{}.{}.{}", number >> 16, number >> 8 & 255, number & 255);
        let gate = gate(&logins, "mongo", &address);
        gate.refused(Guessing::Key, &format!("user {number}")).await;
    }
    let tracked = logins.lock().entries.len();
    assert!(tracked <= MAX_TRACKED + 2, "{tracked}");
    assert!(tracked > MAX_TRACKED / 4, "{tracked}");
}

#[tokio::test]
async fn an_attempt_that_is_given_up_leaves_nothing() {
    let logins: Arc<Logins> = Arc::default();
    let gate = gate(&logins, "mongo", "127.0.0.1");
    for _ in 0..100 {
        drop(gate.admit(Guessing::Password, "ada").await);
    }
    assert!(logins.lock().entries.is_empty());
}

#[test]
fn keys_are_waited_for_less_than_passwords() {
    for failures in 0..300 {
        let (key, password) = (Guessing::Key, Guessing::Password);
        assert!(key.wait_after(failures) <= password.wait_after(failures));
        assert!(password.wait_after(failures) <= Duration::from_secs(5));
    }
    assert_eq!(Guessing::Key.wait_after(99), Duration::ZERO);
    assert_eq!(Guessing::Password.wait_after(u32::MAX).as_secs(), 5);
}
