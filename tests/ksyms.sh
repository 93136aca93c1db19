#!/bin/sh
# Print the assembly source of the kernel's symbol table (see kernel/ksyms.h).
# usage: ksyms.sh [KERNEL.elf]    without a kernel: an empty table
set -eu
if [ $# -gt 0 ]; then LC_ALL=C nm -n "$1"; fi | awk '
	BEGIN { n = 0 }
	$3 == "__text_start" { base = $1 }
	$3 == "__text_end"   { exit }
	# One name an address; the first of a global and its aliases will do.
	base != "" && ($2 == "t" || $2 == "T" || $2 == "W") && $3 !~ /^(\.|__text_)/ && $1 != last {
		last = $1; address[n] = $1; name[n++] = $3
	}
	END {
		print "\t.section .ksyms,\"a\",@progbits"
		print "\t.globl ksyms_count, ksyms_offset, ksyms_name, ksyms_names"
		print "\t.balign 8\nksyms_count:\t.long " n + 0
		print "\t.balign 8\nksyms_offset:"
		for (i = 0; i < n; i++) print "\t.long 0x" address[i] " - 0x" base
		print "ksyms_name:"
		at = 0
		for (i = 0; i < n; i++) { print "\t.long " at; at += length(name[i]) + 1 }
		print "ksyms_names:"
		for (i = 0; i < n; i++) print "\t.asciz \"" name[i] "\""
		print "\t.byte 0"
		print "\t.section .note.GNU-stack,\"\",@progbits"
	}'
