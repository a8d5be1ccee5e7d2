# The time of one statement, and its value.
# expect stdout: Wall time:
# expect result: 4950
%time sum(range(100))
