use futures_util::FutureExt;

use super::*;
use crate::session::Results;

const MIB: usize = 1 << 20;

fn budget() -> Budget {
    Budget::new(10 * MIB, 4 * MIB, Arc::new(Results::default()))
}

#[test]
fn a_tenant_has_its_part_and_all_have_theirs() {
    let budget = budget();
    let one = budget.of("one");
    let mut held = one.take(3 * MIB).unwrap();
    assert_eq!(one.take(2 * MIB).unwrap_err(), Full::Tenant { max_mib: 4 });
    assert_eq!(held.grow(2 * MIB), Err(Full::Tenant { max_mib: 4 }));
    assert_eq!(held.bytes(), 3 * MIB, "what was refused is not counted");
    let others = ["two", "three"].map(|tenant| budget.of(tenant).take(3 * MIB).unwrap());
    assert_eq!(budget.of("four").take(2 * MIB).unwrap_err(), Full::Daemon { max_mib: 10 });
    drop(others);
    held.grow(MIB).unwrap();
    drop(held);
    assert!(budget.used().0.iter().all(|(_, used)| *used == 0), "{:?}", budget.used());
}

#[test]
fn bytes_already_held_are_counted_over_the_limit() {
    let account = budget().of("one");
    let mut held = account.hold(MIB);
    held.set(5 * MIB);
    assert_eq!(account.excess(), Some(Full::Tenant { max_mib: 4 }));
    assert!(account.take(1).is_err());
    held.set(4 * MIB);
    assert_eq!(account.excess(), None);
}

#[tokio::test(start_paused = true)]
async fn room_is_waited_for_but_not_for_ever() {
    let account = budget().of("one");
    let held = account.take(4 * MIB).unwrap();
    let within = Duration::from_secs(5);
    assert!(account.take_within(MIB, within).await.is_err());
    let (taken, ()) = tokio::join!(account.take_within(MIB, within), async {
        tokio::task::yield_now().await;
        drop(held);
    });
    assert!(taken.is_ok());
}

#[tokio::test]
async fn only_one_goes_over_the_maximum_at_a_time() {
    let budget = budget();
    let account = budget.of("one");
    let first = account.overdraw(8 * MIB).await;
    assert!(!first.is_covered());
    let other = budget.of("two");
    let mut second = Box::pin(other.overdraw(8 * MIB));
    assert!(second.as_mut().now_or_never().is_none());
    drop(first);
    assert_eq!(second.await.bytes(), 8 * MIB);
}
