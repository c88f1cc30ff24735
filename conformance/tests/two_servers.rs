//! Two servers on one PostgreSQL database, as their clients see them.
//!
//! `TESSERA_SUMS=10000` reads more sums while money moves; a test run has time for fewer.
#![cfg(test)]

use std::time::{Duration, Instant};

use tessera_conformance::clients::Client;
use tessera_conformance::{Error, Postgres, Server};

const SUMS: &str = "1000";

/// Two servers on an empty place, started at once as far as that is possible.
fn start(postgres: &Postgres, name: &str) -> Result<[Server; 2], Error> {
    let place = postgres.place(name)?;
    let start = || Server::start(&["--engine", &place]);
    let [one, other] = std::thread::scope(|scope| {
        [scope.spawn(start), scope.spawn(start)].map(|started| started.join().unwrap())
    });
    Ok([one?, other?])
}

fn mongo(server: &Server) -> String {
    let address = server.address("mongo");
    format!(
        "mongodb://{}/",
        address.expect("a listener for MongoDB clients")
    )
}

fn cql(server: &Server) -> String {
    let address = server.address("cql");
    address.expect("a listener for CQL clients").to_string()
}

fn table(server: &Server) -> String {
    let address = server.address("table").expect("a listener for tables");
    format!("http://{address}/devstoreaccount1")
}

/// Runs a client that is told of both servers.
fn walk(
    client: Client,
    servers: &[Server; 2],
    endpoint: fn(&Server) -> String,
) -> Result<(), Error> {
    let [one, other] = servers;
    let client = client.with(["--other", &endpoint(other)]);
    if let Err(error) = client.walk(&endpoint(one)) {
        // Not as a result: the report is many lines long, and must be shown as lines.
        let printed = servers.each_ref().map(Server::output);
        panic!(
            "{error}\n\nThe servers printed:\n{}\n{}",
            printed[0], printed[1]
        );
    }
    Ok(())
}

fn stop(servers: [Server; 2]) -> Result<(), Error> {
    servers.into_iter().try_for_each(Server::stop)
}

#[test]
fn what_one_server_began_the_other_goes_on_with() -> Result<(), Error> {
    let postgres = Postgres::start()?;
    let servers = start(&postgres, "handover")?;
    let script = "handover.py";
    walk(
        Client::python_script("mongo/python", script)?,
        &servers,
        mongo,
    )?;
    walk(Client::python_script("cql/python", script)?, &servers, cql)?;
    walk(
        Client::python_script("table/python", script)?,
        &servers,
        table,
    )?;
    let sums = std::env::var("TESSERA_SUMS").unwrap_or_else(|_| SUMS.to_owned());
    let money = Client::python_script("mongo/python", "money.py")?;
    walk(money.with(["--sums", &sums]), &servers, mongo)?;
    stop(servers)
}

/// How many writes each server answered, in a line that the client prints.
fn answered(line: &str) -> Option<[u64; 2]> {
    let mut words = line.strip_prefix("answered ")?.split(' ');
    let mut next = || words.next()?.parse().ok();
    Some([next()?, next()?])
}

#[test]
fn every_answered_write_outlives_the_primary() -> Result<(), Error> {
    const PATIENCE: Duration = Duration::from_secs(60);
    let mut postgres = Postgres::start()?;
    let servers = start(&postgres, "failover")?;
    let folder = tempfile::tempdir().unwrap();
    let until = folder.path().join("until");
    let client = Client::python_script("mongo/python", "failover.py")?
        .with(["--other", &mongo(&servers[1])])
        .with(["--until".as_ref(), until.as_os_str()]);
    let mut client = client.start(&mongo(&servers[0]))?;
    let beyond = |least: [u64; 2], patience| {
        let is_beyond = |now: &[u64; 2]| now[0] > least[0] + 10 && now[1] > least[1] + 10;
        client.wait_for(|line| answered(line).filter(is_beyond), patience)
    };
    let before = beyond([0, 0], PATIENCE).expect("writes are answered");
    beyond(before, PATIENCE).expect("and more of them");
    postgres.kill_primary()?;
    std::thread::sleep(Duration::from_secs(1));
    postgres.promote()?;
    let promoted = Instant::now();
    let printed = client.printed();
    let at_promotion = printed.lines().filter_map(answered).next_back().unwrap();
    let back = beyond(at_promotion, PATIENCE).map(|_| promoted.elapsed());
    std::fs::write(&until, "").unwrap();
    let ended = client.ended_within(PATIENCE)?;
    let printed = client.printed();
    let story: Vec<_> = printed
        .lines()
        .filter(|line| answered(line).is_none())
        .collect();
    println!("back {back:?} after the promotion; {}", story.join("\n"));
    assert!(ended.is_some_and(|status| status.success()), "{printed}");
    assert!(
        back.is_some_and(|back| back < Duration::from_secs(10)),
        "{back:?}\n{printed}"
    );
    stop(servers)
}
