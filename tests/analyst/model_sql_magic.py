# A magic of an extension that is not there.
# expect stderr: any
# expect result: 1
%load_ext sql
%sql SELECT 1
1
