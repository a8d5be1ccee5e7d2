# What is defined?
# expect stdout: alpha
# expect stdout: beta
alpha, beta = 1, 2
%who
