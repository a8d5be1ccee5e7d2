# A warning comes with the line that caused it.
# expect stderr: UserWarning: the price is 0
# expect stderr: warn(0)
import warnings


def warn(price):
    warnings.warn(f"the price is {price}", stacklevel=2)


warn(0)
