/* Poly1305 in radix 2^26, for ISAs whose widest multiply is 32 by 32 bits. Over the n26 vocabulary (lanes/README.md); poly1305_turns.h
 * says how lanes and powers of r work together.
 *
 * A vector `n26` holds one limb of N26_HALVES * N26_LANES blocks; a multiply makes N26_LANES sums of 64 bits, `w26`, each over
 * N26_HALVES blocks.
 *
 * Bounds: limbs of r are at most 2^26 and its wrapped ones 5 * 2^26; a limb of message plus accumulator is below 2^27.1, or once in a
 * call, with what comes in, 2^30.1. A sum is at most 5 * 2^27.1 * 5 * 2^26 < 2^57.8 a block, and those of one turn are carried together in 64 bits. In limb 4,
 * where nothing is wrapped, that is under 5 * 2^27.1 * 2^26 < 2^55.5 a block, or once 2^56.5: up to ten blocks carry less than 2^32 to wrap.
 */
#include "../bytes.h"
#include "../poly1305.h"

#define LANES_HALVES N26_HALVES
#define LANES_LANES N26_LANES
#define LANES_UNROLL N26_UNROLL
_Static_assert(N26_UNROLL * N26_HALVES <= 10, "what wraps would pass 32 bits");

typedef n26 limb;
typedef unsigned __int128 uint128;
typedef w26 accumulator_limb, product;
enum { LIMBS = 5 };
enum { R0, R1, R2, R3, R4, S1, S2, S3, S4, FACTORS }; /* limbs of a power of r, and 5 times those that wrap */

#define MASK26 ((UINT64_C(1) << 26) - 1)

ALWAYS_INLINE void put_factors(limb *factors, int half, int lane, const uint64_t r[3])
{
    /* Sums, since limb 1 of r may be a little too large. Each is at most 2^26. */
    const uint64_t limbs[5] = {
        r[0] & MASK26, (r[0] >> 26) + ((r[1] << 18) & MASK26), (r[1] >> 8) & MASK26, (r[1] >> 34) + ((r[2] << 10) & MASK26), r[2] >> 16,
    };
    for (int i = 0; i < 5; i++)
        n26_put(factors + R0 + i, half, lane, (uint32_t)limbs[i]);
    for (int i = 1; i < 5; i++)
        n26_put(factors + S1 + i - 1, half, lane, (uint32_t)(5 * limbs[i]));
}

ALWAYS_INLINE void take_accumulator(accumulator_limb h[5], const uint64_t from[3])
{
    h[0] = w26_first(from[0] & MASK26);
    h[1] = w26_first((from[0] >> 26) & MASK26);
    h[2] = w26_first(((from[0] >> 52) | (from[1] << 12)) & MASK26);
    h[3] = w26_first((from[1] >> 14) & MASK26);
    h[4] = w26_first((from[1] >> 40) | (from[2] << 24));
}

ALWAYS_INLINE void give_accumulator(uint64_t to[3], const accumulator_limb h[5])
{
    uint64_t sum[5];
    w26_sum(sum, h);
    uint128 t = (uint128)sum[0] + ((uint128)sum[1] << 26) + ((uint128)sum[2] << 52);
    to[0] = (uint64_t)t;
    t = (t >> 64) + ((uint128)sum[3] << 14) + ((uint128)sum[4] << 40);
    to[1] = (uint64_t)t;
    to[2] = (uint64_t)(t >> 64);
}

ALWAYS_INLINE void load(limb m[5], const uint8_t *in) { n26_load(m, in); }
ALWAYS_INLINE limb join(limb m, accumulator_limb h) { return n26_join(m, h); }

/* d (+)= m * r, limb by limb. */
ALWAYS_INLINE void multiply_add(w26 d[5], const n26 m[5], const n26 r[FACTORS], int first)
{
#define MAC(to, a, b) d[to] = first && (a) == 0 ? n26_mul(m[a], r[b]) : n26_mac(d[to], m[a], r[b])
    MAC(0, 0, R0), MAC(1, 0, R1), MAC(2, 0, R2), MAC(3, 0, R3), MAC(4, 0, R4);
    MAC(0, 1, S4), MAC(1, 1, R0), MAC(2, 1, R1), MAC(3, 1, R2), MAC(4, 1, R3);
    MAC(0, 2, S3), MAC(1, 2, S4), MAC(2, 2, R0), MAC(3, 2, R1), MAC(4, 2, R2);
    MAC(0, 3, S2), MAC(1, 3, S3), MAC(2, 3, S4), MAC(3, 3, R0), MAC(4, 3, R1);
    MAC(0, 4, S1), MAC(1, 4, S2), MAC(2, 4, S3), MAC(3, 4, S4), MAC(4, 4, R0);
#undef MAC
}

ALWAYS_INLINE void carry(accumulator_limb h[5], w26 d[5])
{
#define CARRY(from, to) d[to] = w26_add(d[to], w26_shift26(d[from])), d[from] = w26_low26(d[from])
    CARRY(0, 1), CARRY(1, 2), CARRY(2, 3), CARRY(3, 4);
    d[0] = w26_wrap(d[0], w26_shift26(d[4])), d[4] = w26_low26(d[4]);
    CARRY(0, 1);
#undef CARRY
    UNROLL for (int i = 0; i < 5; i++) h[i] = d[i];
}

#include "poly1305_turns.h"
