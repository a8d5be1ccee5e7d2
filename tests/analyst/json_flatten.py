# Flattens nested JSON.
# expect result: {'a': 1, 'b.c': [2, 3], 'b.d.e': None}
import json


def flatten(value, prefix=""):
    if not isinstance(value, dict):
        return {prefix[:-1]: value}
    flat = {}
    for key, inner in value.items():
        flat.update(flatten(inner, f"{prefix}{key}."))
    return flat


flatten(json.loads('{"a": 1, "b": {"c": [2, 3], "d": {"e": null}}}'))
