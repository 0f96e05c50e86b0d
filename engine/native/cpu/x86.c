/* CPUID, and XCR0 for the registers that the operating system saves (Intel SDM volume 1, sections 14.3 and 15.2). */
#include "features.h"

#include <cpuid.h>

#include "cpu.h"

const struct cpu_feature cpu_feature_names[] = {
    {"sse2", CPU_SSE2},
    {"avx2", CPU_AVX2},
    {"avx512", CPU_AVX512},
    {"avx512ifma", CPU_AVX512_IFMA},
    {0, 0},
};

static uint64_t xcr0(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return ((uint64_t)high << 32) | low;
}

uint64_t cpu_features(void)
{
    uint64_t features = CPU_SSE2; /* x86-64's baseline */
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return features;
    const uint64_t saved = xcr0(), avx = 0x06, avx512 = 0xe6;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return features;
    if ((saved & avx) == avx && (b & bit_AVX2))
        features |= CPU_AVX2;
    const uint32_t wanted = bit_AVX512F | bit_AVX512VL | bit_AVX512BW | bit_AVX512DQ;
    if ((saved & avx512) == avx512 && (b & wanted) == wanted) {
        features |= CPU_AVX512;
        if (b & bit_AVX512IFMA)
            features |= CPU_AVX512_IFMA;
    }
    return features;
}
