#!/bin/bash
# Run one test program under many seeded schedules, to find races. Stops at the first failure and says how to replay it.
# usage: explore.sh TEST SEEDS      by `make explore TEST=NAME SEEDS=1..1000`; SEEDS is N, A..B or several of these
#
# TEST is a program in the initramfs, with arguments if need be. All CPUs take turns of very different lengths, in an
# order that is drawn anew each round; from the same seed the same from power-on to the end. In the environment:
#   KERNEL INITRAMFS       what to boot (the Makefile sets them; DEBUG=1 takes the kernel with checks)
#   CPUS NODES MEM KARGS   as in `make run`
#   FAST=1                 turns are taken only while the test runs: boots faster, replays less exactly
#   FINE=1                 turns may end after any instruction, not only at the end of a block: ten times slower
#   TURN=N                 mean length of a turn, ns (default 200)
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
mkdir -p "$out"
name=${test%% *} name=${name##*/}
export BOOT=pvh TIMEOUT=${LIMIT:-300} QEMU=$here/../metronome/qemu.sh CMD=$test CPUS=${CPUS:-4} NODES=${NODES:-2}
export QEMU_ARGS="-seed 1 -rtc base=2024-01-01,clock=vm ${QEMU_ARGS-}"
export ACCEL=tcg,thread=multi${FINE:+,one-insn-per-tb=on}
region=all
[ -z "${FAST-}" ] || { region=marked; CMD="marked $test"; }

done=0 begun=$SECONDS
for seed; do
	log=$out/$name-$seed.log
	METRONOME=region=$region,seed=$seed,schedule=wide,turn=${TURN:-200},report=/dev/null \
		"$here/../qemu.sh" >"$log" 2>&1 </dev/null
	status=$?
	if [ $status != 0 ] || grep -q '^not ok' "$log"; then
		[ ! -t 1 ] || printf '\r\033[K'
		tail -n 25 "$log" | sed 's/^/    /'
		echo "explore: $name fails with seed $seed (status $status); log: $log"
		echo "To replay it:${CPUS:+ CPUS=$CPUS}${NODES:+ NODES=$NODES}${FAST:+ FAST=1}${FINE:+ FINE=1}${TURN:+ TURN=$TURN} make explore TEST='$test' SEEDS=$seed"
		exit 1
	fi
	rm -f "$log"
	done=$((done + 1))
	if [ -t 1 ]; then
		printf '\r%s: %d of %d seeds passed' "$name" $done $#
	elif [ $((done % 10)) = 0 ]; then
		echo "$name: $done of $# seeds passed"
	fi
done
[ ! -t 1 ] || echo
echo "explore: $name passed under $done schedules, in $((SECONDS - begun)) s"
