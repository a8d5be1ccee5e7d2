//! `[dialects]`

use super::put;
use crate::config::key::{DefaultValue, Key, Kind, Setter};

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "mcp",
        kind: Kind::Bool,
        default: DefaultValue::Toml("false"),
        flag: None,
        reloads: false,
        doc: "The Model Context Protocol at `POST /mcp`: tools that run code and commands in sessions, \
              for agents.",
        set: Setter::Dialects(|dialects, value| put(&mut dialects.mcp, value.is_true())),
    },
    Key {
        name: "mcp_legacy_sse",
        kind: Kind::Bool,
        default: DefaultValue::Toml("false"),
        flag: None,
        reloads: false,
        doc: "The older transport of MCP at `GET /sse` and `POST /messages`, with one tool `python`, as \
              vLLM's `--tool-server` needs it.",
        set: Setter::Dialects(|dialects, value| put(&mut dialects.mcp_legacy_sse, value.is_true())),
    },
    Key {
        name: "jupyter",
        kind: Kind::Bool,
        default: DefaultValue::Toml("false"),
        flag: None,
        reloads: false,
        doc: "A Jupyter kernel gateway below `/jupyter`: sessions as kernels, for JupyterLab, nbclient \
              and others.",
        set: Setter::Dialects(|dialects, value| put(&mut dialects.jupyter, value.is_true())),
    },
    Key {
        name: "tools",
        kind: Kind::Bool,
        default: DefaultValue::Toml("false"),
        flag: None,
        reloads: false,
        doc: "The tools of MCP at `POST /tools`, one call at a time, as model servers dispatch them.",
        set: Setter::Dialects(|dialects, value| put(&mut dialects.tools, value.is_true())),
    },
    Key {
        name: "librechat",
        kind: Kind::Bool,
        default: DefaultValue::Toml("false"),
        flag: None,
        reloads: false,
        doc: "The code API of LibreChat under `/librechat`.",
        set: Setter::Dialects(|dialects, value| put(&mut dialects.librechat, value.is_true())),
    },
    Key {
        name: "e2b",
        kind: Kind::Bool,
        default: DefaultValue::Toml("false"),
        flag: None,
        reloads: false,
        doc: "E2B, for its SDKs: sandboxes, commands, files and `run_code`, on the listeners of \
              `e2b.listen`.",
        set: Setter::Dialects(|dialects, value| put(&mut dialects.e2b, value.is_true())),
    },
];
