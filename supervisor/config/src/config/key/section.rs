//! The tables of the configuration file.

/// A table of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// `[server]`
    Server,
    /// `[sandbox]`
    Sandbox,
    /// `[session]`
    Session,
    /// `[preview]`
    Preview,
    /// `[dialects]`
    Dialects,
    /// `[e2b]`
    E2b,
    /// `[homes]`
    Homes,
    /// `[images]`
    Images,
    /// `[builds]`
    Builds,
    /// `[egress]`
    Egress,
    /// `[packages]`
    Packages,
    /// `[approval]`
    Approval,
    /// `[audit]`
    Audit,
    /// `[usage]`
    Usage,
    /// `[tools.<name>]`
    Tools,
    /// `[environments.<name>]`
    Environments,
    /// `[tenants]`
    Tenants,
    /// `[[tenant]]`
    Tenant,
    /// `[tenant.sandbox]`
    TenantSandbox,
    /// `[tenant.session]`
    TenantSession,
    /// `[tenant.approval]`
    TenantApproval,
}

impl Section {
    /// Every section, in the order of the file.
    pub const ALL: [Self; 21] = [
        Self::Server,
        Self::Sandbox,
        Self::Session,
        Self::Preview,
        Self::Dialects,
        Self::E2b,
        Self::Homes,
        Self::Images,
        Self::Builds,
        Self::Egress,
        Self::Packages,
        Self::Approval,
        Self::Audit,
        Self::Usage,
        Self::Tools,
        Self::Environments,
        Self::Tenants,
        Self::Tenant,
        Self::TenantSandbox,
        Self::TenantSession,
        Self::TenantApproval,
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Sandbox => "sandbox",
            Self::Session => "session",
            Self::Preview => "preview",
            Self::Dialects => "dialects",
            Self::E2b => "e2b",
            Self::Homes => "homes",
            Self::Images => "images",
            Self::Builds => "builds",
            Self::Egress => "egress",
            Self::Packages => "packages",
            Self::Approval => "approval",
            Self::Audit => "audit",
            Self::Usage => "usage",
            Self::Tools => "tools",
            Self::Environments => "environments",
            Self::Tenants => "tenants",
            Self::Tenant => "tenant",
            Self::TenantSandbox => "tenant.sandbox",
            Self::TenantSession => "tenant.session",
            Self::TenantApproval => "tenant.approval",
        }
    }

    /// Whether its keys are a tenant's.
    #[must_use]
    pub const fn is_of_tenant(self) -> bool {
        self.overridden().is_some() || matches!(self, Self::Tenant)
    }

    /// Whether it has a table for each of several names.
    #[must_use]
    pub const fn is_named(self) -> bool {
        matches!(self, Self::Environments | Self::Tools)
    }

    /// The section whose values this one's replace for a tenant.
    #[must_use]
    pub const fn overridden(self) -> Option<Self> {
        match self {
            Self::TenantSandbox => Some(Self::Sandbox),
            Self::TenantSession => Some(Self::Session),
            Self::TenantApproval => Some(Self::Approval),
            _ => None,
        }
    }

    /// The header of its table; `of` names the environment, tool server or tenant.
    #[must_use]
    pub fn header(self, of: &str) -> String {
        match self {
            Self::Environments | Self::Tools => format!("[{}.{of}]", self.name()),
            Self::Tenant => "[[tenant]]".to_owned(),
            _ => format!("[{}]", self.name()),
        }
    }

    /// Whether environment variables can set its keys.
    #[must_use]
    pub const fn has_variables(self) -> bool {
        !self.is_of_tenant() && !matches!(self, Self::Tools)
    }

    #[must_use]
    pub const fn doc(self) -> &'static str {
        match self {
            Self::Server => "Where the daemon listens and keeps its data, and its user.",
            Self::Sandbox => {
                "How sessions are confined. The limits hold for every session; a request may only \
                 tighten them. A limit is a positive integer or \"unlimited\"."
            }
            Self::Session => "How long executions and sessions last, and how many there may be.",
            Self::Preview => {
                "Servers in sessions, shown to browsers: see [ports](api.md#ports). Each port of each \
                 session gets an origin of its own, so that pages of one can do nothing to another."
            }
            Self::Approval => {
                "What somebody has to allow before it happens: see [approvals](approvals.md)."
            }
            Self::Audit => "Who had what executed: see the [audit log](audit.md).",
            Self::Dialects => {
                "Other protocols, for clients that exist: see \
                 [dialects](dialects.md). Tokens, limits, quotas and audit are those of the API."
            }
            Self::E2b => {
                "Where E2B is served, if [dialects](dialects.md#e2b) has it. Its paths are those of E2B, so \
                 it has listeners of its own."
            }
            Self::Homes => "Files that outlive sessions: see [homes and volumes](homes.md).",
            Self::Images => "Suspended sessions: see [images](images.md).",
            Self::Builds => {
                "How environments are built: see [environments](packages.md#environments)."
            }
            Self::Egress => {
                "What sessions of network `trusted` reach, through the egress gate: \
                 [network](network.md). A reload changes the rules of running sessions too, for \
                 connections from then on."
            }
            Self::Packages => {
                "What sessions of network `trusted` install from: [packages](packages.md). The egress \
                 gate serves it inside, and fetches, verifies and keeps it outside."
            }
            Self::Usage => {
                "The ledger of what each tenant uses, below `server.state_dir`: see \
                 [administration](administration.md#usage)."
            }
            Self::Tools => {
                "Servers of tools that code may call: see [tool servers](tools.md#tool-servers). Names \
                 begin with a lower-case letter, and consist of those, digits and `_`."
            }
            Self::Environments => {
                "Interpreters by name. `default` always exists and serves sessions that name no \
                 other. Names consist of lower-case letters, digits, `-` and `_`."
            }
            Self::Tenants => {
                "Tenants from elsewhere, besides those of the file: a directory of files, a command. \
                 All sources together are taken over or, if anything is wrong, none: the daemon does \
                 not start, or keeps the tenants that it has. [Tenants](tenants.md#tenants-from-elsewhere) \
                 has the details."
            }
            Self::Tenant => {
                "Who may use the API: one entry per tenant, in the file only. With tenants, every \
                 request under /v1 needs a token and sees nothing of other tenants; without, \
                 anyone who can connect acts as the tenant `default`. Changes apply at once on a \
                 reload: removed tokens stop working, and new ceilings bound existing sessions. \
                 Sessions of a removed tenant continue until they end. A rate is a number and a \
                 time, as \"600/1m\": so many at once, which come back evenly in that time. A \
                 request over a quota is refused with 429, `quota_exceeded`, and `Retry-After`. \
                 [Tenants](tenants.md) has examples."
            }
            Self::TenantSandbox => {
                "Values of `[sandbox]` for one tenant, in place of those for all. The table stands \
                 below its `[[tenant]]`. It may be more or less than `[sandbox]` says; a request \
                 may only tighten it. Sessions keep the values that they were made with."
            }
            Self::TenantSession => {
                "Values of `[session]` for one tenant, in place of those for all."
            }
            Self::TenantApproval => {
                "Values of `[approval]` for one tenant, in place of those for all."
            }
        }
    }
}
