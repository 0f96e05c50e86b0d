/* The n44 vocabulary over AVX-512 IFMA: 52 by 52 bits, low and high halves of the products summed apart. Goes with avx512.h. */
#define N44_HALVES 1
#define N44_LANES 8

typedef v64 n44;
typedef struct {
    v64 low, high; /* low + 2^52 * high */
} w44;

/* Two loads, zipped: blocks 0, 4, 1, 5, ... */
ALWAYS_INLINE void n44_put(n44 *x, int half, int lane, uint64_t limb)
{
    (void)half;
    memcpy((uint8_t *)x + 8 * (lane < 4 ? 2 * lane : 2 * lane - 7), &limb, 8);
}

ALWAYS_INLINE n44 n44_low44(n44 x) { return x & v64_set1((UINT64_C(1) << 44) - 1); }
ALWAYS_INLINE n44 n44_shift44(n44 x) { return x >> 44; }
ALWAYS_INLINE n44 n44_add(n44 a, n44 b) { return a + b; }
ALWAYS_INLINE n44 n44_times5(n44 x) { return v64_times5(x); }
ALWAYS_INLINE n44 n44_first(uint64_t x) { return (n44){x}; }

ALWAYS_INLINE void n44_load(n44 limb[3], const uint8_t *in)
{
    const v64 a = (v64)v32_load(in), b = (v64)v32_load(in + V_BYTES);
    const v64 low = v64_zip_low(a, b), high = v64_zip_high(a, b);
    limb[0] = n44_low44(low);
    limb[1] = n44_low44((low >> 44) | (high << 20));
    limb[2] = (high >> 24) | v64_set1(UINT64_C(1) << 40);
}

ALWAYS_INLINE w44 n44_mac(w44 sum, n44 a, n44 b)
{
    sum.low = (v64)_mm512_madd52lo_epu64((__m512i)sum.low, (__m512i)a, (__m512i)b);
    sum.high = (v64)_mm512_madd52hi_epu64((__m512i)sum.high, (__m512i)a, (__m512i)b);
    return sum;
}

ALWAYS_INLINE w44 n44_mul(n44 a, n44 b) { return n44_mac((w44){(v64){0}, (v64){0}}, a, b); }

ALWAYS_INLINE w44 w44_add(w44 sum, n44 x)
{
    sum.low += x;
    return sum;
}

ALWAYS_INLINE n44 w44_shift44(w44 x) { return (x.low >> 44) + (x.high << 8); }
ALWAYS_INLINE n44 w44_shift42(w44 x) { return (x.low >> 42) + (x.high << 10); }
ALWAYS_INLINE n44 w44_low44(w44 x) { return n44_low44(x.low); }
ALWAYS_INLINE n44 w44_low42(w44 x) { return x.low & v64_set1((UINT64_C(1) << 42) - 1); }

ALWAYS_INLINE void n44_sum(uint64_t sum[3], const n44 x[3])
{
    UNROLL for (int i = 0; i < 3; i++) sum[i] = (uint64_t)_mm512_reduce_add_epi64((__m512i)x[i]);
}
