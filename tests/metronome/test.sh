#!/bin/bash
# The metronome's own test, as TAP: a guest without a kernel (guest.asm), which executes a known number of instructions.
# usage: test.sh      (after `make metronome`)
set -u
here=$(cd "$(dirname "$0")" && pwd)
guest=${METRONOME_GUEST:-$here/../../build/metronome/guest.bin}
work=$(mktemp -d "${TMPDIR:-/tmp}/metronome.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
number=0 failed=0

ok() {	# ok STATUS NAME [WHAT WAS SEEN]
	number=$((number + 1))
	if [ "$1" = 0 ]; then
		echo "ok $number - $2"
	else
		echo "not ok $number - $2"
		[ $# -lt 3 ] || echo "# $3"
		failed=1
	fi
}

between() { [ "${1:-x}" -ge "$2" ] 2>/dev/null && [ "$1" -le "$3" ]; ok $? "$4" "$1 is not in $2..$3"; }
equal() { [ "$1" = "$2" ]; ok $? "$3" "'$1' is not '$2'"; }

# run CPUS LETTER OPTIONS [QEMU ARGUMENTS]: sets $said (the guest's line), $status, $report
run() {
	local cpus=$1 letter=$2 options=$3
	shift 3
	rm -f "$work/report"
	METRONOME=report=$work/report${options:+,$options} timeout -k 1 60 "$here/qemu.sh" \
		-M q35 -accel "tcg,thread=${MULTI:-multi}${ACCEL:-}" -cpu max -smp "$cpus" -m 64 -nodefaults -display none \
		-no-user-config -debugcon "file:$work/said" -device isa-debug-exit,iobase=0xf4,iosize=4 \
		-seed 1 -rtc base=2024-01-01,clock=vm -kernel "$guest" -append "$letter$cpus" "$@" >"$work/log" 2>&1 </dev/null
	status=$?
	said=$(head -n 1 "$work/said" 2>/dev/null)
	report=$(cat "$work/report" 2>/dev/null)
}

member() { printf '%s' "$report" | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"; }		# the last so named: the total's
first() { printf '%s' "$report" | sed -n "s/[^}]*\"$1\":\([0-9]*\).*/\1/p" | head -n 1; }
same() { printf '%s' "$report" | sed 's/"host_ms":[0-9]*,//'; }

# fails NAME PATTERN: the last run ended badly and said one line that matches
fails() {
	[ $status -gt 1 ] && [ "$(wc -l <"$work/log")" = 1 ] && grep -q "$2" "$work/log"
	ok $? "$1" "status $status: $(head -n 3 "$work/log")"
}

echo "TAP version 13"

run 1 l ''
between "$(member user)" 2000000 2000010 'a loop of 2,000,000 instructions is counted exactly'
between "$(first virtual_ns)" 2000000 2000010 'and takes 2,000,000 ns'
run 1 s ''
equal "$(member rep_bytes_user)" 1048576 'REP STOSB is counted by the byte'
between "$(first virtual_ns)" 131072 131100 'and takes 1 ns for 8 of them'
run 1 s rep=16
between "$(first virtual_ns)" 65536 65560 'or for 16, if asked for'
run 1 t ''
between "$said" 1999990 2000010 'the HPET follows virtual time'
run 1 c region=all
between "$said" 2000000 2000010 'the time-stamp counter too'
slept= slowest=0
for _ in 1 2 3 4 5 6 7 8; do	# the region begins while the main loop has, or has not yet, seen a timer being stopped
	run 1 h ''
	[ "${said:-0}" -ge 5000000 ] && [ "$said" -le 5000300 ] || slept+=" ${said:-nothing}"
	host_ms=$(first host_ms)
	[ "${host_ms:-9999}" -le "$slowest" ] || slowest=${host_ms:-9999}
done
equal "$slept" '' 'a halted machine sleeps until its timer'
between "$slowest" 0 1000 'without waiting for it'
run 4 w ''
equal "$said" 300 'halted CPUs are woken by interrupts'
equal "$(member ipis)" 0 'user code sends none'	# the guest runs in the lower half: see translate.c
run 2 p turn=1000000,cpu=any
equal "$said" 60 'and look for interrupts when the turn of who woke them is over'

run 2 e ''
equal "$said" 100 'QEMU may stop all CPUs in a region'
between "$(first steps)" 1 400 'by letting the waiting ones take a step'

# With blocks of one instruction, the turns can end between a load and its store.
ACCEL=,one-insn-per-tb=on
run 3 r region=all,seed=1,schedule=wide
one=$said report_one=$(same)
between "$one" 20000 59990 'CPUs that add without LOCK lose updates'
run 3 r region=all,seed=1,schedule=wide
equal "$(same)" "$report_one" 'the same seed gives the same run'
(while :; do :; done) & load=$!
run 3 r region=all,seed=1,schedule=wide
kill $load 2>/dev/null; wait $load 2>/dev/null
equal "$(same)" "$report_one" 'also with other load on the host'
run 3 r region=all,seed=2,schedule=wide
[ "$said" != "$one" ]; ok $? 'another seed another' "both $one"
ACCEL=

run 4 x coherence=70:150
shared=$(first virtual_ns)
run 4 y coherence=70:150
own=$(first virtual_ns)
between "$own" 60000 66000 'a line of its own costs a CPU nothing'
[ "${shared:-0}" -gt $((own * 105 / 100)) ]; ok $? 'a line written by all costs transfers' "$shared, own lines $own"
run 4 x coherence=70:150,nodes=4
far=$(first virtual_ns)
[ "${far:-0}" -gt "$shared" ]; ok $? 'and more from other nodes' "$far, one node $shared"

run 1 u ''
[ "$(printf '%s' "$report" | grep -c '"unfinished":true')" = 1 ]; ok $? 'a region without an end is reported as unfinished'
run 1 n ''
fails 'a guest that marks no region is an error' 'never marked a region'
run 1 l frequency=1
fails 'so is an unknown option' "unknown option 'frequency=1'"
MULTI=single run 2 l ''
fails 'and vCPUs that share a thread' 'each vCPU needs a thread'
run 1 l turn=abc
fails 'and a bad value' "bad value in 'turn=abc'"
printf '#!/bin/sh\necho "QEMU emulator version 8.2.0"\n' >"$work/old"; chmod +x "$work/old"
EMULATOR=$work/old run 1 l ''
fails 'and an old QEMU' 'version 8, but 9 or newer'
EMULATOR=$work/none run 1 l ''
fails 'and no QEMU' 'none is missing'

echo "1..$number"
exit $failed
