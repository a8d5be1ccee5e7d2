//! Pools of sessions whose agents are played by the test.

use std::sync::atomic::Ordering;

use tokio::sync::mpsc;
use vivarium_protocol::message::{Failure, FromAgent};
use vivarium_protocol::outcome::KernelEnd;
use vivarium_protocol::policy::Network;

use super::*;
use crate::backend::fake::{Fake, FakeAgent};
use crate::memory::{Available as Left, MemoryReading};
use crate::session::tests::launch_plan;

mod filling;
mod memory;
mod taking;

const HOUR: Duration = Duration::from_secs(3600);

/// One start at a time, whatever this host has, and no rests.
fn bounds() -> Bounds {
    let cpus = std::thread::available_parallelism().unwrap().get();
    Bounds {
        cpu_share: 1.0 / f64::from(u32::try_from(cpus).unwrap()),
        memory: MemoryPolicy { reserve_bytes: 100 << 20, max_pressure_percent: 100 },
        start_timeout: HOUR,
        idle_timeout: HOUR,
    }
}

/// Pools, and the agents of their sessions.
struct Bench {
    pools: Pools,
    backend: Arc<Fake>,
    launched: mpsc::UnboundedReceiver<FakeAgent>,
    registry: Arc<Registry>,
    metrics: Arc<Metrics>,
    memory: Arc<Memory>,
}

impl Bench {
    fn new() -> Self {
        Self::with(bounds())
    }

    fn with(bounds: Bounds) -> Self {
        let (backend, launched) = Fake::new();
        let (metrics, registry) = (Arc::new(Metrics::new().unwrap()), Arc::default());
        let memory = Arc::new(Memory::fixed(MemoryReading::default()));
        let pools = Pools::new(bounds, &metrics, &registry, &memory);
        Self { pools, backend, launched, registry, metrics, memory }
    }

    fn spec(&self, low: usize, high: usize) -> PoolSpec {
        let environment = Environment::default();
        PoolSpec {
            plan: launch_plan(&self.backend),
            environment,
            watermarks: Watermarks { low, high },
        }
    }

    fn policy(&self) -> Policy {
        launch_plan(&self.backend).policy
    }

    /// Has a pool of so many sessions, whose agents it gives.
    async fn filled(&mut self, low: usize, high: usize) -> Vec<FakeAgent> {
        self.pools.ensure("t", "e", || Some(self.spec(low, high)));
        let mut agents = Vec::new();
        for _ in 0..high {
            agents.push(self.start_one().await);
        }
        self.until_ready(high).await;
        agents
    }

    /// The next session that is launched, as far as its kernel.
    async fn start_one(&mut self) -> FakeAgent {
        let mut agent = self.launched.recv().await.unwrap();
        agent.start().await;
        agent
    }

    async fn until_ready(&self, count: usize) {
        while self.pools.ready("t", "e") != count {
            tokio::task::yield_now().await;
        }
    }

    fn checkout(&self) -> Option<PooledSession> {
        self.pools.checkout("t", "e", &self.policy())
    }

    fn killed(&self) -> usize {
        self.backend.killed.load(Ordering::SeqCst)
    }

    async fn until_killed(&self, count: usize) {
        while self.killed() != count {
            tokio::task::yield_now().await;
        }
    }

    /// Nothing more is launched, as long as nothing changes.
    async fn rests(&mut self) {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(self.launched.try_recv().is_err(), "one more was launched");
    }

    #[track_caller]
    fn shows(&self, line: &str) {
        let text = self.metrics.scrape(|_| ()).unwrap();
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
}

fn failure() -> Failure {
    Failure::new("start", "no room")
}
