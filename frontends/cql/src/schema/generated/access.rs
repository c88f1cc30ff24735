//! Statements on roles, and on what they may do.

use rand::Rng as _;

use super::{Writer, quote};

const PERMISSIONS: &[&str] = &[
    "ALL",
    "ALL PERMISSIONS",
    "CREATE",
    "ALTER",
    "DROP",
    "SELECT",
    "MODIFY",
    "AUTHORIZE",
    "DESCRIBE",
    "EXECUTE",
    "UNMASK",
    "SELECT_MASKED",
    "SELECT, MODIFY",
    "ALTER PERMISSION, DROP PERMISSION",
];

const HASHES: &[&str] = &[
    "$2a$10$JSJEMFm6GeaW9XxT5JIheuEtPvat6i7uKbnTcxX3c1wshIIsGyUtG",
    "$2a$04$JSJEMFm6GeaW9XxT5JIheuEtPvat6i7uKbnTcxX3c1wshIIsGyUtG",
    "$2a$31$JSJEMFm6GeaW9XxT5JIheuEtPvat6i7uKbnTcxX3c1wshIIsGyUtG",
    "$2b$10$JSJEMFm6GeaW9XxT5JIheuEtPvat6i7uKbnTcxX3c1wshIIsGyUtG",
    "pbkdf2-sha256$1000$00$00",
    "",
    "secret",
];

impl Writer {
    /// The name of a role that may be there.
    fn role(&mut self) -> String {
        let roles = self.roles.clone();
        self.known(&roles)
    }

    fn role_options(&mut self) -> String {
        let mut options = Vec::new();
        for _ in 0..self.random.random_range(0..4) {
            let option = match self.random.random_range(0..9) {
                0 => format!("SUPERUSER = {}", self.of(&["true", "FALSE"])),
                1 | 2 => format!("LOGIN = {}", self.of(&["true", "false"])),
                3 if self.one_in(20) => format!("PASSWORD = {}", self.text()),
                3 | 4 => format!("HASHED PASSWORD = '{}'", self.of(HASHES)),
                5 => "ACCESS TO ALL DATACENTERS".to_owned(),
                6 => "ACCESS TO DATACENTERS {'datacenter1'}".to_owned(),
                7 => self
                    .of(&[
                        "ACCESS FROM ALL CIDRS",
                        "ACCESS FROM CIDRS {'a'}",
                        "ACCESS TO DATACENTERS {'dc2'}",
                    ])
                    .to_owned(),
                _ => "OPTIONS = {'a': 'b'}".to_owned(),
            };
            options.push(option);
        }
        match options.is_empty() {
            true => String::new(),
            false => format!(" WITH {}", options.join(" AND ")),
        }
    }

    fn resource(&mut self) -> String {
        let (keyspaces, (table, _)) = (self.keyspaces.clone(), self.table());
        let keyspace = match self.one_in(2) {
            true => "ks".to_owned(),
            false => self.known(&keyspaces),
        };
        match self.random.random_range(0..13) {
            0 => "ALL KEYSPACES".to_owned(),
            1 | 2 => format!("KEYSPACE {keyspace}"),
            3 => format!("ALL TABLES IN KEYSPACE {keyspace}"),
            4 | 5 => format!("TABLE ks.{table}"),
            6 => format!("{keyspace}.t"),
            7 => "ALL ROLES".to_owned(),
            8 | 9 => format!("ROLE {}", self.role()),
            10 => self.of(&["ALL FUNCTIONS", "ALL MBEANS"]).to_owned(),
            11 => format!("ALL FUNCTIONS IN KEYSPACE {keyspace}"),
            _ => self.of(&["MBEAN 'a'", "FUNCTION ks.f(int)"]).to_owned(),
        }
    }

    pub(super) fn create_role(&mut self) -> String {
        let name = self.name();
        let written = match self.one_in(2) {
            true => quote(&name),
            false => format!("'{}'", name.replace('\'', "''")),
        };
        self.roles.push(name);
        format!("CREATE ROLE {written}{}", self.role_options())
    }

    pub(super) fn change_access(&mut self) -> String {
        let (role, other) = (self.role(), self.role());
        match self.random.random_range(0..12) {
            0 => format!("ALTER ROLE {role}{}", self.role_options()),
            1 => format!("DROP ROLE {role}"),
            2 | 3 => format!("GRANT {role} TO {other}"),
            4 => format!("REVOKE {role} FROM {other}"),
            5 | 6 => {
                let (permissions, resource) = (self.of(PERMISSIONS), self.resource());
                format!("REVOKE {permissions} ON {resource} FROM {role}")
            }
            7 if self.one_in(4) => format!("ADD IDENTITY 'spiffe://a' TO ROLE {role}"),
            7 => format!("DROP TABLE ks.{}", self.table().0),
            _ => {
                let (permissions, resource) = (self.of(PERMISSIONS), self.resource());
                format!("GRANT {permissions} ON {resource} TO {role}")
            }
        }
    }
}
