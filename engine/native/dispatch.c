#include "dispatch.h"

#include <string.h>

#include "cpu/cpu.h"
#include "cpu/features.h"

/* Best first. A row stands where this build has the kernel; `wants` are the features it needs. */
#define ROW(name, wants) extern const struct kernel kernel_##name;
#include "kernels.inc"
#undef ROW

static const struct {
    const struct kernel *kernel;
    uint64_t wants;
} table[] = {
#define ROW(name, wants) {&kernel_##name, wants},
#include "kernels.inc"
#undef ROW
};

enum { COUNT = sizeof table / sizeof *table };

const struct kernel *const *kernels_usable(void)
{
    static const struct kernel *usable[COUNT + 1];
    if (!usable[0]) { /* written from the end, and the same by all who get here at once */
        const uint64_t features = cpu_features();
        const struct kernel *found[COUNT];
        int count = 0;
        for (int i = 0; i < COUNT; i++)
            if ((table[i].wants & features) == table[i].wants)
                found[count++] = table[i].kernel;
        while (count--)
            usable[count] = found[count];
    }
    return usable;
}

const struct kernel *kernel_find(const char *name)
{
    for (const struct kernel *const *kernel = kernels_usable(); *kernel; kernel++)
        if (!strcmp((*kernel)->name, name))
            return *kernel;
    return 0;
}
