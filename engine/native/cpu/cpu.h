/* What this CPU and this operating system allow together. One file per architecture implements it. */
#ifndef SEALANE_CPU_H
#define SEALANE_CPU_H

#include <stdint.h>

/* A feature that kernels ask for, by the name the architecture gives it. */
struct cpu_feature {
    const char *name;
    uint64_t bit;
};

/* Ends with a NULL name. */
extern const struct cpu_feature cpu_feature_names[];

/* The bits of those that may be used. */
uint64_t cpu_features(void);

#endif
