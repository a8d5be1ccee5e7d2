//! What a launcher is told before there is an agent.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use vivarium_protocol::frame::MAX_FRAME_BYTES;
use vivarium_protocol::message::{Failure, Launch, LaunchOrder};
use vivarium_protocol::policy::Policy;
use vivarium_protocol::stream;

use crate::failure::{OrFailure, failure};
use crate::id_namespace;
use crate::leaf_control::LeafControl;
use crate::startup::check_protocol;

pub(super) enum Order {
    Prepare(Policy),
    Check,
    Start(Session),
}

/// What a session is made of.
pub(super) struct Session {
    pub(super) policy: Policy,
    pub(super) is_ahead: bool,
    pub(super) program: OwnedFd,
    /// For the agent.
    pub(super) first_leaf: Option<LeafControl>,
    pub(super) template: Option<UnixStream>,
}

pub(super) struct Orders<'a> {
    control: &'a UnixStream,
    /// Whether this process is in the namespace of the subordinate ids.
    is_in_id_namespace: bool,
}

impl<'a> Orders<'a> {
    pub(super) const fn on(control: &'a UnixStream) -> Self {
        Self { control, is_in_id_namespace: false }
    }

    /// Receives a policy, with what comes with it, and validates it again. Enters the id namespace, if the
    /// session is to have subordinate ids.
    pub(super) fn next(&mut self) -> Result<Order, Failure> {
        let (order, fds) = stream::receive_with::<LaunchOrder>(self.control, MAX_FRAME_BYTES)
            .or_failure("receive the policy")?;
        let mut fds = fds.into_iter();
        let order = match order {
            LaunchOrder::Prepare(launch) => {
                check_protocol(launch.protocol_version)?;
                launch.policy.validate_surroundings().or_failure("validate the policy")?;
                self.enter_id_namespace(&launch.policy, &mut fds)?;
                Order::Prepare(launch.policy)
            }
            LaunchOrder::Check => Order::Check,
            LaunchOrder::Start(launch) => {
                check_protocol(launch.protocol_version)?;
                let Launch { policy, is_ahead, .. } = launch;
                policy.validate().or_failure("validate the policy")?;
                let program = fds.next();
                let program = program
                    .ok_or_else(|| failure("receive the kernel program", "there is none"))?;
                self.enter_id_namespace(&policy, &mut fds)?;
                let first_leaf = match policy.cgroup {
                    Some(_) => Some(receive_leaf(&mut fds)?),
                    None => None,
                };
                let template = fds.next().map(UnixStream::from);
                Order::Start(Session { policy, is_ahead, program, first_leaf, template })
            }
        };
        if fds.next().is_some() {
            return Err(failure("receive the policy", "more came with it than belongs to it"));
        }
        Ok(order)
    }

    fn enter_id_namespace(
        &mut self,
        policy: &Policy,
        fds: &mut impl Iterator<Item = OwnedFd>,
    ) -> Result<(), Failure> {
        if policy.ids.is_none() {
            return Ok(());
        }
        let namespace = fds.next();
        let namespace = namespace
            .ok_or_else(|| failure("receive the range of subordinate ids", "there is none"))?;
        if !self.is_in_id_namespace {
            id_namespace::enter(namespace)?;
            self.is_in_id_namespace = true;
        }
        Ok(())
    }
}

fn receive_leaf(fds: &mut impl Iterator<Item = OwnedFd>) -> Result<LeafControl, Failure> {
    let missing = || failure("receive the first leaf's files", "there are none");
    let (kill, events) = fds.next().zip(fds.next()).ok_or_else(missing)?;
    LeafControl::new(kill, events).or_failure("receive the first leaf's files")
}
