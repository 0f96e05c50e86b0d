/* The bits of cpu_features() on the architecture compiled for. */
#ifndef SEALANE_CPU_FEATURES_H
#define SEALANE_CPU_FEATURES_H

#if defined(__x86_64__)
enum {
    CPU_SSE2 = 1 << 0,
    CPU_AVX2 = 1 << 1,
    CPU_AVX512 = 1 << 2, /* F, VL, BW and DQ */
    CPU_AVX512_IFMA = 1 << 3,
};
#endif

#endif
