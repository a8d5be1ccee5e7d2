//! The families. To add one, add a file below and its name to the two lists here.

use crate::MetricsError;
use crate::register::Register;

pub mod administration;
pub mod approvals;
pub mod audit;
pub mod buffers;
pub mod build;
pub mod calls;
pub mod egress;
pub mod environments;
pub mod executions;
pub mod homes;
pub mod http;
pub mod images;
pub mod kernels;
pub mod layers;
pub mod limits;
pub mod memory;
pub mod output;
pub mod pool;
pub mod ports;
pub mod pressure;
pub mod process;
pub mod queue;
pub mod quotas;
pub mod sessions;
pub mod templates;
pub mod tenants;

/// Related metrics.
trait Family: Sized {
    /// Their heading in docs/metrics.md.
    const TITLE: &'static str;

    fn declare(register: &mut Register) -> Result<Self, MetricsError>;

    /// Shows a tenant's counters as 0 before anything happens to it.
    fn introduce(&self, _tenant: &str) {}
}

macro_rules! families {
    ($($field:ident: $family:ty,)*) => {
        #[derive(Debug)]
        pub struct Families {
            $(#[doc = concat!("[`", stringify!($family), "`]")] pub $field: $family,)*
        }

        impl Families {
            pub(crate) fn declare(register: &mut Register) -> Result<Self, MetricsError> {
                Ok(Self {
                    $($field: {
                        register.family(<$family as Family>::TITLE);
                        <$family as Family>::declare(register)?
                    },)*
                })
            }

            /// Shows a tenant's counters as 0 before anything happens to it.
            pub fn introduce(&self, tenant: &str) {
                $(Family::introduce(&self.$field, tenant);)*
            }
        }
    };
}

families! {
    sessions: sessions::Sessions,
    pool: pool::Pool,
    memory: memory::Memory,
    buffers: buffers::Buffers,
    executions: executions::Executions,
    queue: queue::Queue,
    quotas: quotas::Quotas,
    approvals: approvals::Approvals,
    calls: calls::Calls,
    output: output::Output,
    ports: ports::Ports,
    egress: egress::Egress,
    environments: environments::Environments,
    homes: homes::Homes,
    images: images::Images,
    kernels: kernels::Kernels,
    templates: templates::Templates,
    limits: limits::Limits,
    tenants: tenants::Tenants,
    pressure: pressure::Pressure,
    layers: layers::Layers,
    audit: audit::Audit,
    administration: administration::Administration,
    http: http::Http,
    build: build::Build,
    process: process::Process,
}
