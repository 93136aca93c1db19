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
#   BATCH=N                seeds a boot (default 20): the program runs so often, each time under the next seed's schedule
#   JOBS=N                 so many guests at a time, each on a host CPU of its own
#   FAST=1                 turns are taken only while the test runs: boots faster, replays less exactly
#   FINE=1                 turns may end after any instruction, not only at the end of a block: ten times slower
#   TURN=NS                mean length of a turn (default 200)
#   LIMIT=SECONDS          a boot that takes longer hangs (default 200, and 20 more a seed)
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
jobs=${JOBS:-1} batch=${BATCH:-20}
[ "$jobs" -ge 1 ] 2>/dev/null || fail "JOBS is a number, not '$jobs'"
[ "$batch" -ge 1 ] 2>/dev/null || fail "BATCH is a number, not '$batch'"
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

command="marked $program$arguments"
export BOOT=pvh QEMU=$here/../metronome/qemu.sh MEM=${MEM:-128M}
[ -n "${TOPO-}" ] || export CPUS=${CPUS:-4} NODES=${NODES:-2}
export QEMU_ARGS="-seed 1 -rtc base=2024-01-01,clock=vm ${QEMU_ARGS-}"
export ACCEL=tcg,thread=multi${FINE:+,one-insn-per-tb=on}
region=all
[ -z "${FAST-}" ] || region=marked

# Host CPUs that we may use. One job is left where the host puts it.
cpus=
for part in $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status | tr , ' '); do
	cpus+=" $(seq "${part%-*}" "${part#*-}")"
done
cpus=($cpus)
[ "$jobs" -gt 1 ] || cpus=('')

# run CPU FIRST N: the seeds from FIRST on, in one boot; 0 if all passed
run() {
	local cpu=$1 first=$2 n=$3 log=$out/$name-$2.log status seed
	export CMD=$command TIMEOUT=${LIMIT:-$((200 + 20 * n))}
	for ((i = 1; i < n; i++)); do CMD+="; $command"; done
	METRONOME=region=$region,seed=$first,reseed=on,schedule=wide,turn=${TURN:-200},report=/dev/null${cpu:+,cpu=$cpu} \
		"$here/../qemu.sh" >"$log" 2>&1 </dev/null
	status=$?
	if [ $status = 0 ] && ! grep -q '^not ok' "$log"; then
		rm -f "$log"
		return 0
	fi
	# The programs before the one that failed say how they ended.
	seed=$((first + $(sed '/^not ok/,$d; /^init: .*: exit status [^0]/,$d' "$log" | grep -c '^init: .*: exit status 0')))
	[ ! -t 1 ] || printf '\r\033[K'
	grep -B 12 '^not ok' "$log" | head -n 40 | sed 's/^/    /'
	echo '    ...'
	tail -n 25 "$log" | sed 's/^/    /'
	echo "explore: $name fails with seed $seed (status $status; $kernel); log: $log"
	echo "To replay it: make explore TEST='$test'$asked SEEDS=$first$([ "$seed" = "$first" ] || echo "..$seed") BATCH=$((seed - first + 1))"
	return 1
}

passed=0 failed=0 reaped=0 begun=$SECONDS
declare -A host_cpu size

# Waits for one of the jobs to end.
reap() {
	local pid
	if wait -n -p pid; then passed=$((passed + ${size[$pid]})); else failed=$((failed + 1)); fi
	free+=("${host_cpu[$pid]}")
	if [ -t 1 ]; then
		printf '\r%s: %d of %d seeds passed' "$name" $passed "$total"
	elif [ $((++reaped % 5)) = 0 ] && [ $failed = 0 ]; then
		echo "$name: $passed of $total seeds passed"
	fi
}

# Starts the seeds from FIRST on.
start() {
	[ ${#free[@]} -gt 0 ] || reap
	[ $failed = 0 ] || return
	run "${free[-1]}" "$1" "$2" &
	host_cpu[$!]=${free[-1]} size[$!]=$2
	unset 'free[-1]'
}

total=$# free=() first=$1 n=0
for ((i = 0; i < jobs; i++)); do free+=("${cpus[i % ${#cpus[@]}]}"); done
for seed; do
	if [ $n = "$batch" ] || [ "$seed" != $((first + n)) ]; then
		start "$first" $n
		[ $failed = 0 ] || break
		first=$seed n=0
	fi
	n=$((n + 1))
done
[ $failed != 0 ] || start "$first" $n
while [ ${#free[@]} -lt "$jobs" ]; do reap; done
[ ! -t 1 ] || echo
[ $failed = 0 ] || exit 1
echo "explore: $name passed under $passed schedules, $kernel${asked:+,$asked}, in $((SECONDS - begun)) s"
