# A long list as the value is abridged.
# expect result_end: 998, 999, ...]
list(range(100_000))
