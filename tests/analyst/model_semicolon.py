# A trailing semicolon hides the value.
# expect stdout: seen
x = 5
print("seen")
x;
