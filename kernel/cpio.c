/*
 * newc archives, see cpio.h. A header is 110 characters: six of magic, then 13
 * numbers of eight hexadecimal digits. Name and data follow, each padded so that
 * the next thing starts at a multiple of four bytes.
 */
#include "kernel/cpio.h"

#include <asm/errno.h>

#include "kernel/bootinfo.h"
#include "kernel/string.h"

#define MAGIC_BYTES  6
#define HEADER_BYTES 110

enum field {
	INO, MODE, UID, GID, NLINK, MTIME, SIZE, DEV_MAJOR, DEV_MINOR, RDEV_MAJOR, RDEV_MINOR,
	NAME_SIZE, CHECKSUM, NR_FIELDS
};

void cpio_open(struct cpio_reader *reader, const void *data, size_t len)
{
	*reader = (struct cpio_reader){ .data = data, .len = len };
}

static int fail(struct cpio_reader *reader, const char *error)
{
	reader->error = error;
	return -EINVAL;
}

static int hex_digit(u8 c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int read_fields(const u8 *header, u32 fields[NR_FIELDS])
{
	const u8 *p = header + MAGIC_BYTES;

	for (int i = 0; i < NR_FIELDS; i++) {
		fields[i] = 0;
		for (int k = 0; k < 8; k++, p++) {
			int digit = hex_digit(*p);

			if (digit < 0)
				return -EINVAL;
			fields[i] = fields[i] << 4 | digit;
		}
	}
	return 0;
}

/* What the bytes at the header's place are, if not a newc header. */
static const char *name_problem(const u8 *p, size_t len)
{
	if (len >= MAGIC_BYTES && !memcmp(p, "070707", MAGIC_BYTES))
		return "old cpio format: make it with cpio -H newc";
	if (len >= 2 && (p[0] | p[1] << 8) == 0x71c7)
		return "binary cpio format: make it with cpio -H newc";
	if (len >= 4 && ((p[0] == 0x1f && p[1] == 0x8b) || !memcmp(p, "\xfd" "7zX", 4) ||
			 !memcmp(p, "BZh", 3) || !memcmp(p, "\x28\xb5\x2f\xfd", 4) ||
			 !memcmp(p, "\x02\x21\x4c\x18", 4) || !memcmp(p, "\x89LZO", 4)))
		return "compressed archive: give it uncompressed";
	return "no cpio header where one should be";
}

static bool has_dotdot(const char *name)
{
	for (const char *p = name; *p; p++) {
		if ((p == name || p[-1] == '/') && p[0] == '.' && p[1] == '.' &&
		    (p[2] == '/' || !p[2]))
			return true;
	}
	return false;
}

/* Cut leading "/" and "./" off; what is then empty is the root itself. */
static const char *make_relative(const char *name)
{
	for (;;) {
		if (name[0] == '/')
			name++;
		else if (name[0] == '.' && name[1] == '/')
			name += 2;
		else
			return *name ? name : ".";
	}
}

static u32 byte_sum(const u8 *p, size_t n)
{
	u32 sum = 0;

	while (n--)
		sum += *p++;
	return sum;
}

/* Behind a trailer: skip zero bytes up to the next archive. False at the end. */
static bool skip_padding(struct cpio_reader *reader)
{
	while (reader->pos < reader->len && !reader->data[reader->pos])
		reader->pos++;
	return reader->pos < reader->len;
}

/*
 * Read the one entry at reader->pos. Returns 1 and fills *entry; 0 if it was the
 * trailer or was refused; -EINVAL. Moves pos behind it unless it failed.
 */
static int read_entry(struct cpio_reader *reader, struct cpio_entry *entry)
{
	const u8 *header = reader->data + reader->pos;
	size_t left = reader->len - reader->pos;
	size_t data_at, next;
	u32 f[NR_FIELDS];
	const char *name;
	bool checked;

	if (left < MAGIC_BYTES || (memcmp(header, "070701", MAGIC_BYTES) &&
				   memcmp(header, "070702", MAGIC_BYTES)))
		return fail(reader, name_problem(header, left));
	checked = header[5] == '2';
	if (left < HEADER_BYTES)
		return fail(reader, "truncated in a header");
	if (read_fields(header, f))
		return fail(reader, "a header field is not hexadecimal");

	data_at = ALIGN_UP(HEADER_BYTES + (size_t)f[NAME_SIZE], 4);
	if (f[NAME_SIZE] > left - HEADER_BYTES || data_at > left)
		return fail(reader, "truncated in a name");
	if (f[SIZE] > left - data_at)
		return fail(reader, "truncated in a file's data");
	/* The very last padding may be missing. */
	next = reader->pos + MIN(ALIGN_UP(data_at + f[SIZE], 4), left);

	name = (const char *)header + HEADER_BYTES;
	if (f[NAME_SIZE] == 0 || f[NAME_SIZE] > CPIO_NAME_MAX) {
		boot_warn("initramfs: entry with a name of %u bytes left out", f[NAME_SIZE]);
		goto refuse;
	}
	if (name[f[NAME_SIZE] - 1])
		return fail(reader, "a name has no closing zero byte");
	if (!strcmp(name, "TRAILER!!!")) {
		reader->archive++;
		reader->pos = next;
		reader->in_archive = false;
		return 0;
	}
	if (has_dotdot(name)) {
		boot_warn("initramfs: \"%.60s\" left out: its name leaves the root", name);
		goto refuse;
	}
	if (checked && byte_sum(header + data_at, f[SIZE]) != f[CHECKSUM])
		return fail(reader, "bad data checksum");

	*entry = (struct cpio_entry){
		.name = make_relative(name),
		.mode = f[MODE],
		.uid = f[UID],
		.gid = f[GID],
		.nlink = f[NLINK],
		.ino = f[INO],
		.dev_major = f[DEV_MAJOR],
		.dev_minor = f[DEV_MINOR],
		.rdev_major = f[RDEV_MAJOR],
		.rdev_minor = f[RDEV_MINOR],
		.mtime = f[MTIME],
		.archive = reader->archive,
		.size = f[SIZE],
		.data = header + data_at,
	};
	reader->pos = next;
	return 1;

refuse:
	reader->refused++;
	reader->pos = next;
	return 0;
}

int cpio_next(struct cpio_reader *reader, struct cpio_entry *entry)
{
	if (reader->error)
		return -EINVAL;
	for (;;) {
		int got;

		if (!reader->in_archive) {
			if (!skip_padding(reader))
				return 0;
			if (reader->pos % 4)
				return fail(reader, "padding between archives is no multiple of four");
			reader->in_archive = true;
		} else if (reader->pos >= reader->len) {
			return fail(reader, "the archive ends without its trailer");
		}
		got = read_entry(reader, entry);
		if (got)
			return got;
	}
}
