/* The n26 vocabulary for the vector facility: VMALO and VMALE. The low half of a lane is its odd word, so that a sum that fits 32 bits
 * stands there as it is. */
/* The 26 bits that begin n bits into low and end in high. VERIM: the high word's rotated into place over the low word's. */
#define vx_join(low, n, high) \
    ((v32)__builtin_s390_verimf((vx32)((low) >> (n)), (vx32)(high), (vx32)v32_set1((1 << 26) - (1 << (32 - (n)))), 32 - (n)))
#include "packed26.h"

ALWAYS_INLINE void n26_put(n26 *x, int half, int lane, uint32_t limb) { memcpy((uint8_t *)x + 8 * lane + 4 * (1 - half), &limb, 4); }

ALWAYS_INLINE void n26_load(n26 limb[5], const uint8_t *in)
{
    const v32 b0 = v32_load(in), b1 = v32_load(in + 16), b2 = v32_load(in + 32), b3 = v32_load(in + 48);
    const v32 even01 = v32_zip_low32_le(b2, b0), even23 = v32_zip_high32_le(b2, b0);
    const v32 odd01 = v32_zip_low32_le(b3, b1), odd23 = v32_zip_high32_le(b3, b1);
    const v32 word[4] = {
        v32_zip_low64(even01, odd01), v32_zip_high64(even01, odd01), v32_zip_low64(even23, odd23), v32_zip_high64(even23, odd23),
    };
    limb[0] = word[0] & v32_set1((1 << 26) - 1);
    limb[1] = vx_join(word[0], 26, word[1]);
    limb[2] = vx_join(word[1], 20, word[2]);
    limb[3] = vx_join(word[2], 14, word[3]);
    limb[4] = (word[3] >> 8) | v32_set1(1 << 24);
}

ALWAYS_INLINE n26 n26_join(n26 m, w26 h) { return m + (n26)h; }
ALWAYS_INLINE w26 n26_mac(w26 sum, n26 a, n26 b)
{
    return (w26)vec_meadd((vx32)a, (vx32)b, vec_moadd((vx32)a, (vx32)b, (vx64)sum));
}
ALWAYS_INLINE w26 n26_mul(n26 a, n26 b) { return (w26)vec_meadd((vx32)a, (vx32)b, vec_mulo((vx32)a, (vx32)b)); }

/* What wraps is below 2^32, so that one multiply of low words does it. */
ALWAYS_INLINE w26 w26_wrap(w26 sum, w26 x) { return (w26)vec_moadd((vx32)x, (vx32)v32_set1(5), (vx64)sum); }
