%%time
# The time of a cell, and its value.
# expect stdout: Wall time:
# expect result: 15
total = 0
for i in range(6):
    total += i
total
