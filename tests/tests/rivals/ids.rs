//! Ids that a tenant has guessed, or stolen from another.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use vivarium_tests::http::{Client, Endpoint, Response};
use vivarium_tests::tenants::Token;

use crate::two_tenants;

/// An operation of the OpenAPI document that names something of a tenant's.
#[derive(Debug)]
struct Operation {
    method: String,
    path: String,
    content_type: Option<String>,
    body: Option<Vec<u8>>,
}

/// All there are. What only an administrator may ask for is not among them.
fn operations(document: &Value) -> Vec<Operation> {
    let paths = document["paths"].as_object().unwrap();
    // Those of approvals take ids of their own, and a scope: tests/approvals has two tenants too.
    let elsewhere = ["/v1/admin", "/v1/approvals"];
    let is_here = |path: &str| !elsewhere.iter().any(|prefix| path.starts_with(prefix));
    let named = paths.iter().filter(|(path, _)| path.contains('{') && is_here(path));
    let mut found: Vec<Operation> = named
        .flat_map(|(path, item)| {
            let methods = item.as_object().unwrap().iter();
            methods.filter(|(_, operation)| operation.get("responses").is_some()).map(
                |(method, operation)| {
                    let content = operation["requestBody"]["content"].as_object();
                    let content = content.and_then(|content| content.iter().next());
                    Operation {
                        method: method.to_uppercase(),
                        path: path.clone(),
                        content_type: content.map(|(kind, _)| kind.clone()),
                        body: content.map(|(kind, content)| match &content["example"] {
                            Value::Null => format!("a body of {kind}").into_bytes(),
                            example => example.to_string().into_bytes(),
                        }),
                    }
                },
            )
        })
        .collect();
    // What deletes comes last, and what it deletes is in the path that is left.
    found.sort_by_key(|operation| {
        let depth = operation.path.matches('/').count();
        (operation.method == "DELETE", std::cmp::Reverse(depth))
    });
    found
}

/// A value for each parameter in a path.
type Values = BTreeMap<&'static str, String>;

impl Operation {
    fn path_with(&self, values: &Values) -> String {
        let mut path = self.path.clone();
        for (name, value) in values {
            path = path.replace(&format!("{{{name}}}"), value);
        }
        assert!(!path.contains('{'), "the test has no value for a parameter of {path}");
        path
    }

    fn ask(&self, at: &Endpoint, token: &Token, values: &Values) -> Client {
        let authorization = format!("Bearer {}", token.text);
        let mut headers = vec![("Authorization", authorization.as_str())];
        if let Some(content_type) = &self.content_type {
            headers.push(("Content-Type", content_type));
        }
        let mut client = Client::connect(at);
        client.ask(&self.method, &self.path_with(values), &headers, self.body.as_deref());
        client
    }
}

/// What a client can tell of an answer, without the ids that it sent itself.
fn told(answer: &Response, values: &Values) -> (u16, Vec<String>, String) {
    let mut body = String::from_utf8_lossy(&answer.body).into_owned();
    for (name, value) in values {
        // As messages quote it.
        body = body.replace(&format!("\\\"{value}\\\""), &format!("<{name}>"));
    }
    let headers = ["content-type", "www-authenticate", "retry-after", "allow", "etag"];
    let headers = headers.map(|name| format!("{name}: {:?}", answer.header(name)));
    (answer.status, headers.to_vec(), body)
}

#[test]
fn a_stolen_id_is_answered_like_one_that_never_was() {
    let (daemon, victim, rival) = two_tenants();
    let at = daemon.unix();
    let volume = victim.ask(&at, "POST", "/v1/volumes", Some(&json!({"name": "hoard"})));
    assert_eq!(volume.status, 201, "{}", String::from_utf8_lossy(&volume.body));
    let spec = json!({"id": "prized", "home": "session", "volumes": [{"name": "hoard"}]});
    let made = victim.ask(&at, "POST", "/v1/sessions", Some(&spec));
    assert_eq!(made.status, 201, "{}", String::from_utf8_lossy(&made.body));
    let code = "
x = 41
for place in ('.', '/home/sandbox', '/mnt/hoard'): open(f'{place}/secret.txt', 'w').write('secret')
print('seen')";
    let printed = victim.execute(&at, "prized", code);
    let printed = printed["execution_id"].as_str().unwrap().to_owned();
    let command = json!({"argv": ["sleep", "1000"], "background": true});
    let command = victim.ask(&at, "POST", "/v1/sessions/prized/commands", Some(&command));
    let command = command.expect_success()["execution_id"].as_str().unwrap().to_owned();
    let side = json!({"id": "sidekick"});
    let side = victim.ask(&at, "POST", "/v1/sessions/prized/contexts", Some(&side));
    assert_eq!(side.status, 201, "{}", String::from_utf8_lossy(&side.body));
    let values = |id: &str, execution: &str, context: &str, path: &str, name: &str| {
        let values = [("id", id), ("execution_id", execution), ("context", context)];
        let rest = [("path", path), ("port", "8000"), ("part", "stdout"), ("name", name)];
        let rest = rest.into_iter().chain([("call_id", "1")]);
        let all = values.into_iter().chain(rest);
        all.map(|(name, value)| (name, value.to_owned())).collect::<Values>()
    };
    let stolen = values("prized", &command, "sidekick", "secret.txt", "hoard");
    let guessed = values("nobody", "999", "nocontext", "nothing.txt", "nohoard");

    let document = daemon.request("GET", "/openapi.json", None).expect_success();
    let operations = operations(&document);
    assert!(operations.len() > 25, "{}", operations.len());
    for operation in &operations {
        let answers = [&stolen, &guessed].map(|values| {
            let answer = operation.ask(&at, &rival, values).receive().unwrap();
            let body = String::from_utf8_lossy(&answer.body);
            assert_eq!(answer.status, 404, "{operation:?}: {body}");
            told(&answer, values)
        });
        assert_eq!(answers[0], answers[1], "{operation:?}");
    }
    // Nothing has changed for the victim.
    let told = victim.execute(
        &at,
        "prized",
        "x, open('secret.txt').read(), sorted(__import__('os').listdir())",
    );
    assert_eq!(told["result"]["repr"], "(41, 'secret', ['.tmp', 'secret.txt'])");
    // The control: whose it is gets something else, from each of them.
    // A build takes long: tests/environments has one tenant look for another's.
    // A command has no calls, which is as unknown to its owner: tests/calls has some.
    let has_own = |operation: &&Operation| {
        let elsewhere = ["/calls/{call_id}", "/continue"];
        !operation.path.starts_with("/v1/environments")
            && !elsewhere.iter().any(|end| operation.path.ends_with(end))
    };
    for operation in operations.iter().filter(has_own) {
        let mut stolen = stolen.clone();
        if operation.path.contains("/outputs/") {
            // A command that runs has none yet.
            stolen.insert("execution_id", printed.clone());
        }
        let answer = operation.ask(&at, &victim, &stolen).receive_head().unwrap();
        assert_ne!(answer.status, 404, "{operation:?}");
    }
    daemon.stop_and_check();
}

#[test]
fn an_execution_of_another_is_not_found_in_ones_own_session() {
    let (daemon, victim, rival) = two_tenants();
    let at = daemon.unix();
    for token in [&victim, &rival] {
        let made = token.ask(&at, "POST", "/v1/sessions", Some(&json!({"id": "same"})));
        assert_eq!(made.status, 201);
    }
    let ran = victim.execute(&at, "same", "print('for my eyes')");
    let path = format!("/v1/sessions/same/executions/{}", ran["execution_id"].as_str().unwrap());
    rival.ask(&at, "GET", &path, None).expect_problem(404, "unknown_execution");
    let kept = victim.ask(&at, "GET", &path, None).expect_success();
    assert_eq!(kept["outcome"]["stdout"], "for my eyes\n");
    daemon.stop_and_check();
}
