/* The n26 vocabulary over 32-bit elements, for ISAs whose widening multiply takes either half of them: what one vector of four blocks'
 * words makes of limbs. */
#define N26_HALVES 2
#define N26_LANES 2

typedef v32 n26;
typedef v64 w26;

ALWAYS_INLINE void packed26_split(n26 limb[5], const v32 word[4])
{
    const v32 mask = v32_set1((1 << 26) - 1);
    limb[0] = word[0] & mask;
    limb[1] = packed26_join(word[0], 26, word[1]) & mask;
    limb[2] = packed26_join(word[1], 20, word[2]) & mask;
    limb[3] = packed26_join(word[2], 14, word[3]) & mask;
    limb[4] = (word[3] >> 8) | v32_set1(1 << 24);
}

ALWAYS_INLINE w26 w26_add(w26 a, w26 b) { return a + b; }
ALWAYS_INLINE w26 w26_shift26(w26 x) { return x >> 26; }
ALWAYS_INLINE w26 w26_low26(w26 x) { return x & v64_set1((1 << 26) - 1); }
ALWAYS_INLINE w26 w26_times5(w26 x) { return x + (x << 2); }
ALWAYS_INLINE w26 w26_first(uint64_t x) { return (w26){x}; }

ALWAYS_INLINE void w26_sum(uint64_t sum[5], const w26 x[5])
{
    UNROLL for (int i = 0; i < 5; i++) sum[i] = x[i][0] + x[i][1];
}
