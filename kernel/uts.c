/* The machine's own names, see uts.h. */
#include "kernel/uts.h"

#include "kernel/lock.h"
#include "kernel/string.h"

static spinlock_t uts_lock; /* guards names */
static char names[2][UTS_LEN] = { "faultline", "(none)" };

void uts_get(enum uts_name which, char *name)
{
	spin_lock(&uts_lock);
	memcpy(name, names[which], UTS_LEN);
	spin_unlock(&uts_lock);
}

void uts_set(enum uts_name which, const char *name)
{
	spin_lock(&uts_lock);
	str_copy(names[which], name, UTS_LEN);
	spin_unlock(&uts_lock);
}
