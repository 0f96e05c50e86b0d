/* The rows part of the v32 vocabulary in plain C: a vector is one part of four words. */
#ifndef SEALANE_LANES_SCALAR_H
#define SEALANE_LANES_SCALAR_H

#include "../bytes.h"

typedef struct {
    uint32_t word[4];
} v32;

enum { V32_PARTS = 1 };

#define EACH(expression)                                                     \
    v32 x;                                                                   \
    UNROLL for (int i = 0; i < 4; i++) x.word[i] = (uint32_t)(expression);   \
    return x

ALWAYS_INLINE v32 v32_add(v32 a, v32 b) { EACH(a.word[i] + b.word[i]); }
ALWAYS_INLINE v32 v32_xor(v32 a, v32 b) { EACH(a.word[i] ^ b.word[i]); }
ALWAYS_INLINE v32 v32_rotl(v32 a, int n) { EACH((a.word[i] << n) | (a.word[i] >> (32 - n))); }
ALWAYS_INLINE v32 v32_row_load(const uint32_t *p) { EACH(p[i]); }
ALWAYS_INLINE v32 v32_row_rotate(v32 a, int n) { EACH(a.word[(i + n) % 4]); }
ALWAYS_INLINE v32 v32_row_counters(int first, uint32_t skip) { EACH(i || !first ? 0 : (uint32_t)first + skip); }
ALWAYS_INLINE v32 v32_to_le(v32 a) { return a; }
ALWAYS_INLINE void v32_blocks(v32 x[4]) { (void)x; }

ALWAYS_INLINE void v32_store(uint8_t *p, v32 x)
{
    UNROLL for (int i = 0; i < 4; i++) store32_le(p + 4 * i, x.word[i]);
}

#undef EACH
#endif
