# Files that the call asks for: text, binary.
# expect output: report.md text/markdown
# expect output: data.bin application/octet-stream
with open("report.md", "w") as report:
    report.write("# Report\n\nAll is well.\n")
with open("data.bin", "wb") as data:
    data.write(bytes(range(256)))
