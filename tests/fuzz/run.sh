#!/bin/sh
# Fuzz each target for a while. usage: run.sh SECONDS TARGET...
# It starts from the seeds in build/unit/corpus/TARGET; inputs that reach new code go into
# build/unit/fuzz-corpus/TARGET, where the next run goes on. An input that breaks something is kept
# as build/unit/crash/TARGET-...: put it into tests/fuzz/found/TARGET/ to have `make unit` try it.

seconds=$1
shift
passed=0
failed=0
mkdir -p build/unit/crash
echo "KTAP version 1"
for target in "$@"; do
	log=build/unit/fuzz_$target.log
	mkdir -p "build/unit/fuzz-corpus/$target"
	if "build/unit/fuzz_$target" -max_total_time="$seconds" -max_len=8192 -timeout=10 -rss_limit_mb=2048 \
		-artifact_prefix="build/unit/crash/$target-" -print_final_stats=1 -use_value_profile=1 \
		"build/unit/fuzz-corpus/$target" "build/unit/corpus/$target" > "$log" 2>&1; then
		passed=$((passed + 1))
		runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
		echo "ok $((passed + failed)) fuzz.$target # $runs inputs in $seconds s"
	else
		failed=$((failed + 1))
		echo "not ok $((passed + failed)) fuzz.$target # see $log"
		grep -v '^#[0-9]' "$log" | tail -n 40 | sed 's/^/# /'
	fi
done
echo "1..$((passed + failed))"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
