# The error behind an error.
# expect status: error
# expect exception: RuntimeError
# expect traceback: KeyError: 'price'
# expect traceback: The above exception was the direct cause
# expect traceback: RuntimeError: no price
try:
    {}["price"]
except KeyError as error:
    raise RuntimeError("no price") from error
