/*
 * Formatted output, see printf.h. One pass over the format; each conversion is
 * read into a `struct spec`, then padded and written by one of two functions:
 * numbers by put_number(), texts by put_text().
 */
#include "kernel/printf.h"

#include "kernel/string.h"

struct sink {
	char *buf;
	size_t size; /* of buf */
	size_t len;  /* of the text so far, may exceed size */
};

struct spec {
	bool left, zero, space, plus, alt;
	int width;
	int precision; /* -1: none given */
	int size;      /* of an integer argument, bytes */
};

static void put(struct sink *out, char c)
{
	if (out->len + 1 < out->size)
		out->buf[out->len] = c;
	out->len++;
}

static void pad(struct sink *out, char c, long n)
{
	while (n-- > 0)
		put(out, c);
}

static void put_text(struct sink *out, const struct spec *spec, const char *s, size_t len)
{
	long fill = (long)spec->width - (long)len;

	if (!spec->left)
		pad(out, ' ', fill);
	for (size_t i = 0; i < len; i++)
		put(out, s[i]);
	if (spec->left)
		pad(out, ' ', fill);
}

/* prefix: the sign or "0x", written before the zeros. */
static void put_number(struct sink *out, const struct spec *spec, u64 value, unsigned base,
		       bool upper, const char *prefix)
{
	const char *digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
	char text[24]; /* 22 octal digits hold 64 bits */
	int n = 0;
	long zeros, fill;

	for (u64 v = value; v; v /= base)
		text[n++] = digits[v % base];
	if (!value && spec->precision != 0)
		text[n++] = '0';

	zeros = spec->precision - n;
	if (base == 8 && spec->alt && zeros <= 0 && (n == 0 || text[n - 1] != '0'))
		zeros = 1;
	zeros = MAX(zeros, 0L);
	fill = (long)spec->width - (long)strlen(prefix) - zeros - n;
	if (spec->zero && !spec->left && spec->precision < 0 && fill > 0) {
		zeros += fill;
		fill = 0;
	}

	if (!spec->left)
		pad(out, ' ', fill);
	while (*prefix)
		put(out, *prefix++);
	pad(out, '0', zeros);
	while (n)
		put(out, text[--n]);
	if (spec->left)
		pad(out, ' ', fill);
}

/* A decimal number in the format; saturates instead of overflowing. */
static int read_int(const char **fmt)
{
	int n = 0;

	for (; **fmt >= '0' && **fmt <= '9'; ++*fmt)
		n = n < 100000 ? n * 10 + (**fmt - '0') : n;
	return n;
}

static void read_flags(struct spec *spec, const char **fmt)
{
	for (;; ++*fmt) {
		switch (**fmt) {
		case '-': spec->left = true; break;
		case '0': spec->zero = true; break;
		case ' ': spec->space = true; break;
		case '+': spec->plus = true; break;
		case '#': spec->alt = true; break;
		default: return;
		}
	}
}

static int read_size(const char **fmt)
{
	switch (**fmt) {
	case 'h':
		++*fmt;
		if (**fmt != 'h')
			return sizeof(short);
		++*fmt;
		return sizeof(char);
	case 'l':
		++*fmt;
		if (**fmt == 'l')
			++*fmt;
		return sizeof(long);
	case 'z':
	case 't':
	case 'j':
		++*fmt;
		return sizeof(long);
	}
	return sizeof(int);
}

/* Cut an argument to the size that the format gives it. */
static u64 to_unsigned(u64 v, int size)
{
	return size == 8 ? v : v & ((1ull << (8 * size)) - 1);
}

static s64 to_signed(u64 v, int size)
{
	int shift = 64 - 8 * size;

	return (s64)(v << shift) >> shift;
}

static void put_signed(struct sink *out, const struct spec *spec, s64 value)
{
	const char *sign = value < 0 ? "-" : spec->plus ? "+" : spec->space ? " " : "";

	put_number(out, spec, value < 0 ? -(u64)value : (u64)value, 10, false, sign);
}

int kvsnprintf(char *buf, size_t size, const char *fmt, va_list args)
{
	struct sink out = { buf, size, 0 };

	while (*fmt) {
		const char *start = fmt;
		struct spec spec = { .precision = -1 };
		u64 value;

		if (*fmt != '%') {
			put(&out, *fmt++);
			continue;
		}
		fmt++;
		read_flags(&spec, &fmt);
		if (*fmt == '*') {
			fmt++;
			spec.width = va_arg(args, int);
			if (spec.width < 0) {
				spec.left = true;
				spec.width = -(s64)spec.width;
			}
		} else {
			spec.width = read_int(&fmt);
		}
		if (*fmt == '.') {
			fmt++;
			if (*fmt == '*') {
				fmt++;
				spec.precision = va_arg(args, int);
				if (spec.precision < 0) /* as if none were given */
					spec.precision = -1;
			} else {
				spec.precision = read_int(&fmt);
			}
		}
		spec.size = read_size(&fmt);

		switch (*fmt) {
		case 'd':
		case 'i':
		case 'u':
		case 'x':
		case 'X':
		case 'o':
			value = spec.size == 8 ? va_arg(args, u64) : va_arg(args, unsigned int);
			break;
		default:
			value = 0;
		}

		switch (*fmt) {
		case 'd':
		case 'i':
			put_signed(&out, &spec, to_signed(value, spec.size));
			break;
		case 'u':
			put_number(&out, &spec, to_unsigned(value, spec.size), 10, false, "");
			break;
		case 'o':
			put_number(&out, &spec, to_unsigned(value, spec.size), 8, false, "");
			break;
		case 'x':
		case 'X': {
			bool upper = *fmt == 'X';

			value = to_unsigned(value, spec.size);
			put_number(&out, &spec, value, 16, upper,
				   !spec.alt || !value ? "" : upper ? "0X" : "0x");
			break;
		}
		case 'p':
			put_number(&out, &spec, (u64)va_arg(args, void *), 16, false, "0x");
			break;
		case 'c': {
			char c = va_arg(args, int);

			put_text(&out, &spec, &c, 1);
			break;
		}
		case 's': {
			const char *s = va_arg(args, const char *);
			size_t max = spec.precision < 0 ? SIZE_MAX : (size_t)spec.precision;

			if (!s)
				s = "(null)";
			put_text(&out, &spec, s, strnlen(s, max));
			break;
		}
		case '%':
			put(&out, '%');
			break;
		default: /* unknown: as it stands, without eating the closing zero */
			while (start < fmt)
				put(&out, *start++);
			continue;
		}
		fmt++;
	}

	if (size)
		buf[MIN(out.len, size - 1)] = 0;
	return (int)MIN(out.len, (size_t)INT32_MAX);
}

int ksnprintf(char *buf, size_t size, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = kvsnprintf(buf, size, fmt, args);
	va_end(args);
	return n;
}

int kscnprintf(char *buf, size_t size, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = kvsnprintf(buf, size, fmt, args);
	va_end(args);
	return size ? MIN(n, (int)size - 1) : 0;
}
