/* What uname(2) tells: names that programs compare. */
#ifndef KERNEL_UTS_H
#define KERNEL_UTS_H

#define UTS_SYSNAME "Linux" /* whose system-call ABI this is */
#define UTS_RELEASE "6.12.0-faultline"
#define UTS_VERSION "#1 SMP Faultline"
#define UTS_MACHINE "x86_64"

#define UTS_LEN 65 /* zero byte included */

enum uts_name { UTS_NODENAME, UTS_DOMAINNAME };

/* The two names that can be changed: sethostname(2), setdomainname(2). name[UTS_LEN]. */
void uts_get(enum uts_name which, char *name);
void uts_set(enum uts_name which, const char *name);

#endif
