/* The part of every vocabulary that the compilers' vector types express alike on every ISA. V_BYTES: a vector's size. */
#ifndef SEALANE_LANES_VECTOR_H
#define SEALANE_LANES_VECTOR_H

#include "../bytes.h"

typedef uint32_t v32 __attribute__((vector_size(V_BYTES), may_alias));
typedef uint64_t v64 __attribute__((vector_size(V_BYTES), may_alias));

enum { V32_PARTS = V_BYTES / 16 };

ALWAYS_INLINE v32 v32_add(v32 a, v32 b) { return a + b; }
ALWAYS_INLINE v32 v32_xor(v32 a, v32 b) { return a ^ b; }
ALWAYS_INLINE v32 v32_set1(uint32_t x) { return (v32){0} + x; }

ALWAYS_INLINE v32 v32_load(const uint8_t *p)
{
    v32 x;
    memcpy(&x, p, sizeof x);
    return x;
}

ALWAYS_INLINE void v32_store(uint8_t *p, v32 x) { memcpy(p, &x, sizeof x); }

/* 0, 1, 2, ... */
ALWAYS_INLINE v32 v32_iota(void)
{
    v32 x;
    UNROLL for (int i = 0; i < 4 * V32_PARTS; i++) x[i] = (uint32_t)i;
    return x;
}

/* first, 0, 0, 0, first + 1, 0, 0, 0, ... */
ALWAYS_INLINE v32 v32_row_iota(int first)
{
    v32 x = {0};
    UNROLL for (int i = 0; i < V32_PARTS; i++) x[4 * i] = (uint32_t)(first + i);
    return x;
}

ALWAYS_INLINE v64 v64_set1(uint64_t x) { return (v64){0} + x; }

#endif
