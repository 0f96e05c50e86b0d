/* The part of every vocabulary that the compilers' vector types express alike on every ISA. V_BYTES: a vector's size. */
#ifndef SEALANE_LANES_VECTOR_H
#define SEALANE_LANES_VECTOR_H

#include "../bytes.h"

typedef uint32_t v32 __attribute__((vector_size(V_BYTES), may_alias));
typedef uint64_t v64 __attribute__((vector_size(V_BYTES), may_alias));

enum { V32_PARTS = V_BYTES / 16 };

ALWAYS_INLINE v32 v32_add(v32 a, v32 b) { return a + b; }
ALWAYS_INLINE v32 v32_set1(uint32_t x) { return (v32){0} + x; }

/* An ISA whose compilers take these apart into scalar code brings its own. */
#ifndef V32_OWN
ALWAYS_INLINE v32 v32_xor(v32 a, v32 b) { return a ^ b; }

ALWAYS_INLINE v32 v32_load(const uint8_t *p)
{
    v32 x;
    memcpy(&x, p, sizeof x);
    return x;
}

ALWAYS_INLINE void v32_store(uint8_t *p, v32 x) { memcpy(p, &x, sizeof x); }
ALWAYS_INLINE v32 v32_spread(const uint32_t *p) { return v32_set1(*p); }
#endif

/* 0, 1, 2, ... */
ALWAYS_INLINE v32 v32_iota(void)
{
    v32 x;
    UNROLL for (int i = 0; i < 4 * V32_PARTS; i++) x[i] = (uint32_t)i;
    return x;
}

/* What the counter of each part's block adds: blocks from `first` on, of which all but block 0 are `skip` further. */
ALWAYS_INLINE v32 v32_row_counters(int first, uint32_t skip)
{
    v32 x = {0};
    UNROLL for (int i = 0; i < V32_PARTS; i++) x[4 * i] = first + i ? (uint32_t)(first + i) + skip : 0;
    return x;
}

ALWAYS_INLINE v64 v64_set1(uint64_t x) { return (v64){0} + x; }

/* Hides from the compiler what a vector holds: clang knows multiples better than its back end for s390x does, and would multiply by 5 one
   element at a time. */
ALWAYS_INLINE v64 v64_opaque(v64 x)
{
#if defined(__s390x__)
    __asm__("" : "+v"(x));
#elif defined(__loongarch__)
    __asm__("" : "+f"(x));
#endif
    return x;
}

ALWAYS_INLINE v64 v64_times5(v64 x) { return x + v64_opaque(x << 2); }

#endif
