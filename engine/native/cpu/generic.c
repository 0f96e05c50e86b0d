/* An architecture without vector kernels of ours. */
#include "cpu.h"

const struct cpu_feature cpu_feature_names[] = {{0, 0}};

uint64_t cpu_features(void)
{
    return 0;
}
