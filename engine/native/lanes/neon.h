/* AArch64 Advanced SIMD: 16-byte vectors, little-endian. */
#include <arm_neon.h>

#define V_BYTES 16
#include "vector.h"

#define v32_rotl(x, n)                                                         \
    ((n) == 16  ? (v32)vrev32q_u16((uint16x8_t)(x))                            \
     : (n) == 8 ? (v32)vqtbl1q_u8((uint8x16_t)(x), neon_rotl8_order)           \
                : (v32)vsriq_n_u32(vshlq_n_u32((uint32x4_t)(x), (n)), (uint32x4_t)(x), 32 - (n)))

static const uint8x16_t neon_rotl8_order = {3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14};

/* Turns every part's words left by n: word i becomes what word i + n was. */
#define v32_row_rotate(x, n) ((v32)vextq_u32((uint32x4_t)(x), (uint32x4_t)(x), n))

ALWAYS_INLINE v32 v32_row_load(const uint32_t *p) { return v32_load((const uint8_t *)p); }
ALWAYS_INLINE v32 v32_to_le(v32 x) { return x; }
ALWAYS_INLINE void v32_blocks(v32 x[4]) { (void)x; }
ALWAYS_INLINE v32 v32_zip_low32_le(v32 a, v32 b) { return (v32)vzip1q_u32((uint32x4_t)a, (uint32x4_t)b); }
ALWAYS_INLINE v32 v32_zip_high32_le(v32 a, v32 b) { return (v32)vzip2q_u32((uint32x4_t)a, (uint32x4_t)b); }
ALWAYS_INLINE v32 v32_zip_low64(v32 a, v32 b) { return (v32)vzip1q_u64((uint64x2_t)a, (uint64x2_t)b); }
ALWAYS_INLINE v32 v32_zip_high64(v32 a, v32 b) { return (v32)vzip2q_u64((uint64x2_t)a, (uint64x2_t)b); }

/* The n26 vocabulary: UMLAL and UMLAL2 take the low and the high half of a vector. */
#include "packed26.h"

ALWAYS_INLINE void n26_put(n26 *x, int half, int lane, uint32_t limb) { memcpy((uint8_t *)x + 8 * half + 4 * lane, &limb, 4); }

/* The 26 bits that begin n bits into low and end in high. */
#define neon_join(low, n, high) \
    ((v32)vsliq_n_u32(vshrq_n_u32((uint32x4_t)(low), n), (uint32x4_t)(high), 32 - (n)) & v32_set1((1 << 26) - 1))

ALWAYS_INLINE void n26_load(n26 limb[5], const uint8_t *in)
{
    const uint32x4x4_t word = vld4q_u32((const uint32_t *)(const void *)in); /* word i of four blocks */
    limb[0] = (v32)word.val[0] & v32_set1((1 << 26) - 1);
    limb[1] = neon_join(word.val[0], 26, word.val[1]);
    limb[2] = neon_join(word.val[1], 20, word.val[2]);
    limb[3] = neon_join(word.val[2], 14, word.val[3]);
    limb[4] = ((v32)word.val[3] >> 8) | v32_set1(1 << 24);
}

ALWAYS_INLINE n26 n26_join(n26 m, w26 h)
{
    return m + (n26)vcombine_u32(vmovn_u64((uint64x2_t)h), vdup_n_u32(0));
}


ALWAYS_INLINE w26 w26_wrap(w26 sum, w26 x) { return sum + v64_times5(x); }

ALWAYS_INLINE w26 n26_mac(w26 sum, n26 a, n26 b)
{
    const uint64x2_t low = vmlal_u32((uint64x2_t)sum, vget_low_u32((uint32x4_t)a), vget_low_u32((uint32x4_t)b));
    return (w26)vmlal_high_u32(low, (uint32x4_t)a, (uint32x4_t)b);
}

ALWAYS_INLINE w26 n26_mul(n26 a, n26 b)
{
    const uint64x2_t low = vmull_u32(vget_low_u32((uint32x4_t)a), vget_low_u32((uint32x4_t)b));
    return (w26)vmlal_high_u32(low, (uint32x4_t)a, (uint32x4_t)b);
}
