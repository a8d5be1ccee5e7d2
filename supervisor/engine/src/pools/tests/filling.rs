//! When sessions are started, and for whom.

use super::*;

#[tokio::test]
async fn fewer_than_the_low_mark_are_filled_up_to_the_high_one() {
    let mut bench = Bench::new();
    let _agents = bench.filled(2, 4).await;
    bench.rests().await;
    let mut taken = vec![bench.checkout().unwrap(), bench.checkout().unwrap()];
    bench.rests().await;
    taken.push(bench.checkout().unwrap());
    let _more = [bench.start_one().await, bench.start_one().await, bench.start_one().await];
    bench.until_ready(4).await;
    bench.rests().await;
}

/// Which pool a session that is launched is for.
async fn environment(bench: &mut Bench) -> (String, FakeAgent) {
    let mut agent = bench.launched.recv().await.unwrap();
    let policy = agent.start().await;
    let (_, value) = policy.env.into_iter().find(|(name, _)| name == "ENVIRONMENT").unwrap();
    (value, agent)
}

fn own(bench: &Bench, environment: &str, high: usize) -> PoolSpec {
    let mut spec = bench.spec(high, high);
    spec.plan.policy.env = vec![("ENVIRONMENT".to_owned(), environment.to_owned())];
    spec
}

#[tokio::test]
async fn the_emptiest_pool_comes_first_and_equals_take_turns() {
    let mut bench = Bench::new();
    tokio::time::pause();
    for (environment, high) in [("a", 4), ("b", 2), ("c", 2)] {
        bench.pools.ensure("t", environment, || Some(own(&bench, environment, high)));
    }
    let (mut order, mut agents) = (String::new(), Vec::new());
    for _ in 0..8 {
        let (environment, agent) = environment(&mut bench).await;
        order.push_str(&environment);
        agents.push(agent);
    }
    // Fractions of each: 0, then 1/4 before 1/2, then the three at 1/2 in turn.
    assert_eq!(order, "abcabcaa");
}

#[tokio::test]
async fn pause_after_each_start_keeps_the_cpu_share() {
    let bounds = Bounds { cpu_share: 1e-9, ..bounds() };
    let mut bench = Bench::with(bounds);
    tokio::time::pause();
    let permanent = BTreeSet::from([key("t", "e")]);
    bench.pools.arrange(bounds, &permanent, |_| Some(bench.spec(2, 2)));
    let mut agent = bench.launched.recv().await.unwrap();
    let began = Instant::now();
    tokio::time::advance(Duration::from_secs(1)).await;
    agent.start().await;
    let _second = bench.start_one().await;
    // A billionth of some CPUs: for each second there is a rest of a day, which is the longest.
    assert!(began.elapsed() >= Duration::from_hours(24));
}

#[tokio::test]
async fn starts_that_fail_are_tried_again_after_longer_and_longer() {
    let mut bench = Bench::new();
    tokio::time::pause();
    let began = Instant::now();
    bench.pools.ensure("t", "e", || Some(bench.spec(1, 1)));
    for wait_s in [0, 1, 3, 7] {
        let mut agent = bench.launched.recv().await.unwrap();
        assert_eq!(began.elapsed().as_secs(), wait_s);
        agent.launched().await;
        agent.send(FromAgent::Failed(failure())).await;
    }
    let _agent = bench.start_one().await;
    bench.until_ready(1).await;
    bench.shows(r#"vivarium_pool_refills_total{environment="e",outcome="failed"} 4"#);
}

#[tokio::test]
async fn pooled_session_that_never_becomes_ready_is_ended() {
    let bounds = Bounds { start_timeout: Duration::from_secs(5), ..bounds() };
    let mut bench = Bench::with(bounds);
    tokio::time::pause();
    bench.pools.ensure("t", "e", || Some(bench.spec(1, 1)));
    let mut agent = bench.launched.recv().await.unwrap();
    agent.launched().await;
    assert_eq!(agent.recv().await, None, "end of file");
    let mut agent = bench.launched.recv().await.unwrap();
    agent.launched().await;
    agent.exited(1, None, KernelEnd::NotStarted("ENOMEM".into())).await;
    assert_eq!(agent.recv().await, None, "whatever it says instead");
    let _agent = bench.start_one().await;
    bench.until_ready(1).await;
}

#[tokio::test]
async fn a_pool_that_nobody_uses_is_drained_and_a_lasting_one_is_not() {
    let mut bench = Bench::new();
    tokio::time::pause();
    let mut agents = bench.filled(1, 1).await;
    let permanent = BTreeSet::from([key("t", "permanent")]);
    bench.pools.arrange(bounds(), &permanent, |_| Some(bench.spec(1, 1)));
    let _lasting = bench.start_one().await;
    tokio::time::sleep(HOUR / 2).await;
    bench.pools.touch("t", "e");
    tokio::time::sleep(HOUR * 3 / 4).await;
    assert_eq!(bench.pools.ready("t", "e"), 1, "it was used");
    tokio::time::sleep(HOUR / 2).await;
    assert_eq!(bench.pools.ready("t", "e"), 0);
    assert_eq!(agents.remove(0).recv().await, None);
    assert_eq!(bench.pools.ready("t", "permanent"), 1);
    assert_eq!(bench.pools.ready_in("permanent"), 1);
    assert!(!bench.registry.has("t", "e"));
}
