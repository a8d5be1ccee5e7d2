# The calls that exported notebooks have.
# expect stdout: exported
# expect result: 2
get_ipython().run_line_magic('matplotlib', 'inline')
get_ipython().system('echo exported')
1 + 1
