/* syslog(2): the kernel's log, as dmesg reads it. */
#include "arch/x86_64/uaccess.h"
#include "kernel/printk.h"
#include "kernel/syscall.h"
#include "mm/slab.h"

#include <asm/errno.h>

enum { LOG_CLOSE, LOG_OPEN, LOG_READ, LOG_READ_ALL, LOG_READ_CLEAR, LOG_CLEAR, LOG_CONSOLE_OFF,
       LOG_CONSOLE_ON, LOG_CONSOLE_LEVEL, LOG_SIZE_UNREAD, LOG_SIZE_BUFFER };

#define LOG_MAX (1UL << 17)

/* Single words; the worst that a race does is a line shown twice. */
static u64 read_pos, clear_pos;

/* What is in the log from *pos on, the last n bytes of it if it does not fit. */
static long copy_log(u64 *pos, vaddr_t ubuf, size_t n, bool newest)
{
	size_t len, total = 0;
	u64 end = printk_ring_end();
	char *buf;

	if (newest && end > *pos + n)
		*pos = end - n;
	buf = kmalloc(4096);
	if (!buf)
		return -ENOMEM;
	while (total < n && (len = printk_ring_read(pos, buf, MIN(4096, n - total)))) {
		if (copy_to_user(ubuf + total, buf, len)) {
			kfree(buf);
			return -EFAULT;
		}
		total += len;
	}
	kfree(buf);
	return (long)total;
}

long sys_syslog(u64 type, u64 ubuf, u64 ulen)
{
	s32 len = (s32)ulen;
	u64 pos;
	long ret;

	switch ((u32)type) {
	case LOG_CLOSE:
	case LOG_OPEN:
	case LOG_CONSOLE_OFF:
	case LOG_CONSOLE_ON:
		return 0;
	case LOG_CONSOLE_LEVEL:
		return len >= 1 && len <= 8 ? 0 : -EINVAL;
	case LOG_READ:
		if (!ubuf || len < 0)
			return -EINVAL;
		return len ? copy_log(&read_pos, ubuf, (size_t)len, false) : 0;
	case LOG_READ_ALL:
	case LOG_READ_CLEAR:
		if (!ubuf || len < 0)
			return -EINVAL;
		pos = clear_pos;
		ret = len ? copy_log(&pos, ubuf, (size_t)len, true) : 0;
		if (type == LOG_READ_CLEAR && ret >= 0)
			clear_pos = pos;
		return ret;
	case LOG_CLEAR:
		clear_pos = printk_ring_end();
		return 0;
	case LOG_SIZE_UNREAD:
		return (long)(printk_ring_end() - read_pos);
	case LOG_SIZE_BUFFER:
		return LOG_MAX;
	}
	return -EINVAL;
}
