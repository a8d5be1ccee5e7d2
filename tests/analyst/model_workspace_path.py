# An absolute path below /workspace.
# expect stdout: 1
# expect file: out.txt
import os
with open("/workspace/out.txt", "w") as f:
    f.write("1")
print(open("out.txt").read())
