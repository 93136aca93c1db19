/*
 * Included before kernel/string.c on the host, where the standard names belong
 * to libc and its sanitizer: the kernel's versions are called k_memcpy and so on.
 */
#define memcpy  k_memcpy
#define memmove k_memmove
#define memset  k_memset
#define memcmp  k_memcmp
#define strlen  k_strlen
#define strnlen k_strnlen
#define strcmp  k_strcmp
#define strncmp k_strncmp
#define strchr  k_strchr
#define strrchr k_strrchr
