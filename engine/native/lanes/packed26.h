/* The n26 vocabulary over 32-bit elements, for ISAs whose widening multiply takes either half of them. Wants from the ISA: n26_put, n26_load, n26_join, n26_mul and
 * n26_mac. */
#define N26_HALVES 2
#define N26_LANES 2

typedef v32 n26;
typedef v64 w26;

ALWAYS_INLINE w26 w26_add(w26 a, w26 b) { return a + b; }
ALWAYS_INLINE w26 w26_shift26(w26 x) { return x >> 26; }
ALWAYS_INLINE w26 w26_low26(w26 x) { return x & v64_set1((1 << 26) - 1); }
ALWAYS_INLINE w26 w26_first(uint64_t x) { return (w26){x}; }

ALWAYS_INLINE void w26_sum(uint64_t sum[5], const w26 x[5])
{
    UNROLL for (int i = 0; i < 5; i++) sum[i] = x[i][0] + x[i][1];
}
