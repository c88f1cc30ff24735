//! The service's errors: one table of codes, each with its status and its message.
//!
//! The messages are exactly the service's, because clients compare them. Further information about
//! the case is kept apart as the detail, and follows the message.
//!
//! Handlers return a [`ServiceError`]; `reply` writes it in the format that the client can read.

use std::fmt::Display;

use hyper::StatusCode;
use tessera_core::throughput::Charge;

/// The result of handlers.
pub(crate) type Result<T> = std::result::Result<T, ServiceError>;

/// A refusal: a code of the service, and its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceError {
    pub(crate) code: Code,
    /// The service's message.
    pub(crate) message: String,
    /// The detail of this case; may be empty.
    pub(crate) detail: String,
    /// The operation of a batch that failed, counted from zero.
    pub(crate) operation: Option<usize>,
    /// For 429: when the next attempt may pass.
    pub(crate) retry_after_ms: Option<u64>,
    /// The charge before the refusal.
    pub(crate) charge: Charge,
}

impl ServiceError {
    /// A refusal with another message that the service has for this code.
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            detail: String::new(),
            operation: None,
            retry_after_ms: None,
            charge: Charge::default(),
        }
    }

    /// The same refusal with a detail.
    #[must_use]
    pub(crate) fn with_detail(self, detail: impl Display) -> Self {
        let detail = detail.to_string();
        Self { detail, ..self }
    }

    /// The same refusal with this charge.
    #[must_use]
    pub(crate) fn costing(self, charge: Charge) -> Self {
        Self { charge, ..self }
    }

    /// The same refusal, of this operation of a batch.
    #[must_use]
    pub(crate) fn at(self, operation: usize) -> Self {
        let operation = Some(operation);
        Self { operation, ..self }
    }

    /// The status of the answer.
    pub(crate) fn status(&self) -> StatusCode {
        self.code.row().1
    }
}

impl From<Code> for ServiceError {
    fn from(code: Code) -> Self {
        Self::new(code, code.row().2)
    }
}

macro_rules! codes {
    ($($code:ident $status:ident $message:literal)*) => {
        /// Every code that this front end answers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Code {
            $($code,)*
        }

        impl Code {
            /// Name, status and the service's usual message.
            fn row(self) -> (&'static str, StatusCode, &'static str) {
                match self {
                    $(Self::$code => (stringify!($code), StatusCode::$status, $message),)*
                }
            }
        }
    };
}

codes! {
    AtomFormatNotSupported UNSUPPORTED_MEDIA_TYPE "Atom format is not supported."
    AuthenticationFailed FORBIDDEN
        "Server failed to authenticate the request. Make sure the value of Authorization \
         header is formed correctly including the signature."
    AuthorizationFailure FORBIDDEN "This request is not authorized to perform this operation."
    AuthorizationPermissionMismatch FORBIDDEN
        "This request is not authorized to perform this operation using this permission."
    AuthorizationProtocolMismatch FORBIDDEN
        "This request is not authorized to perform this operation using this protocol."
    AuthorizationResourceTypeMismatch FORBIDDEN
        "This request is not authorized to perform this operation using this resource type."
    AuthorizationServiceMismatch FORBIDDEN
        "This request is not authorized to perform this operation using this service."
    AuthorizationSourceIPMismatch FORBIDDEN
        "This request is not authorized to perform this operation using this source IP."
    CommandsInBatchActOnDifferentPartitions BAD_REQUEST
        "All commands in a batch must operate on same entity group."
    CorsPreflightFailure FORBIDDEN "CORS not enabled or no matching rule found for this request."
    DuplicatePropertiesSpecified BAD_REQUEST "A property is specified more than one time."
    EntityAlreadyExists CONFLICT "The specified entity already exists."
    EntityTooLarge BAD_REQUEST "The entity is larger than the maximum size permitted."
    Forbidden FORBIDDEN "The request is forbidden:"
    InternalError INTERNAL_SERVER_ERROR
        "The server encountered an internal error. Please retry the request."
    InvalidAuthenticationInfo UNAUTHORIZED
        "Authentication information is not given in the correct format. Check the value of \
         Authorization header."
    InvalidDuplicateRow BAD_REQUEST
        "A command with RowKey is already present in the batch. An entity can appear only once \
         in a batch."
    InvalidHeaderValue BAD_REQUEST
        "The value for one of the HTTP headers is not in the correct format."
    InvalidInput BAD_REQUEST "One of the request inputs is not valid."
    InvalidQueryParameterValue BAD_REQUEST
        "Value for one of the query parameters specified in the request URI is invalid."
    InvalidResourceName BAD_REQUEST "The specified resource name contains invalid characters."
    InvalidUri BAD_REQUEST "The requested URI does not represent any resource on the server."
    InvalidXmlDocument BAD_REQUEST "XML specified is not syntactically valid."
    InvalidXmlNodeValue BAD_REQUEST
        "The value for one of the XML nodes is not in the correct format."
    MediaTypeNotSupported UNSUPPORTED_MEDIA_TYPE "None of the provided media types are supported."
    MissingRequiredHeader BAD_REQUEST
        "An HTTP header that's mandatory for this request is not specified."
    NoAuthenticationInformation UNAUTHORIZED
        "Server failed to authenticate the request. Please refer to the information in the \
         www-authenticate header."
    NotImplemented NOT_IMPLEMENTED
        "The requested operation is not implemented on the specified resource."
    OperationTimedOut INTERNAL_SERVER_ERROR
        "The operation could not be completed within the permitted time."
    OutOfRangeInput BAD_REQUEST "One of the request inputs is out of range."
    PropertiesNeedValue BAD_REQUEST "The values are not specified for all properties in the entity."
    PropertyNameInvalid BAD_REQUEST "The property name is invalid."
    PropertyNameTooLong BAD_REQUEST "The property name exceeds the maximum allowed length (255)."
    PropertyValueTooLarge BAD_REQUEST
        "The property value exceeds the maximum allowed size (64KB). If the property value is \
         a string, it is UTF-16 encoded and the maximum number of characters should be 32K or \
         less."
    RequestBodyTooLarge PAYLOAD_TOO_LARGE
        "The request body is too large and exceeds the maximum permissible limit."
    ResourceNotFound NOT_FOUND "The specified resource does not exist."
    ServerBusy SERVICE_UNAVAILABLE
        "The server is currently unable to receive requests. Please retry your request."
    TableAlreadyExists CONFLICT "The table specified already exists."
    TableNotFound NOT_FOUND "The table specified does not exist."
    TooManyProperties BAD_REQUEST
        "The entity contains more properties than allowed. Each entity can include up to 252 \
         properties to store data. Each entity also has 3 system properties."
    TooManyRequests TOO_MANY_REQUESTS
        "The request did not complete because the request rate is large: the request units of \
         this second are used up. Please retry it later."
    UnsupportedHttpVerb METHOD_NOT_ALLOWED "The resource doesn't support the specified HTTP verb."
    UpdateConditionNotSatisfied PRECONDITION_FAILED
        "The update condition specified in the request was not satisfied."
    XMethodIncorrectValue BAD_REQUEST
        "The HTTP method specified in the XMethod header is incorrect."
    XMethodNotUsingPost BAD_REQUEST
        "The request uses X-HTTP-Method with an HTTP verb other than POST."
}

impl Code {
    /// A refusal with the service's usual message, and a detail.
    pub(crate) fn because(self, why: impl Display) -> ServiceError {
        ServiceError::from(self).with_detail(why)
    }

    /// The code as it is written in answers.
    pub(crate) fn name(self) -> &'static str {
        self.row().0
    }
}
