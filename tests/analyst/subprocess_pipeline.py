# Programs in a pipe.
# expect stdout: 3
# expect result: 0
import subprocess

text = "pear\napple\npear\nfig\n"
done = subprocess.run(
    "sort | uniq | wc -l", shell=True, input=text, capture_output=True, text=True, check=True
)
print(int(done.stdout))
subprocess.call(["true"])
