#!/bin/sh
# Pack the initramfs. usage: mkinitramfs.sh OUT.cpio BUILT_DIR EXTRA_DIR PROGRAM...
#
# Each PROGRAM lies in BUILT_DIR as it is to lie in the root. EXTRA_DIR's files
# (if the name is not empty) come on top. The same input always gives the same
# archive, byte for byte.
set -eu
out=$1 built=$2 extra=$3
shift 3
here=$(dirname "$0")
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

mkdir -p "$stage/bin" "$stage/tests" "$stage/etc" "$stage/dev" "$stage/proc" "$stage/sys" "$stage/root" "$stage/tmp"
chmod 1777 "$stage/tmp"
cp "$here/etc/passwd" "$here/etc/group" "$stage/etc/"

cp /bin/busybox "$stage/bin/busybox"
for applet in $(/bin/busybox --list); do
	case $applet in
		busybox|init|reboot|halt|poweroff|linuxrc) ;;
		*) ln -s busybox "$stage/bin/$applet" ;;
	esac
done

# Programs of the tree win over busybox's of the same name.
for program; do
	file=$stage/${program#"$built"/}
	rm -f "$file"
	strip -o "$file" "$program"
	chmod 755 "$file"
done

if [ -n "$extra" ]; then
	[ -d "$extra" ] || { echo "EXTRA=$extra is not a directory" >&2; exit 1; }
	cp -a "$extra/." "$stage/"
fi

find "$stage" -exec touch -h -d @0 {} +
(cd "$stage" && find . ! -name . | LC_ALL=C sort | cpio -o -H newc -R 0:0 --reproducible --quiet) >"$out.new"
mv "$out.new" "$out"
