#!/bin/bash
# Run one test program under many seeded schedules, to find races. Stops at the first failure and says how to replay it.
# usage: explore.sh TEST SEEDS      by `make explore TEST=NAME SEEDS=1..1000`; SEEDS is N, A..B or several of these
#
# TEST is a program of user/tests, with a pattern if need be ("tlb TL-05"), or any command for init. All CPUs take turns of
# very different lengths, in an order that is drawn anew each round; from the same seed the same from power-on to the end.
# In the environment:
#   KERNEL INITRAMFS       what to boot (the Makefile sets them; DEBUG=1 takes the kernel with checks)
#   CPUS NODES TOPO KARGS  as in `make run`
#   MEM                    default 128M: much memory takes the debug kernel long to poison
#   SCALE                  of the rounds of a program of user/tests (default 0.03: a few of each; the breadth is in the seeds)
#   JOBS=N                 so many guests at a time, each on a host CPU of its own
#   FAST=1                 turns are taken only while the test runs: boots faster, replays less exactly
#   FINE=1                 turns may end after any instruction, not only at the end of a block: ten times slower
#   TURN=NS                mean length of a turn (default 200)
#   LIMIT=SECONDS          longer is a hang (default 300)
set -u
here=$(cd "$(dirname "$0")" && pwd)
test=$1 seeds=${2:-1..100}
out=build/explore

fail() { echo "explore: $*" >&2; exit 2; }

[ -n "$test" ] || fail 'say which test: make explore TEST=NAME SEEDS=1..1000'
list=
for part in ${seeds//,/ }; do
	case $part in
		*[!0-9.]*|'') fail "SEEDS is N, A..B or several of these, not '$seeds'" ;;
		*..*) list+=" $(seq "${part%%..*}" "${part##*..}")" || fail "bad range $part" ;;
		*) list+=" $part" ;;
	esac
done
set -- $list
[ $# -gt 0 ] || fail "no seed in '$seeds'"
jobs=${JOBS:-1}
[ "$jobs" -ge 1 ] 2>/dev/null || fail "JOBS is a number, not '$jobs'"
mkdir -p "$out" || exit 2

# What a replay needs besides the test and the seed: all that was asked for.
asked=
for name in DEBUG CPUS NODES TOPO CPU MEM SCALE TURN FAST FINE KARGS; do
	[ -z "${!name-}" ] || asked+=" $name=$(printf %q "${!name}")"
done
kernel="$([ "${DEBUG-}" = 1 ] && echo debug || echo release) kernel of $(git describe --always --dirty 2>/dev/null)"

program=${test%% *} arguments=
[ "$program" = "$test" ] || arguments=" ${test#* }"
name=${program##*/}
[ ! -f "$here/../../user/tests/$program.c" ] || program=/tests/$program
[ "$program" = "${program#/tests/}" ] || arguments=" -s ${SCALE:-0.03}$arguments"

export CMD=$program$arguments
export BOOT=pvh TIMEOUT=${LIMIT:-300} QEMU=$here/../metronome/qemu.sh MEM=${MEM:-128M}
[ -n "${TOPO-}" ] || export CPUS=${CPUS:-4} NODES=${NODES:-2}
export QEMU_ARGS="-seed 1 -rtc base=2024-01-01,clock=vm ${QEMU_ARGS-}"
export ACCEL=tcg,thread=multi${FINE:+,one-insn-per-tb=on}
region=all
[ -z "${FAST-}" ] || { region=marked; CMD="marked $CMD"; }

# Host CPUs that we may use. One job is left where the host puts it.
cpus=
for part in $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status | tr , ' '); do
	cpus+=" $(seq "${part%-*}" "${part#*-}")"
done
cpus=($cpus)
[ "$jobs" -gt 1 ] || cpus=('')

# run SEED CPU: 0 if it passed
run() {
	local log=$out/$name-$1.log status
	METRONOME=region=$region,seed=$1,schedule=wide,turn=${TURN:-200},report=/dev/null${2:+,cpu=$2} \
		"$here/../qemu.sh" >"$log" 2>&1 </dev/null
	status=$?
	if [ $status = 0 ] && ! grep -q '^not ok' "$log"; then
		rm -f "$log"
		return 0
	fi
	[ ! -t 1 ] || printf '\r\033[K'
	tail -n 25 "$log" | sed 's/^/    /'
	echo "explore: $name fails with seed $1 (status $status; $kernel); log: $log"
	echo "To replay it: make explore TEST='$test'$asked SEEDS=$1"
	return 1
}

passed=0 failed=0 begun=$SECONDS
declare -A host_cpu

# Waits for one of the jobs to end.
reap() {
	local pid
	if wait -n -p pid; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
	free+=("${host_cpu[$pid]}")
	if [ -t 1 ]; then
		printf '\r%s: %d of %d seeds passed' "$name" $passed "$total"
	elif [ $((passed % 10)) = 0 ] && [ $failed = 0 ]; then
		echo "$name: $passed of $total seeds passed"
	fi
}

total=$# free=()
for ((i = 0; i < jobs; i++)); do free+=("${cpus[i % ${#cpus[@]}]}"); done
for seed; do
	[ ${#free[@]} -gt 0 ] || reap
	[ $failed = 0 ] || break
	cpu=${free[-1]}
	unset 'free[-1]'
	run "$seed" "$cpu" &
	host_cpu[$!]=$cpu
done
while [ ${#free[@]} -lt "$jobs" ]; do reap; done
[ ! -t 1 ] || echo
[ $failed = 0 ] || exit 1
echo "explore: $name passed under $passed schedules, $kernel${asked:+,$asked}, in $((SECONDS - begun)) s"
