//! What code of an execution can call, checked.

use std::collections::BTreeMap;
use std::time::Duration;

use vivarium_api_types::ToolSpec;

use super::schema::Schema;
use super::{MAX_CALL_BYTES, MAX_CALL_DEPTH};
use crate::settings::CallBounds;
use crate::tool_servers::Served;

/// The most tools of an execution.
pub(crate) const MAX_TOOLS: usize = 128;

/// The most bytes of all declarations together.
const MAX_DECLARED_BYTES: usize = 512 << 10;

const MAX_NAME_BYTES: usize = 64;
const MAX_DESCRIPTION_BYTES: usize = 16 << 10;

/// Names that are not attributes that code could write, and one that is taken.
const RESERVED: [&str; 34] = [
    "aio", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is",
    "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
    "None",
];

/// What a request or session has of tools, not checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AskedTools {
    pub specs: Vec<ToolSpec>,
    /// Whether their names are put into the globals.
    pub plain_names: bool,
    /// Servers of the operator's, whose tools are added.
    pub servers: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Tool {
    pub(super) schema: Option<Schema>,
    pub(super) timeout: Duration,
    pub(super) max_calls: u64,
    /// The server that answers; its client if there is none.
    pub(super) served: Option<Served>,
}

/// What code of one execution can call.
#[derive(Debug)]
pub struct ToolSet {
    pub(super) tools: BTreeMap<String, Tool>,
    pub(super) bounds: CallBounds,
    /// For the kernel: what it can call, as JSON.
    pub(super) declaration: Vec<u8>,
}

impl ToolSet {
    /// What was declared, and what servers have. Of two of the same name the declared one holds.
    ///
    /// # Errors
    /// With the field and the reason.
    pub(crate) fn new(
        specs: &[ToolSpec],
        served: &[Served],
        plain_names: bool,
        bounds: CallBounds,
    ) -> Result<Self, (String, String)> {
        let field = |index: usize, name: &str| format!("tools[{index}].{name}");
        if specs.len() + served.len() > MAX_TOOLS {
            return Err(("tools".to_owned(), format!("there are more than {MAX_TOOLS}")));
        }
        let mut tools = BTreeMap::new();
        for (index, spec) in specs.iter().enumerate() {
            if !is_name(&spec.name) {
                let reason = format!(
                    "give an identifier of up to {MAX_NAME_BYTES} ASCII letters, digits and underscores that does \
                     not begin with an underscore, and is no keyword and not \"aio\""
                );
                return Err((field(index, "name"), reason));
            }
            let description = spec.description.as_deref().unwrap_or_default();
            if description.len() > MAX_DESCRIPTION_BYTES {
                let reason = format!("it is over the maximum of {MAX_DESCRIPTION_BYTES} bytes");
                return Err((field(index, "description"), reason));
            }
            let schema = spec.parameters.as_ref().map(|text| Schema::new(text.as_str()));
            let schema = schema.transpose().map_err(|why| (field(index, "parameters"), why))?;
            let timeout = match spec.timeout_ms.map(Duration::from_millis) {
                Some(Duration::ZERO) => {
                    return Err((field(index, "timeout_ms"), "0 is no time at all".to_owned()));
                }
                Some(asked) if asked > bounds.max_timeout => {
                    let max = bounds.max_timeout.as_millis();
                    let reason = format!("more than the {max} allowed (session.max_call_timeout)");
                    return Err((field(index, "timeout_ms"), reason));
                }
                asked => asked.unwrap_or(bounds.timeout.min(bounds.max_timeout)),
            };
            let max_calls = match spec.max_calls {
                Some(0) => {
                    return Err((field(index, "max_calls"), "0 is no call at all".to_owned()));
                }
                Some(asked) if asked > bounds.max_calls => {
                    let reason =
                        format!("more than the {} allowed (session.max_calls)", bounds.max_calls);
                    return Err((field(index, "max_calls"), reason));
                }
                asked => asked.unwrap_or(bounds.max_calls),
            };
            if tools
                .insert(spec.name.clone(), Tool { schema, timeout, max_calls, served: None })
                .is_some()
            {
                return Err((field(index, "name"), "there are two of this name".to_owned()));
            }
        }
        let mut declared: Vec<_> = specs.iter().map(declared).collect();
        for tool in served {
            if tools.contains_key(tool.name()) || !is_name(tool.name()) {
                continue;
            }
            // What cannot be checked here is checked by the server alone.
            let schema = tool.parameters().and_then(|text| Schema::new(text.as_str()).ok());
            declared.push(Declared {
                name: tool.name(),
                description: tool.description(),
                parameters: tool.parameters(),
            });
            let timeout = tool.timeout().min(bounds.max_timeout);
            let (max_calls, served) = (bounds.max_calls, Some(tool.clone()));
            tools.insert(tool.name().to_owned(), Tool { schema, timeout, max_calls, served });
        }
        let declaration = serde_json::to_vec(&Declaration {
            tools: declared,
            plain_names,
            max_bytes: MAX_CALL_BYTES,
            max_depth: MAX_CALL_DEPTH,
        });
        let declaration = declaration.map_err(|error| ("tools".to_owned(), error.to_string()))?;
        if declaration.len() > MAX_DECLARED_BYTES {
            let reason = format!("together they are over {MAX_DECLARED_BYTES} bytes");
            return Err(("tools".to_owned(), reason));
        }
        Ok(Self { tools, bounds, declaration })
    }

    /// What there is to be called.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }

    /// What its client has declared.
    pub(crate) fn declaration(&self) -> &[u8] {
        &self.declaration
    }

    /// Bytes that it takes here.
    pub(crate) fn bytes(&self) -> usize {
        // The schemas are as large as their text, or a few times that.
        self.declaration.len().saturating_mul(4)
    }
}

/// What a kernel is told, of which it makes functions.
#[derive(serde::Serialize)]
struct Declaration<'a> {
    tools: Vec<Declared<'a>>,
    plain_names: bool,
    max_bytes: usize,
    max_depth: usize,
}

#[derive(serde::Serialize)]
struct Declared<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Option<&'a vivarium_api_types::JsonText>,
}

fn declared(spec: &ToolSpec) -> Declared<'_> {
    Declared {
        name: &spec.name,
        description: spec.description.as_deref().unwrap_or_default(),
        parameters: spec.parameters.as_ref(),
    }
}

fn is_name(name: &str) -> bool {
    let is_part = |it: char| it.is_ascii_alphanumeric() || it == '_';
    name.len() <= MAX_NAME_BYTES
        && name.starts_with(|it: char| it.is_ascii_alphabetic())
        && name.chars().all(is_part)
        && !RESERVED.contains(&name)
        && !["True", "False"].contains(&name)
}
