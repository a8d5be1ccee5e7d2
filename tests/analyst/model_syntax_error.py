# A mistake that models make.
# expect status: error
# expect exception: SyntaxError
def f(x)
    return x
