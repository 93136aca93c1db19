#!/bin/bash
# Boot Faultline in QEMU and pass on how it ended. The one way to start it: for
# `make run`, for the tests, for the benchmarks.
# usage: qemu.sh [QEMU arguments]
#
# In the environment (the Makefile sets the files):
#   KERNEL ISO INITRAMFS   what to boot
#   BOOT                   bios, uefi (both by GRUB from ISO), pvh (QEMU loads KERNEL),
#                          or linux (QEMU loads LINUX, a bzImage, for comparison)
#   CPUS NODES MEM TOPO CPU   the machine: see machine.sh
#   CMD                    programs for init: "prog args; prog args"
#   KARGS                  more kernel parameters
#   LOG                    a file that also gets the serial output
#   TIMEOUT                seconds; 0 for ever. Default: 0 on a terminal, else 1800
#   ACCEL                  default tcg,thread=multi; thread=single if the guest has more
#                          CPUs than the host, where a CPU that spins for one that waits for its
#                          turn on the host would spin for a long time
#   ICOUNT=1               the guest's clock counts instructions, 16 ns each, all CPUs in one thread: no
#                          load of the host shows in the guest's time. (For up to 255 CPUs: QEMU cannot
#                          have x2APIC then.)
#   MONITOR                path of a socket for QEMU's monitor
#   QEMU, QEMU_ARGS        another emulator; more arguments
#
# Exit status: 0..63 that of init; else
#   64 wrong usage   65 panic   67 early panic   66 reset, triple fault or power-off without a status
#   69 QEMU itself failed   124 timeout
set -u
here=$(dirname "$0")
BOOT=${BOOT:-bios}

say() { echo "qemu.sh: $*" >&2; }

case ${CMD-} in *'"'*) say 'CMD cannot hold double quotes; use single ones'; exit 64 ;; esac
machine=$("$here/machine.sh") || exit 64
mapfile -t args <<<"$machine"

work=$(mktemp -d "${TMPDIR:-/tmp}/faultline.XXXXXX") || exit 69
trap 'rm -rf "$work"' EXIT

printf '%s' "${CMD:+run=\"$CMD\"}${KARGS:+ $KARGS}" >"$work/cmdline"

thread=multi
for i in "${!args[@]}"; do
	[ "${args[i]}" = -smp ] && [ "${args[i + 1]%%,*}" -gt "$(nproc)" ] && thread=single
done
if [ "${ICOUNT-}" = 1 ]; then
	thread=single
	args+=(-icount shift=4,sleep=off)
	mapfile -t args < <(printf '%s\n' "${args[@]}" | sed '/^-cpu$/{n;s/$/,-x2apic/;}')
fi
args+=(-accel "${ACCEL:-tcg,thread=$thread}" -nodefaults -no-user-config -display none -no-reboot
	-fw_cfg "name=opt/faultline/cmdline,file=$work/cmdline"
	-device isa-debug-exit,iobase=0x501,iosize=2)

# On a terminal ^C belongs to the guest; Ctrl-A X leaves, Ctrl-A C is the monitor.
console=stdio,id=console
if [ -t 0 ] && [ -t 1 ]; then
	console+=,signal=off,mux=on
	args+=(-mon chardev=console)
	say "Ctrl-A X ends QEMU, Ctrl-A C toggles its monitor"
	limit=${TIMEOUT:-0}
else
	limit=${TIMEOUT:-1800}
fi
[ -z "${LOG-}" ] || console+=",logfile=$LOG,logappend=off"
if [ -n "${MONITOR-}" ]; then
	args+=(-chardev "socket,id=monitor,path=$MONITOR,server=on,wait=off" -mon chardev=monitor)
fi
args+=(-chardev "$console" -serial chardev:console)

case $BOOT in
	pvh)
		args+=(-kernel "$KERNEL" -initrd "$INITRAMFS") ;;
	linux)
		args+=(-kernel "${LINUX:?LINUX= names a bzImage}" -initrd "$INITRAMFS"
			-append "console=ttyS0 quiet panic=-1 $(cat "$work/cmdline")") ;;
	bios)
		args+=(-cdrom "$ISO" -boot d) ;;
	uefi)
		for suffix in _4M ''; do
			[ -f "/usr/share/OVMF/OVMF_CODE$suffix.fd" ] && break
		done
		cp "/usr/share/OVMF/OVMF_VARS$suffix.fd" "$work/vars.fd" || exit 69
		args+=(-drive "if=pflash,format=raw,unit=0,readonly=on,file=/usr/share/OVMF/OVMF_CODE$suffix.fd"
			-drive "if=pflash,format=raw,unit=1,file=$work/vars.fd" -cdrom "$ISO") ;;
	*)
		say "BOOT is bios, uefi, pvh or linux, not $BOOT"; exit 64 ;;
esac

# QEMU gets its own stdin back: without a terminal nothing must wait for one.
timeout --foreground -k 5 "$limit" "${QEMU:-qemu-system-x86_64}" "${args[@]}" ${QEMU_ARGS-} "$@"
rc=$?

# The kernel writes a value to port 0x501; QEMU exits with 2 * value + 1.
value=$(((rc - 1) / 2))
if [ $rc = 124 ] || [ $rc = 137 ]; then
	say "timeout: still running after $limit s"; exit 124
elif [ $rc = 0 ]; then
	say "the machine reset, triple-faulted or went off without a status"; exit 66
elif [ $((rc % 2)) = 1 ] && [ $value -ge 64 ] && [ $value -le 127 ]; then
	status=$((value - 64))
	[ $status = 0 ] || say "init ended with status $status$([ $status != 63 ] || echo ' or more')"
	exit $status
elif [ $rc = 65 ]; then
	say "the kernel panicked"; exit 65
elif [ $rc = 67 ]; then
	say "the kernel panicked early in boot"; exit 67
fi
say "QEMU failed (exit code $rc)"; exit 69
