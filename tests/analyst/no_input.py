# There is nobody to answer a prompt.
# expect status: error
# expect exception: EOFError
name = input("Your name? ")
print("Hello", name)
