//! Who gets what.

use super::*;

#[tokio::test]
async fn pooled_session_is_checked_out_once_for_its_exact_policy() {
    let mut bench = Bench::new();
    assert!(bench.checkout().is_none(), "there is no pool yet");
    let _agents = bench.filled(1, 2).await;
    let other = Policy { network: Network::Full, ..bench.policy() };
    assert!(bench.pools.checkout("t", "e", &other).is_none());
    assert!(bench.pools.checkout("other", "e", &bench.policy()).is_none());
    assert!(bench.pools.checkout("t", "other", &bench.policy()).is_none());
    let (one, two) = (bench.checkout().unwrap(), bench.checkout().unwrap());
    assert_ne!(one.name(), two.name());
    assert!(bench.checkout().is_none());
    bench.shows(r#"vivarium_pool_refills_total{environment="e",outcome="ok"} 2"#);
    bench.shows(r#"vivarium_pool_refill_seconds_count{environment="e"} 2"#);
}

#[tokio::test]
async fn dead_pooled_session_is_never_checked_out() {
    let mut bench = Bench::new();
    let mut agents = bench.filled(1, 2).await;
    // Nobody else has had a chance to notice: this thread is the only one.
    drop(agents.remove(0));
    let taken = bench.checkout().unwrap();
    assert!(bench.checkout().is_none());
    bench.until_killed(1).await;
    taken.discard().await;
    assert_eq!(agents.remove(0).recv().await, None, "the living one was taken");
}

#[tokio::test]
async fn pooled_session_whose_kernel_exited_is_replaced() {
    let mut bench = Bench::new();
    let mut agents = bench.filled(1, 3).await;
    agents.remove(1).exited(1, None, KernelEnd::Exited(0)).await;
    bench.until_ready(2).await;
    bench.until_killed(1).await;
    tokio::time::pause();
    agents.push(bench.start_one().await);
    bench.until_ready(3).await;
}

#[tokio::test]
async fn pool_stops_watching_a_checked_out_session() {
    let mut bench = Bench::new();
    let mut agents = bench.filled(1, 2).await;
    let taken = bench.checkout().unwrap();
    agents.remove(0).exited(1, None, KernelEnd::Exited(0)).await;
    bench.rests().await;
    assert_eq!((bench.pools.ready("t", "e"), bench.killed()), (1, 0));
    taken.discard().await;
}

#[tokio::test]
async fn pooled_sessions_of_a_replaced_interpreter_are_ended() {
    let mut bench = Bench::new();
    let spec = bench.spec(1, 2);
    let template = Arc::clone(&spec.plan.context.template);
    bench.pools.ensure("t", "e", || Some(spec));
    let (_first, _second) = (bench.start_one().await, bench.start_one().await);
    bench.until_ready(2).await;
    template.replace();
    assert!(bench.checkout().is_none(), "none of the one that was before is given away");
    bench.until_killed(2).await;
    let mut starting = bench.launched.recv().await.unwrap();
    // While one is starting.
    template.replace();
    bench.pools.touch("t", "e");
    assert!(bench.checkout().is_none());
    starting.start().await;
    bench.until_killed(3).await;
    let (_third, _fourth) = (bench.start_one().await, bench.start_one().await);
    bench.until_ready(2).await;
    assert!(bench.checkout().is_some());
}

#[tokio::test]
async fn reload_ends_pooled_sessions_of_the_old_settings() {
    let mut bench = Bench::new();
    let _agents = bench.filled(1, 2).await;
    let other = Policy { network: Network::Full, ..bench.policy() };
    let none = BTreeSet::new();
    // More of the same.
    bench.pools.arrange(bounds(), &none, |_| Some(bench.spec(3, 3)));
    let _third = bench.start_one().await;
    bench.until_ready(3).await;
    // Fewer.
    bench.pools.arrange(bounds(), &none, |_| Some(bench.spec(1, 2)));
    bench.until_killed(1).await;
    assert_eq!(bench.pools.ready("t", "e"), 2);
    // Others.
    bench.pools.arrange(bounds(), &none, |_| {
        let mut spec = bench.spec(1, 1);
        spec.plan.policy = other.clone();
        Some(spec)
    });
    assert!(bench.checkout().is_none());
    bench.until_killed(3).await;
    let _other = bench.start_one().await;
    bench.until_ready(1).await;
    assert!(bench.checkout().is_none());
    assert!(bench.pools.checkout("t", "e", &other).is_some());
    // None.
    let mut late = bench.launched.recv().await.unwrap();
    bench.pools.arrange(bounds(), &none, |_| None);
    late.start().await;
    assert_eq!(late.recv().await, None, "one that was starting is ended too");
    assert_eq!(bench.pools.ready("t", "e"), 0);
}

#[tokio::test]
async fn pooled_session_for_outdated_settings_is_ended() {
    let mut bench = Bench::new();
    bench.pools.ensure("t", "e", || Some(bench.spec(1, 1)));
    let mut late = bench.launched.recv().await.unwrap();
    let environment = Environment { pool_low: Some(1), ..Environment::default() };
    let spec = || PoolSpec { environment: environment.clone(), ..bench.spec(1, 1) };
    bench.pools.arrange(bounds(), &BTreeSet::new(), |_| Some(spec()));
    late.start().await;
    assert_eq!(late.recv().await, None);
    let _another = bench.start_one().await;
    bench.until_ready(1).await;
}

#[tokio::test]
async fn draining_ends_all_also_those_that_are_starting() {
    let mut bench = Bench::new();
    let mut agents = bench.filled(1, 2).await;
    drop(bench.checkout().unwrap());
    drop(bench.checkout().unwrap());
    agents.clear();
    agents.push(bench.start_one().await);
    bench.until_ready(1).await;
    let mut starting = bench.launched.recv().await.unwrap();
    starting.launched().await;
    bench.pools.drain().await;
    assert_eq!(bench.killed(), 2);
    assert!(bench.checkout().is_none());
    bench.pools.ensure("t", "e", || Some(bench.spec(1, 2)));
    bench.pools.drain().await;
    bench.rests().await;
    assert_eq!(starting.recv().await, None);
}

#[tokio::test]
async fn dropped_pools_end_their_sessions() {
    let mut bench = Bench::new();
    let mut agents = bench.filled(1, 1).await;
    let Bench { pools, .. } = bench;
    drop(pools);
    assert_eq!(agents.remove(0).recv().await, None);
}
