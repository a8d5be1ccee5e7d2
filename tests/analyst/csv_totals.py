# Sums sales by region with nothing but the standard library.
# expect stdout: north 30
# expect stdout: south 12
# expect file: totals.csv
import csv
import io
from collections import defaultdict

data = "region,amount\nnorth,10\nsouth,12\nnorth,20\n"
totals = defaultdict(int)
for row in csv.DictReader(io.StringIO(data)):
    totals[row["region"]] += int(row["amount"])
with open("totals.csv", "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["region", "amount"])
    for region in sorted(totals):
        writer.writerow([region, totals[region]])
        print(region, totals[region])
