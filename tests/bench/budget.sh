#!/bin/bash
# What the kernel may cost, as TAP: counted by the metronome, so the same on any host. docs/results.md has Linux's figures.
# The limits leave some room above what was measured, as compilers differ.
# usage: budget.sh      by `make budget`
set -u
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/budget.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
number=0 failed=0

# measure CPUS NODES PROGRAM: the last region's report is in $report
measure() {
	QEMU=tests/metronome/qemu.sh ACCEL=tcg,thread=multi METRONOME=region=all,fault_cost=on,report=$work/report BOOT=pvh \
		make -s -C "$here/../.." run CPUS=$1 NODES=$2 MEM=1G TIMEOUT=120 CMD="$3" \
		QEMU_ARGS="-seed 1 -rtc base=2024-01-01,clock=vm" >"$work/log" 2>&1 </dev/null || sed 's/^/# /' "$work/log"
	report=$(tail -n 1 "$work/report" 2>/dev/null)
	rm -f "$work/report"
}

member() { printf '%s' "$report" | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"; }

# at_most LIMIT VALUE WHAT
at_most() {
	number=$((number + 1))
	if [ -n "$2" ] && [ "$2" -gt 0 ] && [ "$2" -le "$1" ]; then
		echo "ok $number - $3: $2, at most $1"
	else
		echo "not ok $number - $3: ${2:-nothing}, at most $1"
		failed=1
	fi
}

echo "TAP version 13"
measure 1 1 'pft -b -t 1 -m 16'
at_most 600 "$(member p50)" 'kernel instructions of a first 4 KB write fault, clearing left out'
alone=$(member virtual_ns)
measure 16 2 'pft -b -t 16 -m 256'
at_most 110 "$(($(member virtual_ns) * 100 / ${alone:-1}))" 'the same on 16 CPUs, percent of the time of one'
measure 4 2 'mmapbench -t 1 -n 1000'
at_most 7800 "$(($(member virtual_ns) / 1000))" 'ns to map 64 KB, touch 4 pages, unmap'
measure 4 2 'lat_proc -n 50 -N 1 fork'
at_most 28000 "$(($(member virtual_ns) / 50))" 'ns to fork a process that exits: a quarter of Linux'
measure 4 2 'lat_proc -n 30 -N 1 exec'
at_most 77000 "$(($(member virtual_ns) / 30))" 'ns to fork and execute a program: a third of Linux'
echo "1..$number"
exit $failed
