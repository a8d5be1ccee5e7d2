%%bash
# A cell of shell script.
# expect stdout: 1 one
# expect stdout: 2 two
set -e
for word in one two; do
  i=$((i + 1))
  echo "$i $word"
done
