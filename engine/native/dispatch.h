/* Which kernels this build has and this machine can run. */
#ifndef SEALANE_DISPATCH_H
#define SEALANE_DISPATCH_H

#include "kernel.h"

/* Usable kernels, best first, ended by NULL; the last one is always `scalar`. */
const struct kernel *const *kernels_usable(void);

/* A usable kernel by name, or NULL. */
const struct kernel *kernel_find(const char *name);

#endif
