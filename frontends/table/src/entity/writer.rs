//! The common interface of the writers of answers.

use std::fmt::{self, Display};

use super::view::{EntityView, Select};

/// Writes the bodies of answers.
pub(crate) trait Writer {
    /// One entity.
    fn entity(
        &self,
        out: &mut Vec<u8>,
        table: &str,
        select: Option<&Select>,
        entity: &EntityView<'_>,
    );

    /// A page of entities.
    fn entities(
        &self,
        out: &mut Vec<u8>,
        table: &str,
        select: Option<&Select>,
        entities: &mut dyn Iterator<Item = EntityView<'_>>,
    );

    /// One table.
    fn table(&self, out: &mut Vec<u8>, name: &str);

    /// A page of tables.
    fn tables(&self, out: &mut Vec<u8>, names: &mut dyn Iterator<Item = &str>);
}

/// The origin of the answer, for the addresses in it, as the client writes them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin<'a> {
    pub(crate) tls: bool,
    /// With its port.
    pub(crate) host: &'a str,
    pub(crate) account: &'a str,
    /// Whether the account stands in the path and not in the host.
    pub(crate) path_style: bool,
}

impl Display for Origin<'_> {
    /// The address of the account, such as `http://127.0.0.1:10002/devstoreaccount1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.host)?;
        if self.path_style {
            write!(f, "/{}", self.account)?;
        }
        Ok(())
    }
}
