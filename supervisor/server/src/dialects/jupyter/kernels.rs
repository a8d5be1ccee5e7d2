//! The kernels that have clients, or had some lately.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::kernel::Kernel;
use crate::dialects::native::Native;

/// The most kernels of a tenant that are kept without clients. Those that are forgotten count from 1
/// again, and have no history.
const MAX_UNUSED: usize = 256;

/// Tenant and session.
type Key = (String, String);

struct Kept<N: Native> {
    kernel: Arc<Kernel<N>>,
    /// Grows with every use.
    used: u64,
}

struct All<N: Native> {
    uses: u64,
    kernels: BTreeMap<Key, Kept<N>>,
}

/// The kernels of all tenants. Clones are the same.
pub struct Kernels<N: Native>(Arc<Mutex<All<N>>>);

impl<N: Native> Clone for Kernels<N> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<N: Native> Default for Kernels<N> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(All { uses: 0, kernels: BTreeMap::new() })))
    }
}

impl<N: Native> Kernels<N> {
    fn lock(&self) -> MutexGuard<'_, All<N>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kernel of a session that there is.
    #[must_use]
    pub fn of(&self, tenant: &str, id: &str) -> Arc<Kernel<N>> {
        let mut all = self.lock();
        all.uses += 1;
        let used = all.uses;
        let key = (tenant.to_owned(), id.to_owned());
        if let Some(kept) = all.kernels.get_mut(&key) {
            kept.used = used;
            return Arc::clone(&kept.kernel);
        }
        forget_oldest(&mut all.kernels, tenant);
        let kernel = Kernel::start(id);
        all.kernels.insert(key, Kept { kernel: Arc::clone(&kernel), used });
        kernel
    }

    /// The kernel of a session, if it is kept.
    pub(super) fn find(&self, tenant: &str, id: &str) -> Option<Arc<Kernel<N>>> {
        let key = (tenant.to_owned(), id.to_owned());
        self.lock().kernels.get(&key).map(|kept| Arc::clone(&kept.kernel))
    }

    /// Forgets the kernel of a session that is over.
    pub(super) fn remove(&self, tenant: &str, id: &str) -> Option<Arc<Kernel<N>>> {
        let key = (tenant.to_owned(), id.to_owned());
        self.lock().kernels.remove(&key).map(|kept| kept.kernel)
    }
}

/// Makes room for another kernel of a tenant.
fn forget_oldest<N: Native>(kernels: &mut BTreeMap<Key, Kept<N>>, tenant: &str) {
    let of_tenant = kernels.iter().filter(|((of, _), _)| of == tenant);
    let unused: Vec<_> = of_tenant.filter(|(_, kept)| kept.kernel.is_unused()).collect();
    if unused.len() < MAX_UNUSED {
        return;
    }
    let oldest = unused.into_iter().min_by_key(|(_, kept)| kept.used);
    if let Some(key) = oldest.map(|(key, _)| key.clone()) {
        kernels.remove(&key);
    }
}
