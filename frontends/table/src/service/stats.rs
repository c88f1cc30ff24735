//! The statistics of the service: the state of its copy in the second region.

use std::time::SystemTime;

use super::xml::{document, leaf, nest};

/// The document of a copy that is never behind: this service has no second region.
pub(crate) fn write_xml(now: SystemTime) -> Vec<u8> {
    document("StorageServiceStats", |out| {
        nest(out, "GeoReplication", |out| {
            leaf(out, "Status", "live");
            leaf(out, "LastSyncTime", &httpdate::fmt_http_date(now));
        });
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn writes_the_time_as_http_does() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_794_793_448);
        assert_eq!(
            String::from_utf8(write_xml(now)).unwrap(),
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><StorageServiceStats><GeoReplication>\
             <Status>live</Status><LastSyncTime>Mon, 16 Nov 2026 01:44:08 GMT</LastSyncTime>\
             </GeoReplication></StorageServiceStats>"
        );
    }
}
