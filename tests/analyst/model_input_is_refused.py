# A program that asks its user.
# expect status: error
# expect exception: EOFError
name = input("Name: ")
