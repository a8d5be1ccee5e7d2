# An error shows the lines it came through.
# expect status: error
# expect exception: ZeroDivisionError
# expect traceback: average([])
# expect traceback: return total / len(prices)
def average(prices):
    total = sum(prices)
    return total / len(prices)


average([])
