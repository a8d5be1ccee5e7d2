//! The states of a session and what leads from one to the next. A table, and nothing else.

use strum::IntoStaticStr;
use vivarium_api_types::SessionState;

#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(super) enum Event {
    Sent,
    Interrupted,
    /// The execution is over and its kernel still there.
    Ended,
    /// The kernel is gone, or was told to be.
    KernelGone,
    /// A kernel is ready and no execution is in it.
    KernelReady,
    /// A kernel is ready and takes up an execution that was on its way.
    KernelResumed,
    Closed,
}

/// Something that can not happen now. It would be an error of ours: what agents say has been
/// through [`vivarium_protocol::sequence`] before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{} while {}", <&str>::from(.event), <&str>::from(.state))]
pub(super) struct Impossible {
    state: SessionState,
    event: Event,
}

pub(super) const fn next(state: SessionState, event: Event) -> Result<SessionState, Impossible> {
    use SessionState::{Closed, Idle, Interrupting, Replacing, Running, Starting};
    Ok(match (state, event) {
        (Closed, _) => return Err(Impossible { state, event }),
        (_, Event::Closed) => Closed,
        (Idle, Event::Sent) => Running,
        (Running | Interrupting, Event::Interrupted) => Interrupting,
        (Running | Interrupting, Event::Ended) => Idle,
        // The execution ended by itself after its kernel had been told to go.
        (Replacing, Event::Ended) => Replacing,
        // A first kernel that dies before it is ready is still the first.
        (Starting, Event::KernelGone) => Starting,
        (Idle | Running | Interrupting | Replacing, Event::KernelGone) => Replacing,
        (Starting | Replacing, Event::KernelReady) => Idle,
        (Replacing | Running | Interrupting, Event::KernelResumed) => Running,
        _ => return Err(Impossible { state, event }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use SessionState::{Closed, Idle, Interrupting, Replacing, Running, Starting};
    use strum::VariantArray;

    fn walk(events: &[Event]) -> SessionState {
        events.iter().fold(Starting, |state, event| next(state, *event).unwrap())
    }

    #[test]
    fn an_execution_leads_back_to_idle() {
        assert_eq!(walk(&[Event::KernelReady, Event::Sent, Event::Ended]), Idle);
        let timed_out = [Event::KernelReady, Event::Sent, Event::Interrupted, Event::Ended];
        assert_eq!(walk(&timed_out), Idle);
    }

    #[test]
    fn a_killed_kernel_is_replaced() {
        let killed = [Event::KernelReady, Event::Sent, Event::Interrupted, Event::KernelGone];
        assert_eq!(walk(&killed), Replacing);
        assert_eq!(walk(&[killed.as_slice(), &[Event::KernelReady]].concat()), Idle);
        // Its own end crossed our order.
        assert_eq!(walk(&[killed.as_slice(), &[Event::Ended]].concat()), Replacing);
    }

    #[test]
    fn every_state_but_closed_can_be_closed_and_nothing_leaves_closed() {
        for state in <SessionState as VariantArray>::VARIANTS.iter().copied() {
            assert_eq!(next(state, Event::Closed).is_ok(), state != Closed);
        }
        for event in [
            Event::Sent,
            Event::Interrupted,
            Event::Ended,
            Event::KernelGone,
            Event::KernelReady,
            Event::KernelResumed,
        ] {
            assert!(next(Closed, event).is_err());
        }
    }

    #[test]
    fn code_goes_only_to_an_idle_session() {
        for state in <SessionState as VariantArray>::VARIANTS.iter().copied() {
            assert_eq!(next(state, Event::Sent).is_ok(), state == Idle, "{state:?}");
        }
    }

    #[test]
    fn only_running_sessions_can_be_interrupted() {
        for state in <SessionState as VariantArray>::VARIANTS.iter().copied() {
            let runs = matches!(state, Running | Interrupting);
            assert_eq!(next(state, Event::Interrupted).is_ok(), runs, "{state:?}");
        }
    }
}
