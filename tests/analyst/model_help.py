# Documentation by a question mark.
# expect stdout: Return the number of items in a container.
len?
