//! Sessions that start in turns.

use tokio::time::Instant;

use super::*;
use crate::session::Turns;
use crate::session::turns::{LONGEST, PER_CPU};

/// Has so many sessions of one tenant asked for at once; their agents come out.
fn ask(count: usize) -> (Vec<Arc<Session>>, mpsc::UnboundedReceiver<FakeAgent>) {
    let (backend, launched) = Fake::new();
    let mut plan = launch_plan(&backend);
    plan.context.turns = Arc::new(Turns::new(1));
    let spawn = |_| spawn(identity(), adjustable(limits()), LONG_TIMEOUTS, plan.clone(), |_| ());
    ((0..count).map(spawn).collect(), launched)
}

#[tokio::test(start_paused = true)]
async fn the_next_starts_as_soon_as_one_has() {
    let (sessions, mut launched) = ask(PER_CPU + 1);
    let begun = Instant::now();
    let mut agents = Vec::new();
    for _ in 0..PER_CPU {
        agents.push(launched.recv().await.unwrap());
    }
    assert!(launched.try_recv().is_err(), "one more than start at a time");
    agents[0].start().await;
    let _last = launched.recv().await.unwrap();
    assert!(begun.elapsed() < LONGEST);
    drop(sessions);
}

#[tokio::test(start_paused = true)]
async fn starts_that_never_end_keep_others_waiting_for_a_moment_only() {
    let (sessions, mut launched) = ask(3 * PER_CPU);
    let begun = Instant::now();
    let mut agents = Vec::new();
    for _ in &sessions {
        agents.push(launched.recv().await.unwrap());
    }
    let took = begun.elapsed();
    assert!((2 * LONGEST..3 * LONGEST).contains(&took), "{took:?}");
}
