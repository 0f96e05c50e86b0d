/* The n26 vocabulary over 64-bit lanes that hold one limb each, for ISAs that multiply the low halves of 64-bit lanes. Wants from the ISA:
 * v64_mul32 (low 32 bits by low 32 bits), v64_zip_low and v64_zip_high (within 16-byte parts). */
#define N26_HALVES 1
#define N26_LANES (V_BYTES / 8)

typedef v64 n26;
typedef v64 w26;

/* Two loads, zipped: blocks 0, n/2, 1, n/2 + 1, ... */
ALWAYS_INLINE int wide26_place(int lane) { return lane < N26_LANES / 2 ? 2 * lane : 2 * lane - N26_LANES + 1; }

ALWAYS_INLINE void n26_put(n26 *x, int half, int lane, uint32_t limb)
{
    (void)half;
    const uint64_t wide = limb;
    memcpy((uint8_t *)x + 8 * wide26_place(lane), &wide, 8);
}

ALWAYS_INLINE void n26_load(n26 limb[5], const uint8_t *in)
{
    const v64 a = (v64)v32_load(in), b = (v64)v32_load(in + V_BYTES);
    const v64 low = v64_zip_low(a, b), high = v64_zip_high(a, b), mask = v64_set1((1 << 26) - 1);
    limb[0] = low & mask;
    limb[1] = (low >> 26) & mask;
    limb[2] = ((low >> 52) | (high << 12)) & mask;
    limb[3] = (high >> 14) & mask;
    limb[4] = (high >> 40) | v64_set1(1 << 24);
}

ALWAYS_INLINE n26 n26_join(n26 a, w26 b) { return a + b; }
ALWAYS_INLINE w26 n26_mul(n26 a, n26 b) { return v64_mul32(a, b); }
ALWAYS_INLINE w26 n26_mac(w26 sum, n26 a, n26 b) { return sum + v64_mul32(a, b); }
ALWAYS_INLINE w26 w26_first(uint64_t x) { return (w26){x}; }
ALWAYS_INLINE w26 w26_add(w26 a, w26 b) { return a + b; }
ALWAYS_INLINE w26 w26_shift26(w26 x) { return x >> 26; }
ALWAYS_INLINE w26 w26_wrap(w26 sum, w26 x) { return sum + v64_times5(x); }
ALWAYS_INLINE w26 w26_low26(w26 x) { return x & v64_set1((1 << 26) - 1); }

ALWAYS_INLINE void w26_sum(uint64_t sum[5], const w26 x[5])
{
    UNROLL for (int i = 0; i < 5; i++) {
        sum[i] = 0;
        UNROLL for (int lane = 0; lane < N26_LANES; lane++) sum[i] += x[i][lane];
    }
}
