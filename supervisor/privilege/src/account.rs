//! The user to become.

use nix::unistd::{Gid, Uid, User};

use crate::PrivilegeError;

/// A user that is not root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub name: String,
    pub uid: Uid,
    pub gid: Gid,
}

impl Account {
    /// The user with this name or number.
    pub(super) fn find(name: &str) -> Result<Self, PrivilegeError> {
        let found = match name.parse() {
            Ok(uid) => User::from_uid(Uid::from_raw(uid)),
            Err(_) => User::from_name(name),
        };
        let user = found
            .map_err(|source| PrivilegeError::Lookup { user: name.to_owned(), source })?
            .ok_or_else(|| PrivilegeError::NoUser(name.to_owned()))?;
        Self::of(user)
    }

    fn of(user: User) -> Result<Self, PrivilegeError> {
        if user.uid.is_root() || user.gid.as_raw() == 0 {
            return Err(PrivilegeError::Root(user.name));
        }
        Ok(Self { name: user.name, uid: user.uid, gid: user.gid })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_refused_by_name_by_number_and_by_group() {
        for root in ["root", "0"] {
            assert!(matches!(Account::find(root), Err(PrivilegeError::Root(_))), "{root}");
        }
        let mut user = User::from_name("nobody").unwrap().unwrap();
        assert_eq!(Account::of(user.clone()).unwrap().name, "nobody");
        user.gid = Gid::from_raw(0);
        assert!(matches!(Account::of(user), Err(PrivilegeError::Root(_))));
    }

    #[test]
    fn missing_user_is_named_in_the_error() {
        let error = Account::find("no-such-user").unwrap_err();
        assert_eq!(error.to_string(), "server.user: there is no user \"no-such-user\"");
    }
}
