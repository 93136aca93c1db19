#!/bin/sh
# Print the QEMU arguments that describe a machine, one a line.
#
# In the environment: CPUS, MEM (1G, 512M), CPU (model), and either NODES, that
# many equal nodes, or TOPO, the name of a file in tests/topologies/ (or a path).
# CPUS and MEM given win over the topology's own.
#
# A topology is lines of
#     node MEMORY CPUS      shares, in any unit: memory and CPUs are dealt out in
#                           proportion; 0 for a node without
#     distance A B D        SLIT entry, both ways; 10 for itself, else 20
#     cpus N | mem SIZE     defaults
#     machine OPTIONS       added to -machine
#     qemu ARGUMENTS        as they are
# None of `node`: no SRAT at all.
set -eu
here=$(dirname "$0")

if [ -n "${TOPO-}" ]; then
	file=$TOPO
	[ -f "$file" ] || file=$here/topologies/$TOPO
	[ -f "$file" ] || { echo "no topology $TOPO; there are:" $(ls "$here/topologies") >&2; exit 2; }
else
	file=-
fi

if [ "$file" = - ]; then
	awk -v n="${NODES:-2}" 'BEGIN { for (i = 0; i < n; i++) print "node 1 1" }' </dev/null
else
	cat "$file"
fi | awk -v cpus="${CPUS-}" -v mem="${MEM-}" -v model="${CPU:-max}" '
	function mib(size) {
		if (size ~ /^[0-9]+[Gg]$/) return size * 1024
		if (size ~ /^[0-9]+[Mm]?$/) return size + 0
		fail("memory size not understood: " size)
	}
	function fail(why) { print "machine.sh: " why > "/dev/stderr"; failed = 1; exit 2 }
	function dealt(total, share, before, all) {   # the part of total up to this node, less that before it
		return int(total * (before + share) / all) - int(total * before / all)
	}

	{ sub(/#.*/, "") }
	$1 == "node"     { memory[nodes] = $2; share[nodes] = $3; nodes++; allmem += $2; allcpus += $3 }
	$1 == "distance" { distance[$2, $3] = distance[$3, $2] = $4; distances = 1 }
	$1 == "cpus" && cpus == "" { cpus = $2 }
	$1 == "mem" && mem == ""   { mem = $2 }
	$1 == "machine"  { machine = machine "," $2 }
	$1 == "qemu"     { $1 = ""; extra = extra $0 }

	BEGIN { nodes = first = 0 }
	END {
		if (failed) exit 2
		if (cpus == "") cpus = 4
		if (cpus !~ /^[0-9]+$/ || cpus < 1) fail("CPUS is not a number: " cpus)
		total = mib(mem == "" ? "1G" : mem)
		print "-machine\nq35" machine
		print "-cpu\n" model
		print "-smp\n" cpus
		print "-m\n" total "M"
		for (i = 0; i < nodes; i++) {
			size = allmem ? dealt(total, memory[i], mem_before, allmem) : 0
			count = allcpus ? dealt(cpus, share[i], cpus_before, allcpus) : 0
			line = "node,nodeid=" i
			if (count > 0) {
				line = line ",cpus=" first (count > 1 ? "-" first + count - 1 : "")
				first += count
			}
			if (size > 0) {
				print "-object\nmemory-backend-ram,id=ram" i ",size=" size "M"
				line = line ",memdev=ram" i
			}
			print "-numa\n" line
			mem_before += memory[i]; cpus_before += share[i]
		}
		for (i = 0; distances && i < nodes; i++)
			for (j = 0; j < nodes; j++)
				print "-numa\ndist,src=" i ",dst=" j ",val=" \
					(i == j ? 10 : (i, j) in distance ? distance[i, j] : 20)
		n = split(extra, words, " ")
		for (i = 1; i <= n; i++) print words[i]
	}'
