//! Tools that code may call.

use vivarium_api_types::ToolSpec;

use crate::engine::EngineError;
use crate::session::calls::tool::{AskedTools, ToolSet};
use crate::settings::{Settings, ToolServer};
use crate::tool_servers::{MAX_SERVERS, Served};

/// What a request has of tools, checked.
pub(in crate::engine) fn tools(
    settings: &Settings,
    specs: Vec<ToolSpec>,
    plain_names: bool,
    servers: Vec<String>,
) -> Result<AskedTools, EngineError> {
    if !specs.is_empty() || !servers.is_empty() {
        may_have_tools(settings.session.tools, "session.tools")?;
        tool_set(settings, &specs, &[], plain_names)?;
    }
    if servers.len() > MAX_SERVERS {
        let reason = format!("there are more than {MAX_SERVERS}");
        return Err(EngineError::invalid("tool_servers", reason));
    }
    for name in &servers {
        server(settings, name)?;
    }
    Ok(AskedTools { specs, plain_names, servers })
}

/// A server that the tenant may have. To others it is as if there were none.
pub(in crate::engine) fn server<'a>(
    settings: &'a Settings,
    name: &str,
) -> Result<&'a ToolServer, EngineError> {
    let is_granted = settings.session.tool_servers.iter().any(|granted| granted == name);
    settings.tool_servers.get(name).filter(|_| is_granted).ok_or_else(|| {
        let name: String = name.chars().take(64).collect();
        EngineError::invalid("tool_servers", format!("there is no tool server {name:?} for you"))
    })
}

pub(in crate::engine) fn may_have_tools(allowed: bool, key: &str) -> Result<(), EngineError> {
    if allowed {
        return Ok(());
    }
    Err(EngineError::invalid("tools", format!("the operator does not allow tools here ({key})")))
}

pub(in crate::engine) fn tool_set(
    settings: &Settings,
    specs: &[ToolSpec],
    served: &[Served],
    plain_names: bool,
) -> Result<ToolSet, EngineError> {
    ToolSet::new(specs, served, plain_names, settings.session.calls)
        .map_err(|(field, reason)| EngineError::invalid(field, reason))
}
