/* AT_HWCAP: what the CPU has and the kernel saves (Linux, arch/loongarch/include/uapi/asm/hwcap.h). */
#include <sys/auxv.h>

#include "cpu.h"
#include "features.h"

const struct cpu_feature cpu_feature_names[] = {{"lsx", CPU_LSX}, {"lasx", CPU_LASX}, {0, 0}};

uint64_t cpu_features(void)
{
    return getauxval(AT_HWCAP) & (CPU_LSX | CPU_LASX);
}
