# A module that is not there, handled as models do.
# expect stdout: not installed
try:
    import surely_not_installed
except ImportError:
    print("not installed")
