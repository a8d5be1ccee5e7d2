use serde_json::json;

use super::*;

fn schema(json: &Value) -> Schema {
    Schema::new(&json.to_string()).unwrap()
}

fn accepts(rule: Value, value: Value) -> bool {
    schema(&json!({ "properties": { "v": rule } })).check(&json!({ "v": value })).is_ok()
}

#[test]
fn each_keyword_accepts_and_refuses() {
    let cases = [
        (json!({"type": "integer"}), json!(1), json!(1.5)),
        (json!({"type": "integer"}), json!(2.0), json!("1")),
        (json!({"type": ["string", "null"]}), json!(null), json!(1)),
        (json!({"type": "boolean"}), json!(true), json!(0)),
        (json!({"type": "array"}), json!([]), json!({})),
        (json!({"enum": [1, "a"]}), json!(1.0), json!("b")),
        (json!({"const": {"a": [1]}}), json!({"a": [1]}), json!({"a": [2]})),
        (json!({"minimum": 1}), json!(1), json!(0)),
        (json!({"maximum": 1}), json!(1), json!(1.01)),
        (json!({"exclusiveMinimum": 1}), json!(2), json!(1)),
        (json!({"exclusiveMaximum": 1}), json!(0), json!(1)),
        (json!({"multipleOf": 0.1}), json!(0.3), json!(0.35)),
        (json!({"multipleOf": 3}), json!(9), json!(10)),
        (json!({"minLength": 2}), json!("éé"), json!("é")),
        (json!({"maxLength": 1}), json!("é"), json!("éé")),
        (json!({"pattern": "^a+$"}), json!("aa"), json!("ab")),
        (json!({"minItems": 1}), json!([1]), json!([])),
        (json!({"maxItems": 1}), json!([1]), json!([1, 2])),
        (json!({"uniqueItems": true}), json!([1, 2]), json!([1, 1.0])),
        (json!({"items": {"type": "string"}}), json!(["a"]), json!([1])),
        (
            json!({"prefixItems": [{"type": "null"}], "items": false}),
            json!([null]),
            json!([null, 1]),
        ),
        (json!({"required": ["a"]}), json!({"a": 1}), json!({"b": 1})),
        (json!({"additionalProperties": false}), json!({}), json!({"a": 1})),
        (
            json!({"properties": {"a": true}, "additionalProperties": {"type": "null"}}),
            json!({"a": 1, "b": null}),
            json!({"b": 1}),
        ),
        (json!({"minProperties": 1}), json!({"a": 1}), json!({})),
        (json!({"maxProperties": 0}), json!({}), json!({"a": 1})),
        (json!({"allOf": [{"minimum": 1}, {"maximum": 2}]}), json!(2), json!(3)),
        (json!({"anyOf": [{"type": "null"}, {"minimum": 5}]}), json!(5), json!(4)),
        (json!({"oneOf": [{"minimum": 1}, {"maximum": 2}]}), json!(3), json!(2)),
        (json!({"not": {"type": "null"}}), json!(1), json!(null)),
        (json!(true), json!(1), json!(null)),
    ];
    for (rule, good, bad) in cases {
        assert!(accepts(rule.clone(), good.clone()), "{rule} {good}");
        assert!(rule == json!(true) || !accepts(rule.clone(), bad.clone()), "{rule} {bad}");
    }
    assert!(!accepts(json!(false), json!(1)));
}

#[test]
fn references_lead_into_the_schema_and_do_not_go_round_for_ever() {
    let of = json!({
        "$defs": {"tree": {
            "properties": {"left": {"$ref": "#/$defs/tree"}},
            "additionalProperties": false,
        }},
        "properties": {"tree": {"$ref": "#/$defs/tree"}},
    });
    let of = schema(&of);
    of.check(&json!({"tree": {"left": {"left": {}}}})).unwrap();
    let why = of.check(&json!({"tree": {"left": {"right": {}}}})).unwrap_err();
    assert_eq!(why, "tree.left: \"right\" is not known");
    let round = schema(&json!({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}));
    assert!(round.check(&json!({})).unwrap_err().contains("steps"));
    // Each of them twice the one before.
    let mut defs = serde_json::Map::new();
    for n in 0..60 {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        defs.insert(format!("d{n}"), json!({"allOf": [next, next]}));
    }
    defs.insert("d60".to_owned(), json!(true));
    let many = schema(&json!({"$defs": defs, "$ref": "#/$defs/d0"}));
    assert!(many.check(&json!({})).unwrap_err().contains("steps"));
}

#[test]
fn what_can_not_be_checked_is_refused_when_it_is_declared() {
    let deep = (0..100).fold(json!(true), |inner, _| json!({"not": inner}));
    for (schema, why) in [
        (json!({"type": "string"}), "object"),
        (json!([]), "no object"),
        (json!({"if": {}}), "/if: this keyword can not be checked"),
        (
            json!({"properties": {"a": {"unevaluatedItems": false}}}),
            "/properties/a/unevaluatedItems",
        ),
        (json!({"$ref": "https://example.com/schema"}), "leads to nothing"),
        (json!({"$ref": "#/$defs/none"}), "leads to nothing"),
        (json!({"properties": {"a": {"type": "date"}}}), "no such type"),
        (json!({"properties": {"a": {"pattern": "(?=a)"}}}), "look"),
        (json!({"properties": {"a": {"pattern": "(a)\\1"}}}), "backreferences"),
        (json!({"properties": {"a": {"pattern": "((a{100}){100}){100}"}}}), "size"),
        (json!({"properties": {"a": {"minimum": "1"}}}), "give a number"),
        (json!({"properties": {"a": {"multipleOf": 0}}}), "above 0"),
        (json!({"required": "a"}), "names"),
        (deep, "deep"),
    ] {
        let error = Schema::new(&schema.to_string()).unwrap_err();
        assert!(error.contains(why), "{schema}: {error}");
    }
    assert!(Schema::new(&format!("{{\"title\": \"{}\"}}", "x".repeat(MAX_SCHEMA_BYTES))).is_err());
}
