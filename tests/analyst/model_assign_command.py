# The output of a command in a variable.
# expect stdout: 2 files: a.csv, b.csv
!touch a.csv b.csv
files = !ls *.csv
print(f"{len(files)} files: {', '.join(files)}")
