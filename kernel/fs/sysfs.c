#include "kernel/vfs.h"
void sysfs_init(void) {}
