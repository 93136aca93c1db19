#!/bin/sh
# Run test programs, print one KTAP report of all, and "N passed, N failed" last.
# usage: run.sh PROGRAM...   Exit status 1 if anything failed.
#
# A program that dies without reporting a failure, or reports fewer tests than it
# promised, counts as one failure.

passed=0
failed=0
number=0
out=$(mktemp)
trap 'rm -f "$out"' EXIT

echo "KTAP version 1"
for program in "$@"; do
	suite=$(basename "$program")
	suite=${suite#test_}
	"$program" > "$out" 2>&1
	status=$?
	awk -v suite="$suite" -v n="$number" '
		/^(ok|not ok) [0-9]+ / {
			ok = $1 == "ok"
			sub(/^(ok|not ok) [0-9]+ /, "")
			printf "%s %d %s.%s\n", ok ? "ok" : "not ok", ++n, suite, $0
			next
		}
		/^KTAP version/ || /^1\.\.[0-9]+$/ { next }
		/^#/ { print; next }
		{ print "# " $0 }' "$out"
	good=$(grep -c '^ok [0-9]' "$out")
	bad=$(grep -c '^not ok [0-9]' "$out")
	plan=$(sed -n 's/^1\.\.\([0-9]*\)$/\1/p' "$out" | head -n 1)
	number=$((number + good + bad))
	if [ "${plan:-none}" != $((good + bad)) ] || { [ "$status" != 0 ] && [ "$bad" = 0 ]; }; then
		number=$((number + 1))
		bad=$((bad + 1))
		echo "not ok $number $suite.run # exit status $status, $((good + bad - 1)) of ${plan:-?} tests reported"
	fi
	passed=$((passed + good))
	failed=$((failed + bad))
done
echo "1..$number"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
