//! Environments as kernelspecs.

use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::dialects::native::{self, Call, Native, Refusal};

/// What every notebook asks for, whatever else it says: the environment `default`.
const PYTHON: &str = "python3";

const DEFAULT: &str = "default";

/// The members of `GET /v1/host` that are used.
#[derive(Deserialize)]
struct Host {
    environments: Vec<Environment>,
}

#[derive(Deserialize)]
struct Environment {
    name: String,
    #[serde(default)]
    python_version: Option<String>,
}

/// The environments that this client may use.
pub(super) struct Specs(Vec<Environment>);

impl Specs {
    pub(super) async fn ask<N: Native>(native: &N) -> Result<Self, Refusal> {
        let call = Call::new(Method::GET, "/v1/host");
        let (host, _) = native::json::<_, Host>(native, call).await?;
        Ok(Self(host.environments))
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|environment| environment.name == name)
    }

    /// The environment of a kernelspec. The native API says which there are.
    pub(super) fn environment<'a>(&self, name: &'a str) -> &'a str {
        if name == PYTHON && !self.has(PYTHON) { DEFAULT } else { name }
    }

    /// The Python of an environment, as far as it is known.
    pub(super) fn python_version(&self, environment: &str) -> String {
        let of = self.0.iter().find(|one| one.name == environment);
        of.and_then(|one| one.python_version.clone()).unwrap_or_else(|| "3".to_owned())
    }

    /// The kernelspec of this name.
    pub(super) fn one(&self, name: &str) -> Option<Value> {
        let is_there = self.has(self.environment(name));
        is_there.then(|| spec(name))
    }

    pub(super) fn all(&self) -> Value {
        let names = self.0.iter().map(|environment| environment.name.as_str());
        let python = self.has(DEFAULT).then_some(PYTHON);
        let kernelspecs: Map<_, _> =
            names.chain(python).map(|name| (name.to_owned(), spec(name))).collect();
        json!({"default": PYTHON, "kernelspecs": kernelspecs})
    }
}

fn spec(name: &str) -> Value {
    let display_name = match name {
        PYTHON => "Python 3 (Vivarium)".to_owned(),
        name => format!("Python 3 ({name}, Vivarium)"),
    };
    json!({
        "name": name,
        "spec": {
            "argv": [],
            "display_name": display_name,
            "language": "python",
            "interrupt_mode": "message",
            "env": {},
            "metadata": {},
        },
        "resources": {},
    })
}

/// The name of the kernelspec that a client asks for, if it does not say which.
pub(super) const fn default_name() -> &'static str {
    PYTHON
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environments_and_python3_are_kernelspecs() {
        let named = |name: &str| Environment { name: name.to_owned(), python_version: None };
        let specs = Specs(vec![named("default"), named("science")]);
        let all = specs.all();
        let names: Vec<_> = all["kernelspecs"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["default", "python3", "science"]);
        assert_eq!(specs.environment("python3"), "default");
        assert_eq!(specs.environment("science"), "science");
        assert!(specs.one("python3").is_some() && specs.one("other").is_none());
        let own = Specs(vec![named("python3")]);
        assert_eq!(own.environment("python3"), "python3");
    }
}
