#!/bin/bash
# Fetch Debian's newest 6.12 kernel and put its vmlinuz, and a file with its name, into build/linux. Nothing is installed.
# usage: linux.sh build/linux/vmlinuz
set -eu
out=$1
dir=$(dirname "$out")
series=${LINUX_SERIES:-6.12}

fail() { echo "linux.sh: $*" >&2; exit 1; }

newest() {
	apt-cache search --names-only "^linux-image-${series//./\\.}\.[0-9]+.*-amd64$" |
		awk '{ print $1 }' | grep -Ev -- '-(cloud|rt)-amd64$' | sort -V | tail -n 1
}

package=$(newest)
if [ -z "$package" ]; then
	if [ "$(id -u)" = 0 ]; then apt-get -q update >/dev/null; else sudo -n apt-get -q update >/dev/null || true; fi
	package=$(newest)
fi
[ -n "$package" ] || fail "apt knows no linux-image-$series*-amd64 (on Debian 12 it is in bookworm-backports)"
mkdir -p "$dir"
work=$(mktemp -d "$dir/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
echo "Fetching $package"
(cd "$work" && apt-get -q download "$package" 2>/dev/null >/dev/null) || fail "cannot download $package"
dpkg-deb -x "$work"/*.deb "$work/root"
dpkg-deb -f "$work"/*.deb Package Version >"$dir/version"
cp "$work"/root/boot/vmlinuz-* "$out"
