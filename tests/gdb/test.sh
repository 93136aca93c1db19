#!/bin/sh
# The commands of faultline.py on a machine that stands still in a page fault of pft. Prints TAP.
set -u
cd "$(dirname "$0")/../.."
out=build/test/gdb.out
mkdir -p build/test
make -s gdb BOOT=pvh TOPO=two-node CPUS=4 CMD="pft -t 4 -b -m 8" GDB_PORT=$((20000 + $$ % 20000)) LOG=build/test/gdb.serial GDB_ARGS="-batch \
	-ex 'hbreak fault_anon if f->area->end - f->area->start >= 0x800000' -ex continue \
	-ex 'fl cpus' -ex 'fl tasks' -ex 'fl areas' -ex 'fl percpu cpu_number' \
	-ex 'fl pt 0x401000' -ex 'fl ptdump 0xffffffff80000000'" </dev/null >$out 2>&1

number=0
check() {
	number=$((number + 1))
	if grep -Eq "$2" $out; then echo "ok $number $1"; else echo "not ok $number $1"; bad=1; fi
}
bad=0
echo "1..6"
check "fl cpus"    '^CPU +[0-3] +[0-9]+ pft +0xffffffff8[0-9a-f]+ fault_anon'
check "fl tasks"   '^ +1 +1 +[0-3] TASK_[A-Z]+ +init '
check "fl areas"   '^0x0000000000401000-0x[0-9a-f]+ r-x- '
check "fl percpu"  '^CPU +3  3$'
check "fl pt"      '^maps 0x401000, 4 KB, to physical 0x[0-9a-f]+$'
check "fl ptdump"  '^0xffffffff80[0-9a-f]+-.* KB pages  (A )?(D )?G$'
[ $bad = 0 ] || sed 's/^/# /' $out
exit $bad
