//! The tools of a server, under the names that code has for them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};
use vivarium_api_types::JsonText;

use super::client::{Client, Era, ServerError, Terms};

/// Time in which a server has to say what it has.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The most pages of a list that are asked for, and the most tools that are taken.
const MAX_PAGES: u64 = 16;
const MAX_TOOLS: usize = 128;

/// The longest name, in bytes, and the longest description, in characters.
const MAX_NAME_BYTES: usize = 64;
const MAX_DESCRIPTION_CHARS: usize = 4096;

/// Of a description that is none.
const MAX_SHOWN_CHARS: usize = 80;

#[derive(Debug)]
pub(super) struct Listing {
    pub(super) era: Era,
    pub(super) tools: Vec<Arc<ListedTool>>,
}

#[derive(Debug)]
pub(crate) struct ListedTool {
    /// As code has it.
    pub(super) name: String,
    /// As the server has it.
    pub(super) theirs: String,
    pub(super) description: String,
    pub(super) parameters: Option<JsonText>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    tools: Vec<JsonText>,
    #[serde(default)]
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Described {
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    input_schema: Option<JsonText>,
}

/// Asks a server what it has. One that does not answer without a handshake is asked with one.
pub(super) async fn ask(client: &Client) -> Result<Listing, ServerError> {
    let (era, described) = match pages(client, &Terms::Stateless).await {
        Ok(described) => (Era::Stateless, described),
        Err(
            ServerError::Refused { .. }
            | ServerError::Status(_)
            | ServerError::Malformed
            | ServerError::Tool(_),
        ) => {
            let terms = client.terms(Era::Handshake, TIMEOUT).await?;
            let described = pages(client, &terms).await;
            if let Err(error) = client.end(&terms, TIMEOUT).await {
                tracing::debug!(server = client.name(), %error, "ending a session of it");
            }
            (Era::Handshake, described?)
        }
        Err(other) => return Err(other),
    };
    Ok(Listing { era, tools: named(client, described) })
}

async fn pages(client: &Client, terms: &Terms) -> Result<Vec<Described>, ServerError> {
    let mut all = Vec::new();
    let mut params = Map::new();
    for id in 1..=MAX_PAGES {
        let result = client.request(terms, id, "tools/list", params, TIMEOUT).await?;
        let page: Page =
            serde_json::from_str(result.as_str()).map_err(|_| ServerError::Malformed)?;
        for tool in page.tools {
            all.push(described(&tool)?);
        }
        let Some(cursor) = page.next_cursor.filter(|_| all.len() < MAX_TOOLS) else { break };
        params = Map::from_iter([("cursor".to_owned(), Value::String(cursor))]);
    }
    Ok(all)
}

fn described(tool: &JsonText) -> Result<Described, ServerError> {
    serde_json::from_str(tool.as_str()).map_err(|_| {
        let start: String = tool.as_str().chars().take(MAX_SHOWN_CHARS).collect();
        ServerError::Tool(start)
    })
}

/// Those that code may call, and can. The log names those that have no name.
fn named(client: &Client, described: Vec<Described>) -> Vec<Arc<ListedTool>> {
    let only = client.server.only.as_ref();
    for name in only.into_iter().flatten() {
        if !described.iter().any(|tool| tool.name == *name) {
            tracing::warn!(
                server = client.name(),
                tool = name,
                "`only` names what it does not have"
            );
        }
    }
    let wanted = described.into_iter().filter(|tool| only.is_none_or(|it| it.contains(&tool.name)));
    let (mut tools, mut names) = (Vec::new(), BTreeSet::new());
    for tool in wanted.take(MAX_TOOLS) {
        let name = name_in_python(client.name(), &tool.name);
        if name.len() > MAX_NAME_BYTES || !names.insert(name.clone()) {
            tracing::warn!(
                server = client.name(),
                tool = tool.name.chars().take(MAX_NAME_BYTES).collect::<String>(),
                "left out: its name is too long, or as another's"
            );
            continue;
        }
        let description = tool.description.unwrap_or_default();
        tools.push(Arc::new(ListedTool {
            name,
            theirs: tool.name,
            description: description.chars().take(MAX_DESCRIPTION_CHARS).collect(),
            parameters: tool.input_schema,
        }));
    }
    tools
}

/// `SERVER_TOOL`, with `_` in place of what no identifier has.
fn name_in_python(server: &str, tool: &str) -> String {
    let fitting = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    format!("{server}_{}", tool.chars().map(fitting).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_identifiers() {
        assert_eq!(name_in_python("search", "web-search.v2"), "search_web_search_v2");
        assert_eq!(name_in_python("a", "ü/1"), "a___1");
    }

    #[test]
    fn pages_keep_the_order_of_parameters() {
        let page = r#"{"tools": [{"name": "t", "inputSchema": {"properties":{"z":{},"a":{}}}}]}"#;
        let page: Page = serde_json::from_str(page).unwrap();
        let tool = described(&page.tools[0]).unwrap();
        let schema = tool.input_schema.as_ref().unwrap();
        assert_eq!(schema.as_str(), r#"{"properties":{"z":{},"a":{}}}"#);
        let nameless: JsonText = serde_json::from_str(r#"{"name": 5}"#).unwrap();
        let error = described(&nameless).map(|tool| tool.name).unwrap_err().to_string();
        assert!(error.contains(r#"describes {"name": 5} otherwise"#), "{error}");
    }
}
