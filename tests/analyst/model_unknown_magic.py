# A magic with a typing mistake says so.
# expect stderr: did you mean %timeit?
# expect result: 3
x = 3
%timit x
x
