/* Input: u32 KB by which the file is longer than the head, then the head. */
#include <errno.h>

#include "kernel/elf.h"
#include "kernel/unaligned.h"
#include "tests/fuzz/fuzz.h"

static void check_image(const struct elf_image *image, u64 file_size)
{
	MUST(image->nr_segments >= 1 && image->nr_segments <= ELF_MAX_SEGMENTS);
	MUST(image->load_start < image->load_end && image->load_end <= ELF_USER_LIMIT);
	MUST(image->entry < ELF_USER_LIMIT);
	MUST(image->align >= 4096 && !(image->align & (image->align - 1)));
	for (u32 i = 0; i < image->nr_segments; i++) {
		const struct elf_segment *s = &image->segments[i];

		MUST(s->memsz > 0 && s->filesz <= s->memsz);
		MUST(s->vaddr >= image->load_start && s->vaddr + s->memsz <= image->load_end);
		MUST(!s->filesz || (s->vaddr - s->offset) % 4096 == 0);
		MUST((s64)(s->offset + s->filesz) >= 0);
	}
	if (image->phdr_vaddr) {
		MUST(image->phdr_vaddr >= image->load_start);
		MUST(image->phdr_vaddr + image->phnum * image->phentsize <= image->load_end);
	}
	if (image->has_interp) {
		MUST(image->interp_len >= 2 && image->interp_len <= ELF_MAX_INTERP);
		MUST(image->interp_offset + image->interp_len <= file_size);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct elf_image image;
	u64 file_size;
	long got;

	if (size < 4)
		return 0;
	file_size = size - 4 + get_u32(data) * KB;
	got = elf_parse(data + 4, size - 4, file_size, &image);
	if (got > 0)
		MUST((u64)got > size - 4 && (u64)got <= file_size && got <= ELF_MAX_HEAD);
	else
		MUST(got == 0 || got == -ENOEXEC || got == -EINVAL);
	if (got == 0)
		check_image(&image, file_size);
	return 0;
}
