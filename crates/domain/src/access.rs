//! API keys: what each role may do, and whose data it reaches.

use serde::{Deserialize, Serialize};

use crate::id::KeyId;
use crate::tenant::TenantId;
use crate::time::Timestamp;

/// What a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Reads anything of its tenant, never secrets.
    Viewer = 0,
    /// Publishes events and creates jobs.
    Publisher = 1,
    /// Leases jobs and works on them.
    Worker = 2,
    /// Runs the place: replays, cancels, sets up sources.
    Operator = 3,
    /// Everything, keys and tenants included.
    Admin = 4,
    /// Looks after the webhooks of one tenant. Only portal links have it: no key is made with it.
    #[serde(skip_deserializing)]
    Subscriber = 5,
}

/// A thing that a role may or may not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Read anything of the tenant.
    Read,
    /// Create jobs, publish events.
    Create,
    /// Lease jobs, and every call that carries a lease token.
    Work,
    /// Replay, cancel, approve, resolve, pause, enable, rotate.
    Operate,
    /// Create, change and delete sources and the like.
    Configure,
    /// Look after webhooks and their deliveries.
    Subscribe,
    /// Keys, tenants, audit, administration.
    Administer,
}

impl Role {
    /// All roles that a key may have.
    pub const ALL: [Role; 5] =
        [Role::Viewer, Role::Publisher, Role::Worker, Role::Operator, Role::Admin];

    /// Whether the role has the right.
    pub fn may(self, right: Right) -> bool {
        match right {
            Right::Read => matches!(self, Role::Viewer | Role::Operator | Role::Admin),
            Right::Create => !matches!(self, Role::Viewer | Role::Subscriber),
            Right::Work => matches!(self, Role::Worker | Role::Admin),
            Right::Operate | Right::Configure => matches!(self, Role::Operator | Role::Admin),
            Right::Subscribe => matches!(self, Role::Operator | Role::Admin | Role::Subscriber),
            Right::Administer => self == Role::Admin,
        }
    }

    /// From storage.
    pub fn from_code(code: i16) -> Option<Role> {
        Role::ALL.into_iter().find(|role| *role as i16 == code)
    }
}

/// Whose data a key reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reach {
    /// One tenant's.
    Tenant(TenantId),
    /// All tenants'.
    All,
}

/// One API key, without its secret, which only its holder has.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// Its id.
    pub id: KeyId,
    /// A name for people.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Whose data it reaches.
    pub reach: Reach,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
    /// When it was last used, to the minute.
    pub last_used_at: Option<Timestamp>,
    /// How many calls it may make in a second, on each node. `None`: as the server says.
    pub rate_per_s: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_has_its_rights_and_no_others() {
        use Right::*;
        let rights = |role: Role| {
            [Read, Create, Work, Operate, Configure, Subscribe, Administer]
                .map(|right| role.may(right))
        };
        assert_eq!(rights(Role::Viewer), [true, false, false, false, false, false, false]);
        assert_eq!(rights(Role::Publisher), [false, true, false, false, false, false, false]);
        assert_eq!(rights(Role::Worker), [false, true, true, false, false, false, false]);
        assert_eq!(rights(Role::Operator), [true, true, false, true, true, true, false]);
        assert_eq!(rights(Role::Admin), [true; 7]);
        assert_eq!(rights(Role::Subscriber), [false, false, false, false, false, true, false]);
    }

    #[test]
    fn no_key_is_made_or_read_as_a_subscribers() {
        assert!(serde_json::from_str::<Role>("\"subscriber\"").is_err());
        assert_eq!(Role::from_code(Role::Subscriber as i16), None);
        for role in Role::ALL {
            let text = serde_json::to_string(&role).unwrap();
            assert_eq!(serde_json::from_str::<Role>(&text).unwrap(), role);
            assert_eq!(Role::from_code(role as i16), Some(role));
        }
    }
}
