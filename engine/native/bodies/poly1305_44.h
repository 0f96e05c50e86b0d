/* Poly1305 in radix 2^44, for ISAs that multiply 64 by 64 bits (or 52 by 52) and sum to 128. Over the n44 vocabulary
 * (lanes/README.md); poly1305_turns.h says how lanes and powers of r work together.
 *
 * A vector `n44` holds one limb of N44_HALVES * N44_LANES blocks; a multiply makes N44_LANES sums, `w44`, each over N44_HALVES blocks.
 *
 * Bounds: limbs of r are below 2^44, 2^44 + 2^12 and 2^42 and its wrapped ones 20 times that, below 2^48.4 (IFMA reads 52 bits of an operand,
 * VMSL 56); a limb of message plus accumulator is below 2^45.1, or once in a call, with what comes in, 2^46.1. A sum is at most
 * 3 * 2^46.1 * 2^48.4 < 2^96.1 a block, so that eight of them, above 2^42, still fit 64 bits with room to multiply by 5.
 */
#include "../bytes.h"
#include "../poly1305.h"

#define LANES_HALVES N44_HALVES
#define LANES_LANES N44_LANES
#define LANES_UNROLL N44_UNROLL
_Static_assert(N44_UNROLL * N44_HALVES <= 8, "5 times the carry would pass 2^60");

typedef n44 limb;
typedef n44 accumulator_limb;
typedef w44 product;
enum { LIMBS = 3 };
enum { R0, R1, R2, S1, S2, FACTORS }; /* limbs of a power of r, and 20 times those that wrap */

ALWAYS_INLINE void put_factors(limb *factors, int half, int lane, const uint64_t r[3])
{
    for (int i = 0; i < 3; i++)
        n44_put(factors + R0 + i, half, lane, r[i]);
    for (int i = 1; i < 3; i++)
        n44_put(factors + S1 + i - 1, half, lane, 20 * r[i]);
}

#define MASK44 ((UINT64_C(1) << 44) - 1)

ALWAYS_INLINE void take_accumulator(accumulator_limb h[3], const uint64_t from[3])
{
    h[0] = n44_first(from[0] & MASK44);
    h[1] = n44_first(((from[0] >> 44) | (from[1] << 20)) & MASK44);
    h[2] = n44_first((from[1] >> 24) | (from[2] << 40));
}

ALWAYS_INLINE void give_accumulator(uint64_t to[3], const accumulator_limb h[3])
{
    uint64_t sum[3];
    n44_sum(sum, h);
    sum[1] += sum[0] >> 44;
    sum[2] += sum[1] >> 44;
    to[0] = (sum[0] & MASK44) | (sum[1] << 44);
    to[1] = ((sum[1] & MASK44) >> 20) | (sum[2] << 24);
    to[2] = sum[2] >> 40;
}

ALWAYS_INLINE void load(limb m[3], const uint8_t *in) { n44_load(m, in); }
ALWAYS_INLINE limb join(limb m, accumulator_limb h) { return n44_add(m, h); }

/* d (+)= m * r, limb by limb. */
ALWAYS_INLINE void multiply_add(w44 d[3], const n44 m[3], const n44 r[FACTORS], int first)
{
#define MAC(to, a, b) d[to] = first && (a) == 0 ? n44_mul(m[a], r[b]) : n44_mac(d[to], m[a], r[b])
    MAC(0, 0, R0), MAC(1, 0, R1), MAC(2, 0, R2);
    MAC(0, 1, S2), MAC(1, 1, R0), MAC(2, 1, R1);
    MAC(0, 2, S1), MAC(1, 2, S2), MAC(2, 2, R0);
#undef MAC
}

ALWAYS_INLINE void carry(accumulator_limb h[3], w44 d[3])
{
    d[1] = w44_add(d[1], w44_shift44(d[0]));
    d[2] = w44_add(d[2], w44_shift44(d[1]));
    const n44 h0 = n44_add(w44_low44(d[0]), n44_times5(w44_shift42(d[2])));
    h[0] = n44_low44(h0);
    h[1] = n44_add(w44_low44(d[1]), n44_shift44(h0));
    h[2] = w44_low42(d[2]);
}

#include "poly1305_turns.h"
