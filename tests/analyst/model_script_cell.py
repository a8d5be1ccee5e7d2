%%script python3 -
# A cell run by a program of one's choice.
# expect stdout: 3
print(1 + 2)
