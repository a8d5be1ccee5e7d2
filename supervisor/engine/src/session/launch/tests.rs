use tokio::sync::watch;

use super::*;
use crate::backend::{Later, LaunchError, TemplateParts};

/// A backend whose processes end when the test says so, for certain or not.
#[derive(Debug)]
struct Slow(watch::Receiver<Option<bool>>);

impl Backend for Slow {
    fn probe(&self) -> Result<(), LaunchError> {
        Ok(())
    }

    fn launch(&self, _: LaunchSpec) -> Later<'_, Result<Launched, LaunchError>> {
        Box::pin(async { Ok(Launched { stream: None, outermost: None, lease: None }) })
    }

    fn id_namespace(&self) -> Result<Option<Launched>, LaunchError> {
        Ok(None)
    }

    fn storage(&self) -> Result<Option<Launched>, LaunchError> {
        Ok(None)
    }

    fn template(&self, _: &str) -> Result<Option<TemplateParts>, LaunchError> {
        Ok(None)
    }

    fn kill(&self, _: Launched) -> Later<'static, bool> {
        let mut ended = self.0.clone();
        Box::pin(async move { ended.wait_for(Option::is_some).await.unwrap().unwrap() })
    }
}

/// What a session has that takes the only pair of ids of a pool.
fn resources(pool: &Arc<IdPool>) -> Resources {
    Resources {
        name: "s".to_owned(),
        launched: Launched { stream: None, outermost: None, lease: None },
        scope: None,
        lease: pool.lease(),
        stores: None,
        environment: None,
        workdir: None,
        template: None,
        memory: None,
    }
}

#[tokio::test]
async fn ids_are_free_when_the_processes_are_gone_and_not_before() {
    for is_certain in [true, false] {
        let pool = Arc::new(IdPool::of_one_pair(3_100_000_001).unwrap());
        let (ended, ends) = watch::channel(None);
        let resources = resources(&pool);
        assert!(resources.lease.is_some() && pool.lease().is_none());
        let backend = Arc::new(Slow(ends));
        let tearing = tokio::spawn({
            let backend = Arc::clone(&backend);
            async move { resources.tear_down(&*backend).await }
        });
        // It has come as far as it can: the backend is asked, and has a second receiver.
        while ended.receiver_count() < 2 {
            tokio::task::yield_now().await;
        }
        assert!(pool.lease().is_none(), "free while processes have them");
        ended.send_replace(Some(is_certain));
        tearing.await.unwrap();
        assert_eq!(pool.lease().is_some(), is_certain);
    }
}

#[test]
fn a_template_is_given_up_by_a_kernel_that_was_executed_and_no_other() {
    let pool = Arc::new(IdPool::of_one_pair(3_100_000_011).unwrap());
    let mut resources = resources(&pool);
    resources.template = Some(Arc::new(Template::new("default")));
    resources.kernel_came(Origin::Forked);
    assert!(resources.template.is_some());
    resources.kernel_came(Origin::Executed);
    assert!(resources.template.is_none());
}

#[tokio::test]
async fn a_workdir_on_the_host_goes_with_its_session() {
    let dir = tempfile::tempdir().unwrap();
    let (own, others) = (dir.path().join("own"), dir.path().join("others"));
    for workdir in [&own, &others] {
        std::fs::create_dir_all(workdir.join("below")).unwrap();
    }
    let pool = Arc::new(IdPool::of_one_pair(3_100_000_021).unwrap());
    let (_ended, ends) = watch::channel(Some(true));
    let mut resources = resources(&pool);
    resources.workdir = Some(own.clone());
    resources.tear_down(&Slow(ends)).await;
    assert_eq!([own.exists(), others.exists()], [false, true]);
}
