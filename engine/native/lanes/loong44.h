/* The n44 vocabulary for LSX and LASX alike: 64 by 64 bits into sums of 128 (vmaddwev.q.du, vmaddwod.q.du). */
#include "../poly1305.h"

#define N44_HALVES 2
#define N44_LANES V32_PARTS

typedef v64 n44;
typedef v64 w44;

/* 64-bit elements: low half of lane 0, high half of lane 0, low half of lane 1, ... A sum narrowed to the low half leaves the high one 0. */
ALWAYS_INLINE void n44_put(n44 *x, int half, int lane, uint64_t limb) { memcpy((uint8_t *)x + 16 * lane + 8 * half, &limb, 8); }

/* Masks from where the compiler does not see them: clang takes an AND with a mask that it knows apart into scalar code. */
ALWAYS_INLINE v64 loong_mask_low(int limb)
{
    v64 mask = {0};
    UNROLL for (int lane = 0; lane < V32_PARTS; lane++) mask[2 * lane] = poly1305_masks44[limb];
    return mask;
}

ALWAYS_INLINE n44 n44_first(uint64_t x) { return (n44){x}; }
ALWAYS_INLINE n44 n44_add(n44 a, n44 b) { return a + b; }
ALWAYS_INLINE n44 n44_times5(n44 x) { return v64_times5(x); }
ALWAYS_INLINE n44 n44_shift44(n44 x) { return x >> 44; }
ALWAYS_INLINE n44 n44_low44(n44 x) { return x & v64_set1(poly1305_masks44[0]); }

/* A block is a 128-bit number, so that one narrowing shift of two vectors makes a limb of both. */
ALWAYS_INLINE void n44_load(n44 limb[3], const uint8_t *in)
{
    const v64 a = (v64)v32_load(in), b = (v64)v32_load(in + V_BYTES);
    limb[0] = n44_low44(loong_zip_low64(a, b));
    limb[1] = n44_low44(loong_shift128(b, a, 44));
    limb[2] = loong_bit_set(loong_shift128(b, a, 88), 40);
}

ALWAYS_INLINE w44 n44_mac(w44 sum, n44 a, n44 b) { return loong_mac_high(loong_mac_low(sum, a, b), a, b); }
ALWAYS_INLINE w44 n44_mul(n44 a, n44 b) { return loong_mac_high(loong_mul_low(a, b), a, b); }
ALWAYS_INLINE w44 w44_add(w44 sum, n44 x) { return loong_add128(sum, x); }
ALWAYS_INLINE n44 w44_shift44(w44 x) { return loong_shift128((v64){0}, x, 44); }
ALWAYS_INLINE n44 w44_shift42(w44 x) { return loong_shift128((v64){0}, x, 42); }
ALWAYS_INLINE n44 w44_low44(w44 x) { return x & loong_mask_low(0); }
ALWAYS_INLINE n44 w44_low42(w44 x) { return x & loong_mask_low(2); }

ALWAYS_INLINE void n44_sum(uint64_t sum[3], const n44 x[3])
{
    UNROLL for (int i = 0; i < 3; i++) {
        sum[i] = x[i][0];
        UNROLL for (int lane = 1; lane < N44_LANES; lane++) sum[i] += x[i][2 * lane];
    }
}
