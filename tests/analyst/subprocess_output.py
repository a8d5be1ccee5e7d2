# What programs print comes where it is printed.
# expect stdout: one
# expect stdout: two
# expect stdout: three
# expect stderr: oops
import os
import subprocess

print("one")
os.system("echo two")
subprocess.run(["sh", "-c", "echo oops >&2"], check=True)
print("three")
