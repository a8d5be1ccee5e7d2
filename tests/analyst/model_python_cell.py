%%python3
# A cell in a process of its own.
# expect stdout: 42
print(6 * 7)
