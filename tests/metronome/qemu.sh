#!/bin/bash
# QEMU with the metronome: takes QEMU's arguments, and gives it the plugin both as a plugin and in LD_PRELOAD.
# usage: METRONOME=NAME=VALUE,... metronome/qemu.sh [QEMU arguments]
#
# Start a guest by it with `QEMU=tests/metronome/qemu.sh make run`. Options: docs/metronome.md. EMULATOR names another QEMU.
set -u
here=$(cd "$(dirname "$0")" && pwd)
plugin=${METRONOME_SO:-$here/../../build/metronome/metronome.so}
qemu=${EMULATOR:-qemu-system-x86_64}
least=9

fail() { echo "metronome: $*" >&2; exit 69; }

[ -f "$plugin" ] || fail "$plugin is not built: make metronome"
version=$("$qemu" --version 2>/dev/null | sed -n 's/^QEMU emulator version \([0-9]*\).*/\1/p')
[ -n "$version" ] || fail "$qemu is missing: install qemu-system-x86, version $least or newer"
[ "$version" -ge $least ] || fail "$qemu has version $version, but $least or newer is needed"

exec env LD_PRELOAD="$plugin" "$qemu" -plugin "$plugin${METRONOME:+,$METRONOME}" "$@"
