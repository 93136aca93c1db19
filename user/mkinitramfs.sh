#!/bin/sh
# Pack the initramfs. usage: mkinitramfs.sh OUT.cpio BUILT_PROGRAMS_DIR [EXTRA_DIR]
#
# BUILT_PROGRAMS_DIR holds init, bin/, tests/. EXTRA_DIR's files come on top, as
# they lie there. The same input always gives the same archive, byte for byte.
set -eu
out=$1 programs=$2 extra=${3-}
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
(cd "$programs" && find . -type f ! -name '*.d') | while read -r file; do
	rm -f "$stage/$file"
	strip -o "$stage/$file" "$programs/$file"
	chmod 755 "$stage/$file"
done

if [ -n "$extra" ]; then
	[ -d "$extra" ] || { echo "EXTRA=$extra is not a directory" >&2; exit 1; }
	cp -a "$extra/." "$stage/"
fi

find "$stage" -exec touch -h -d @0 {} +
(cd "$stage" && find . ! -name . | LC_ALL=C sort | cpio -o -H newc -R 0:0 --reproducible --quiet) >"$out.new"
mv "$out.new" "$out"
