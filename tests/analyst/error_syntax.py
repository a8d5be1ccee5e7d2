# A syntax error points at its character.
# expect status: error
# expect exception: SyntaxError
# expect traceback: prices = [1, 2
# expect traceback: ^
prices = [1, 2
print(prices)
