/* The n44 vocabulary for vector enhancements facility 1 (z14): VMSL multiplies two pairs of 56 bits and sums both products to 128. The
 * low half is the right element, where a narrowed sum stands. Sums are below 2^104, so that a byte shift leaves them in 64 bits. */
#define N44_HALVES 2
#define N44_LANES 1

typedef v64 n44;
typedef v64 w44;

ALWAYS_INLINE void n44_put(n44 *x, int half, int lane, uint64_t limb)
{
    (void)lane;
    memcpy((uint8_t *)x + 8 * (1 - half), &limb, 8);
}

ALWAYS_INLINE n44 n44_first(uint64_t x) { return (n44){0, x}; }
ALWAYS_INLINE n44 n44_add(n44 a, n44 b) { return a + b; }
ALWAYS_INLINE n44 n44_times5(n44 x) { return v64_times5(x); }
ALWAYS_INLINE n44 n44_shift44(n44 x) { return x >> 44; }
ALWAYS_INLINE n44 n44_low44(n44 x) { return x & v64_set1((UINT64_C(1) << 44) - 1); }

ALWAYS_INLINE void n44_load(n44 limb[3], const uint8_t *in)
{
    const vx8 a = (vx8)v32_load(in), b = (vx8)v32_load(in + 16);
    const vx8 lows = {23, 22, 21, 20, 19, 18, 17, 16, 7, 6, 5, 4, 3, 2, 1, 0};
    const vx8 highs = {31, 30, 29, 28, 27, 26, 25, 24, 15, 14, 13, 12, 11, 10, 9, 8};
    const v64 low = (v64)vec_perm(a, b, lows), high = (v64)vec_perm(a, b, highs);
    limb[0] = n44_low44(low);
    /* VERIM: the high word's bits rotated into place over the low word's. */
    limb[1] = (v64)__builtin_s390_verimg((vx64)(low >> 44), (vx64)high, (vx64)v64_set1(((UINT64_C(1) << 24) - 1) << 20), 20);
    limb[2] = (high >> 24) | v64_set1(UINT64_C(1) << 40);
}

ALWAYS_INLINE w44 n44_mac(w44 sum, n44 a, n44 b) { return (w44)vec_msum_u128((vx64)a, (vx64)b, (vx8)sum, 0); }
ALWAYS_INLINE w44 n44_mul(n44 a, n44 b) { return n44_mac((w44){0, 0}, a, b); }
ALWAYS_INLINE w44 w44_add(w44 sum, n44 x) { return (w44)vec_add_u128((vx8)sum, (vx8)x); }
ALWAYS_INLINE v64 vxe_shift40(w44 x) { return (v64)vec_sld((vx8){0}, (vx8)x, 11); }
ALWAYS_INLINE n44 w44_shift44(w44 x) { return vxe_shift40(x) >> 4; }
ALWAYS_INLINE n44 w44_shift42(w44 x) { return vxe_shift40(x) >> 2; }
ALWAYS_INLINE n44 w44_low44(w44 x) { return x & (v64){0, (UINT64_C(1) << 44) - 1}; }
ALWAYS_INLINE n44 w44_low42(w44 x) { return x & (v64){0, (UINT64_C(1) << 42) - 1}; }

ALWAYS_INLINE void n44_sum(uint64_t sum[3], const n44 x[3])
{
    UNROLL for (int i = 0; i < 3; i++) sum[i] = x[i][1];
}
