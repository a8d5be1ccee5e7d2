//! What takes long for large requests and answers, on a thread where it holds up nobody else's.

use std::num::NonZero;
use std::sync::LazyLock;
use std::thread::available_parallelism;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// From so many bytes on. What is smaller holds up nobody for long.
const LARGE_BYTES: usize = 128 << 10;

/// At a time. Many more would compete with the threads that serve, and take those that files and scopes wait for.
static TURNS: LazyLock<Semaphore> = LazyLock::new(|| {
    let cpus = available_parallelism().map_or(1, NonZero::get);
    Semaphore::new((cpus / 2).max(1))
});

/// Does `work` on so many bytes, to its end also where nobody waits for it any more: what accounts for the memory that it
/// takes has to be a part of it.
pub async fn by_size<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if bytes < LARGE_BYTES {
        return work();
    }
    let turn = TURNS.acquire().await;
    let work = move || {
        let done = work();
        drop(turn);
        done
    };
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Only where the daemon ends, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::thread;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn only_what_is_large_leaves_the_thread() {
        let own = thread::current().id();
        let of = |bytes| by_size(bytes, || thread::current().id());
        assert_eq!(of(LARGE_BYTES - 1).await, own);
        assert_ne!(of(LARGE_BYTES).await, own);
    }

    #[tokio::test]
    async fn work_keeps_what_accounts_for_it_though_nobody_waits() {
        let (account, (go, may_end)) = (Arc::new(()), mpsc::channel::<()>());
        let ((begin, begun), (end, ended)) = (oneshot::channel(), oneshot::channel());
        let held = Arc::clone(&account);
        let work = move || {
            begin.send(()).unwrap();
            let told = may_end.recv();
            drop(held);
            end.send(told).unwrap();
        };
        let waiting = tokio::spawn(by_size(LARGE_BYTES, work));
        begun.await.unwrap();
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        assert_eq!(Arc::strong_count(&account), 2);
        go.send(()).unwrap();
        ended.await.unwrap().unwrap();
        assert_eq!(Arc::strong_count(&account), 1);
    }

    #[tokio::test]
    #[should_panic(expected = "as it was")]
    async fn a_panic_stays_one() {
        by_size(LARGE_BYTES, || panic!("as it was")).await
    }
}
