# A bug two calls deep; the traceback names the lines.
# expect status: error
# expect exception: KeyError
# expect traceback: return row["pric"]
def price(row):
    return row["pric"]

def total(rows):
    return sum(price(row) for row in rows)

total([{"price": 3}])
