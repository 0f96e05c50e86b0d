/* AT_HWCAP: what the CPU has and the kernel saves (Linux, arch/s390/include/asm/elf.h). */
#include <sys/auxv.h>

#include "cpu.h"
#include "features.h"

const struct cpu_feature cpu_feature_names[] = {{"vx", CPU_VX}, {"vxe", CPU_VXE}, {0, 0}};

uint64_t cpu_features(void)
{
    /* Without VX the registers are not saved, whatever else is said of them. */
    const uint64_t features = getauxval(AT_HWCAP) & (CPU_VX | CPU_VXE);
    return features & CPU_VX ? features : 0;
}
