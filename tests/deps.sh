#!/bin/sh
# Bring the distribution's packages that a target needs.
# usage: deps.sh build|run|unit|test|bench|gdb
#
# Missing ones are named and installed with apt-get, as root or by sudo. Where
# that cannot be, the list is printed and the build stops.
set -u

build="gcc libc6-dev linux-libc-dev make nasm binutils musl-tools busybox-static cpio
	grub-common grub-pc-bin grub-efi-amd64-bin xorriso mtools"
run="$build qemu-system-x86 ovmf"
case $1 in
	build) want=$build ;;
	run)   want=$run ;;
	unit)  want="$build clang libclang-rt-dev" ;;
	test)  want="$run python3 clang libclang-rt-dev gdb" ;;
	bench) want="$run python3 gnuplot-nox" ;;
	gdb)   want="$run gdb" ;;
	*)     echo "deps.sh: no such set: $1" >&2; exit 2 ;;
esac
qemu_least=9.0

if ! command -v dpkg-query >/dev/null; then
	# Not Debian: trust a machine that has the commands.
	for tool in gcc make nasm ld musl-gcc busybox cpio grub-mkrescue xorriso mformat qemu-system-x86_64; do
		command -v "$tool" >/dev/null || lacking="${lacking-} $tool"
	done
	[ -z "${lacking-}" ] && exit 0
	echo "Commands missing:$lacking" >&2
	echo "On Debian they come from the packages:" $want >&2
	exit 1
fi

# "name version" of each wanted package that is installed.
have=$(dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\n' $want 2>/dev/null | sed -n 's/^installed //p')
missing=
for package in $want; do
	version=$(printf '%s\n' "$have" | sed -n "s/^$package //p" | head -n 1)
	case $package in
		qemu-system-x86)
			if [ -z "$version" ] || dpkg --compare-versions "$version" lt "1:$qemu_least"; then
				missing="$missing $package"
			fi ;;
		*)	[ -n "$version" ] || missing="$missing $package" ;;
	esac
done
[ -z "$missing" ] && exit 0

echo "Packages missing:$missing"
if [ "$(id -u)" = 0 ]; then
	as_root=
elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
	as_root=sudo
else
	echo "They cannot be installed from here: not root, and no sudo. As root, do:" >&2
	echo "    apt-get install$missing" >&2
	echo "(qemu-system-x86 has to be $qemu_least or later: on Debian 12 it is in bookworm-backports)" >&2
	exit 1
fi

log=build/packages.log
mkdir -p build
: >"$log"

# apt-get, silent unless it fails.
apt() {
	from_line=$(($(wc -l <"$log") + 1))
	$as_root env DEBIAN_FRONTEND=noninteractive \
		apt-get -q -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" </dev/null >>"$log" 2>&1 && return
	echo "apt-get $* failed:" >&2
	tail -n "+$from_line" "$log" | tail -n 30 >&2
	return 1
}

# Where the machine has Debian itself from: the first source of this release's "main".
mirror() {
	for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
		[ -f "$file" ] && cat "$file" && echo
	done | awk -v release="$VERSION_CODENAME" '
		function has(list, word) { return index(" " list " ", " " word " ") }
		function stanza() {
			if (uri != "" && has(suites, release) && has(components, "main")) { print uri; done = 1; exit }
			uri = suites = components = ""
		}
		$1 == "deb" {
			sub(/\[[^]]*\]/, "")
			if ($3 == release && has($0, "main")) { print $2; done = 1; exit }
		}
		$1 == "URIs:"       { uri = $2 }
		$1 == "Suites:"     { suites = $0 }
		$1 == "Components:" { components = $0 }
		NF == 0             { stanza() }
		END                 { if (!done) stanza() }'
}

offered_qemu() {
	apt-cache madison qemu-system-x86 | cut -d '|' -f 2 | tr -d ' '
}

# Does the machine know a package of qemu that is new enough?
new_qemu_offered() {
	for version in $(offered_qemu); do
		dpkg --compare-versions "$version" ge "1:$qemu_least" && return 0
	done
	return 1
}

. /etc/os-release
echo "Installing them (log: $log)."
apt update || echo "deps.sh: apt-get update failed; going on with what is known" >&2

backports=
[ "${VERSION_CODENAME-}" = bookworm ] && backports=bookworm-backports

case $missing in *qemu-system-x86*)
	if ! new_qemu_offered; then
		url=$(mirror)
		if [ -z "$backports" ] || [ -z "$url" ]; then
			echo "deps.sh: no package of QEMU $qemu_least or later is known to apt" >&2
			exit 1
		fi
		echo "Adding $backports from $url, for QEMU."
		echo "deb $url $backports main" |
			$as_root tee /etc/apt/sources.list.d/faultline-backports.list >/dev/null || exit 1
		apt update || exit 1
	fi
	if [ -n "$backports" ]; then
		# No more from there than QEMU needs: newer libraries would be in the way of other packages.
		apt install --no-install-recommends qemu-system-x86/$backports qemu-system-common/$backports \
			qemu-system-data/$backports seabios/$backports 2>/dev/null ||
			apt install --no-install-recommends -t $backports qemu-system-x86 || exit 1
	else
		apt install --no-install-recommends qemu-system-x86 || exit 1
	fi
	missing=$(printf '%s' "$missing" | sed 's/ qemu-system-x86//')
esac
[ -n "$missing" ] || exit 0
if [ -n "$backports" ] && new_qemu_offered; then
	apt install --no-install-recommends $missing 2>/dev/null ||
		apt install --no-install-recommends -t $backports $missing
else
	apt install --no-install-recommends $missing
fi
