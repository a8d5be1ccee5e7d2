//! What a kernel was told to execute, for prompts that go back to it.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The most inputs that are kept.
const MAX_INPUTS: usize = 1000;

/// The most bytes of them.
const MAX_BYTES: usize = 1 << 20;

struct Input<R> {
    count: u64,
    code: String,
    #[expect(dead_code, reason = "held, and given back when it is dropped")]
    room: R,
}

/// The last inputs, and the room that they have.
pub(super) struct History<R> {
    inputs: VecDeque<Input<R>>,
    bytes: usize,
}

impl<R> Default for History<R> {
    fn default() -> Self {
        Self { inputs: VecDeque::new(), bytes: 0 }
    }
}

/// The content of `history_request`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Asked {
    hist_access_type: String,
    output: bool,
    n: Option<usize>,
    start: Option<i64>,
    stop: Option<i64>,
    pattern: Option<String>,
    unique: bool,
}

impl<R> History<R> {
    pub(super) fn add(&mut self, count: u64, code: &str, room: R) {
        if code.len() > MAX_BYTES {
            return;
        }
        self.bytes += code.len();
        self.inputs.push_back(Input { count, code: code.to_owned(), room });
        while self.bytes > MAX_BYTES || self.inputs.len() > MAX_INPUTS {
            let Some(oldest) = self.inputs.pop_front() else { return };
            self.bytes -= oldest.code.len();
        }
    }

    /// The inputs that a request asks for, the oldest first: session, number and code, and with `output`
    /// the code and nothing.
    pub(super) fn told(&self, content: &Map<String, Value>) -> Vec<Value> {
        let asked = Value::Object(content.clone());
        let asked: Asked = serde_json::from_value(asked).unwrap_or_default();
        let mut found: Vec<&Input<R>> = self.inputs.iter().collect();
        match asked.hist_access_type.as_str() {
            "range" => {
                let start = asked.start.unwrap_or(0);
                let stop = asked.stop.unwrap_or(i64::MAX);
                found.retain(|input| {
                    i64::try_from(input.count).is_ok_and(|count| (start..stop).contains(&count))
                });
            }
            "search" => {
                let pattern: Vec<char> = asked.pattern.as_deref().unwrap_or("*").chars().collect();
                found.retain(|input| is_like(&input.code, &pattern));
            }
            _ => {}
        }
        if asked.unique {
            let mut seen = std::collections::BTreeSet::new();
            found.reverse();
            found.retain(|input| seen.insert(input.code.as_str()));
            found.reverse();
        }
        let skipped = asked.n.map_or(0, |n| found.len().saturating_sub(n));
        let told = found.into_iter().skip(skipped).map(|input| match asked.output {
            true => json!([0, input.count, [input.code, null]]),
            false => json!([0, input.count, input.code]),
        });
        told.collect()
    }
}

/// Whether a text matches a pattern with `*` and `?`.
fn is_like(text: &str, pattern: &[char]) -> bool {
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut of_pattern) = (0, 0);
    // The last star, and how far it reaches.
    let mut star: Option<(usize, usize)> = None;
    while let Some(character) = text.get(at) {
        match (pattern.get(of_pattern), star) {
            (Some('*'), _) => {
                star = Some((of_pattern, at));
                of_pattern += 1;
            }
            (Some(wanted), _) if *wanted == '?' || wanted == character => {
                at += 1;
                of_pattern += 1;
            }
            (_, Some((of_star, reach))) => {
                star = Some((of_star, reach + 1));
                (at, of_pattern) = (reach + 1, of_star + 1);
            }
            (_, None) => return false,
        }
    }
    pattern.iter().skip(of_pattern).all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(history: &History<()>, asked: Value) -> Vec<Value> {
        history.told(asked.as_object().unwrap())
    }

    #[test]
    fn tail_range_and_search_are_told() {
        let mut history = History::default();
        for (count, code) in [(1, "import os"), (2, "x = 1"), (3, "x = 1"), (4, "os.x")] {
            history.add(count, code, ());
        }
        let tail = told(&history, json!({"hist_access_type": "tail", "n": 2}));
        assert_eq!(tail, [json!([0, 3, "x = 1"]), json!([0, 4, "os.x"])]);
        let range = json!({"hist_access_type": "range", "start": 1, "stop": 2, "output": true});
        assert_eq!(told(&history, range), [json!([0, 1, ["import os", null]])]);
        let search = json!({"hist_access_type": "search", "pattern": "x*", "unique": true});
        assert_eq!(told(&history, search), [json!([0, 3, "x = 1"])]);
        assert_eq!(told(&history, json!({"n": "nonsense"})).len(), 4);
    }

    #[test]
    fn oldest_inputs_are_forgotten() {
        let mut history = History::default();
        for count in 0..2000 {
            history.add(count, "x", ());
        }
        assert_eq!(told(&history, json!({})).len(), MAX_INPUTS);
        history.add(2000, &"x".repeat(MAX_BYTES), ());
        assert_eq!(told(&history, json!({})).len(), 1);
        history.add(2001, &"x".repeat(MAX_BYTES + 1), ());
        assert_eq!(history.bytes, MAX_BYTES);
    }

    #[test]
    fn patterns_have_stars_and_question_marks() {
        let like = |text, pattern: &str| is_like(text, &pattern.chars().collect::<Vec<_>>());
        assert!(like("import os", "*o?") && like("abc", "a*c") && like("", "*") && like("é", "?"));
        assert!(!like("abc", "a") && !like("abc", "*b") && !like("", "?"));
    }
}
