use super::*;
use crate::usage::Figures;
use vivarium_api_types::UsagePeriod;

const NOW_AND_THEN: Schedule =
    Schedule { flush_interval: Duration::from_secs(3600), keep: Duration::from_secs(86_400) };

fn start(dir: &Path, collector: &Arc<Collector>) -> Result<Keeper, KeeperError> {
    let metrics = Arc::new(Metrics::new().unwrap());
    Keeper::start(dir, NOW_AND_THEN, collector, None, &metrics)
}

fn all() -> UsageRange {
    let (from, to) = (Timestamp::UNIX_EPOCH, Timestamp::MAX);
    UsageRange { from, to, period: UsagePeriod::Total, tenant: None }
}

#[tokio::test]
async fn usage_is_there_after_a_restart_and_after_a_crash_as_far_as_it_was_flushed() {
    let dir = tempfile::tempdir().unwrap();
    let collector = Arc::new(Collector::default());
    let tenant: Arc<str> = "a".into();
    let keeper = start(dir.path(), &collector).unwrap();
    collector.session_started(&tenant);
    assert_eq!(keeper.query(all()).await.unwrap()[0].sessions, 1);
    keeper.flush().await.unwrap();
    assert!(keeper.state().flushed_at.is_some());
    collector.egress(&tenant, 7);
    // As after kill -9: another life finds what was flushed, and no more.
    let other = Ledger::new(dir.path().join(DIR));
    let rows = other.query(&all()).unwrap();
    assert_eq!((rows[0].sessions, rows[0].egress_bytes), (1, 0));
    drop(keeper);
    let keeper = start(dir.path(), &collector).unwrap();
    let rows = keeper.query(all()).await.unwrap();
    assert_eq!((rows[0].sessions, rows[0].egress_bytes), (1, 7));
}

#[test]
fn two_daemons_do_not_keep_one_ledger() {
    let dir = tempfile::tempdir().unwrap();
    let collector = Arc::default();
    let first = start(dir.path(), &collector).unwrap();
    assert!(matches!(start(dir.path(), &collector), Err(KeeperError::Taken(_))));
    drop(first);
    start(dir.path(), &collector).unwrap();
}

#[tokio::test]
async fn a_ledger_that_cannot_be_written_says_so_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let collector = Arc::new(Collector::default());
    let keeper = start(dir.path(), &collector).unwrap();
    // Whatever the day, nothing can be put in the place of a directory that is not empty.
    let usage = dir.path().join(DIR);
    let aside = dir.path().join("aside");
    std::fs::rename(&usage, &aside).unwrap();
    let add = Figures { executions: 1, ..Figures::default() };
    collector.add(&"a".into(), &add);
    keeper.flush().await.unwrap();
    let error = keeper.state().error.unwrap();
    assert!(error.contains("No such file"), "{error}");
    std::fs::rename(&aside, &usage).unwrap();
    collector.add(&"a".into(), &add);
    keeper.flush().await.unwrap();
    assert_eq!(keeper.state().error, None);
    assert_eq!(keeper.query(all()).await.unwrap()[0].executions, 2);
}
