//! The names of the protocol's own headers, made once: finding one by its text would read that text
//! each time.

use hyper::header::HeaderName;

macro_rules! header_names {
    ($($name:ident $text:literal)*) => {
        $(pub(crate) static $name: HeaderName = HeaderName::from_static($text);)*
    };
}

header_names! {
    CLIENT_REQUEST_ID "x-ms-client-request-id"
    CONTENT_MD5 "content-md5"
    CONTENT_TYPE_OPTIONS "x-content-type-options"
    ERROR_CODE "x-ms-error-code"
    METHOD "x-http-method"
    MS_DATE "x-ms-date"
    PREFER "prefer"
    PREFERENCE_APPLIED "preference-applied"
    DATA_SERVICE_ID "dataserviceid"
    NEXT_PARTITION_KEY "x-ms-continuation-nextpartitionkey"
    NEXT_ROW_KEY "x-ms-continuation-nextrowkey"
    NEXT_TABLE_NAME "x-ms-continuation-nexttablename"
    OFFER_AUTOSCALE "x-ms-cosmos-offer-autopilot-settings"
    OFFER_THROUGHPUT "x-ms-offer-throughput"
    REQUEST_CHARGE "x-ms-request-charge"
    REQUEST_ID "x-ms-request-id"
    RETRY_AFTER_MS "x-ms-retry-after-ms"
    VERSION "x-ms-version"
}
