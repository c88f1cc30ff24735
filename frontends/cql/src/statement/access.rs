//! Roles, and what they may do.

use super::{QualifiedName, RawType};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Access {
    CreateRole {
        name: String,
        if_not_exists: bool,
        options: RoleOptions,
    },
    AlterRole {
        name: String,
        if_exists: bool,
        options: RoleOptions,
    },
    DropRole {
        name: String,
        if_exists: bool,
    },
    Grant {
        permissions: Vec<Permission>,
        resource: Resource,
        role: String,
    },
    Revoke {
        permissions: Vec<Permission>,
        resource: Resource,
        role: String,
    },
    GrantRole {
        role: String,
        to: String,
    },
    RevokeRole {
        role: String,
        from: String,
    },
    ListPermissions(ListPermissions),
    ListRoles {
        of: Option<String>,
        is_recursive: bool,
    },
    ListUsers,
    AddIdentity {
        identity: String,
        role: String,
        if_not_exists: bool,
    },
    DropIdentity {
        identity: String,
        if_exists: bool,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RoleOptions {
    pub(crate) password: Option<String>,
    pub(crate) hashed_password: Option<String>,
    pub(crate) is_superuser: Option<bool>,
    pub(crate) can_login: Option<bool>,
    pub(crate) options: Option<Vec<(String, String)>>,
    /// Empty: all of them.
    pub(crate) datacenters: Option<Vec<String>>,
    /// Empty: all of them.
    pub(crate) address_groups: Option<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ListPermissions {
    pub(crate) permissions: Vec<Permission>,
    pub(crate) resource: Option<Resource>,
    pub(crate) of: Option<String>,
    pub(crate) is_recursive: bool,
}

macro_rules! permissions {
    ($($permission:ident $name:literal)*) => {
        /// What a role may be allowed to do.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Permission {
            $($permission,)*
        }

        impl Permission {
            pub(crate) const ALL: &[Self] = &[$(Self::$permission),*];

            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$permission => $name,)*
                }
            }
        }
    };
}

permissions! {
    Create "CREATE"
    Alter "ALTER"
    Drop "DROP"
    Select "SELECT"
    Modify "MODIFY"
    Authorize "AUTHORIZE"
    Describe "DESCRIBE"
    Execute "EXECUTE"
    Unmask "UNMASK"
    SelectMasked "SELECT_MASKED"
}

/// What permissions are for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Resource {
    AllKeyspaces,
    Keyspace(String),
    AllTables(String),
    Table(QualifiedName),
    AllRoles,
    Role(String),
    AllFunctions,
    AllFunctionsIn(String),
    Function(FunctionSignature),
    AllBeans,
    Bean(String),
}

/// A function, and the types of its arguments if they were given.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FunctionSignature {
    pub(crate) name: QualifiedName,
    pub(crate) arguments: Option<Vec<RawType>>,
}
