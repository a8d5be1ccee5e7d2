//! Whatever a client sends in place of a field, it is told what is wrong in words of JSON.

use serde_json::{Value, json};

use super::*;

/// Words of Rust and its libraries, which say nothing to a client.
const FOREIGN: [&str; 12] = [
    "u64",
    "u32",
    "usize",
    "i32",
    "invalid type",
    "invalid value",
    "sequence",
    "map",
    "struct",
    "Deserialize",
    "unit value",
    "variant",
];

fn wrong_values() -> Vec<Value> {
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let long = "é\u{0}".repeat(5000);
    let mut values = vec![json!(true), json!(-1), json!(1.5), json!(1e300), json!(""), json!(long)];
    values.extend([json!([]), json!({}), json!([[]]), json!({"a": {"b": 1}}), deep]);
    values.extend([json!(u64::MAX), json!("\u{7}"), json!([1, "x", null]), json!([{"nmae": 5}])]);
    values
}

#[tokio::test]
async fn no_refusal_speaks_of_rust() {
    let server = start(settings());
    let document = server.call("GET", "/openapi.json", "").await.json();
    let mut refused = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        if path.starts_with("/v1/admin/") || path.starts_with("/v1/approvals/") {
            continue; // It says only who may.
        }
        for (method, operation) in item.as_object().unwrap() {
            let content = &operation["requestBody"]["content"]["application/json"]["schema"];
            let content = content.to_string();
            let Some(name) =
                content.split("schemas/").nth(1).and_then(|rest| rest.split('"').next())
            else {
                continue;
            };
            let schema = &document["components"]["schemas"][name];
            let path = path.replace("{id}", "nobody");
            for field in
                schema["properties"].as_object().unwrap().keys().chain([&"nmae".to_owned()])
            {
                for value in wrong_values() {
                    // The last one is refused if all before is fine.
                    let body = format!("{{\"{field}\": {value}, \"zzz\": 1}}");
                    let answer = server.call(&method.to_uppercase(), &path, &body).await;
                    refused += 1;
                    let problem = answer.json();
                    let detail = problem["detail"].as_str().unwrap();
                    assert!(matches!(answer.status, 400 | 422), "{path} {body:.200}: {problem}");
                    let is_plain = |c: char| !c.is_control();
                    assert!(detail.chars().all(is_plain) && detail.len() < 1500, "{detail}");
                    for word in FOREIGN {
                        let is_there = detail
                            .split(|c: char| !c.is_alphanumeric() && c != ' ')
                            .any(|part| format!(" {part} ").contains(&format!(" {word} ")));
                        assert!(!is_there, "{word}: {path} {field}: {detail}");
                    }
                }
            }
        }
    }
    assert!(refused > 500, "{refused}");
}
