# There is no network, and the command's failure does not end the cell.
# expect stdout: still here
!curl -s --max-time 5 https://example.com/data.csv -o data.csv
print("still here")
