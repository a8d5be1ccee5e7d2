# Directories are changed by magics.
# expect stdout: /data
# expect stdout: here
%mkdir data
%cd data
!echo here > note.txt
print(open("note.txt").read().strip())
%cd ..
