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
#elif defined(__loongarch64) /* from here on AT_HWCAP's own bits */
enum {
    CPU_LSX = 1 << 4,
    CPU_LASX = 1 << 5,
};
#elif defined(__s390x__)
enum {
    CPU_VX = 1 << 11,
    CPU_VXE = 1 << 13,
};
#elif defined(__aarch64__)
enum {
    CPU_ASIMD = 1 << 1,
};
#endif

#endif
