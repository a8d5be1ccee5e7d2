//! What a connection is served with.

use std::sync::Arc;

use vivarium_egress::Rules;

use crate::flow::Flow;
use crate::shared::Shared;
use crate::tenant::Tenant;
use crate::tls::Signer;

/// A session's part of the gate, for one of its connections.
pub(crate) struct Context {
    pub(crate) shared: Arc<Shared>,
    pub(crate) tenant: Arc<Tenant>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) signer: Option<Arc<Signer>>,
    pub(crate) flow: Arc<Flow>,
}
