/* Poly1305 in radix 2^44, for ISAs that multiply 64 by 64 bits (or 52 by 52) and sum to 128. Over the n44 vocabulary
 * (lanes/README.md); poly1305_turns.h says how lanes and powers of r work together.
 *
 * A vector `n44` holds one limb of N44_HALVES * N44_LANES blocks; a multiply makes N44_LANES sums, `w44`, each over N44_HALVES blocks.
 *
 * Bounds: limbs of r are at most 2^44, 2^44 and 2^42 and its wrapped ones 20 times that, below 2^48.4 (IFMA reads 52 bits of an operand,
 * VMSL 56); a limb of message plus accumulator is below 2^45.1. A sum is at most 3 * 2^45.1 * 2^48.4 < 2^95.1 a block, so that sixteen of
 * them, above 2^42, still fit 64 bits with room to multiply by 5.
 */
#include "../bytes.h"
#include "../poly1305.h"

#define LANES_HALVES N44_HALVES
#define LANES_LANES N44_LANES
#define LANES_UNROLL N44_UNROLL
_Static_assert(N44_UNROLL * N44_HALVES <= 16, "carries would pass 2^61.4");

typedef n44 limb;
typedef n44 accumulator_limb;
enum { ACCUMULATOR_LIMBS = 3 };
enum { R0, R1, R2, S1, S2, FACTORS }; /* limbs of a power of r, and 20 times those that wrap */

ALWAYS_INLINE void put_factors(limb *factors, int half, int lane, const uint64_t r[3])
{
    for (int i = 0; i < 3; i++)
        n44_put(factors + R0 + i, half, lane, r[i]);
    for (int i = 1; i < 3; i++)
        n44_put(factors + S1 + i - 1, half, lane, 20 * r[i]);
}

ALWAYS_INLINE limb spread(limb x) { return n44_spread(x); }

ALWAYS_INLINE void take_accumulator(accumulator_limb h[3], const uint64_t from[3])
{
    UNROLL for (int i = 0; i < 3; i++) h[i] = n44_first(from[i]);
}

ALWAYS_INLINE void give_accumulator(uint64_t to[3], const accumulator_limb h[3])
{
    n44_sum(to, h);
    const uint64_t mask44 = (UINT64_C(1) << 44) - 1;
    to[1] += to[0] >> 44;
    to[0] &= mask44;
    to[2] += to[1] >> 44;
    to[1] &= mask44;
}

/* h = (h + first) * r[count - 1] + ... + last * r[0], for `count` vectors of blocks with one carry. */
ALWAYS_INLINE void turn(accumulator_limb h[3], const limb (*r)[FACTORS], const uint8_t *in, int count)
{
    w44 d[3];
    UNROLL for (int v = 0; v < count; v++) {
        n44 m[3];
        n44_load(m, in + (size_t)(count - 1 - v) * N44_HALVES * N44_LANES * POLY1305_BLOCK);
        if (v == count - 1) { /* the accumulator joins the first vector, which is multiplied last: its chain is the long one */
            UNROLL for (int i = 0; i < 3; i++) m[i] = n44_add(m[i], h[i]);
        }
#define MAC(to, a, b) d[to] = (v == 0 && (a) == 0) ? n44_mul(m[a], r[v][b]) : n44_mac(d[to], m[a], r[v][b])
        MAC(0, 0, R0), MAC(1, 0, R1), MAC(2, 0, R2);
        MAC(0, 1, S2), MAC(1, 1, R0), MAC(2, 1, R1);
        MAC(0, 2, S1), MAC(1, 2, S2), MAC(2, 2, R0);
#undef MAC
    }
    d[1] = w44_add(d[1], w44_shift44(d[0]));
    d[2] = w44_add(d[2], w44_shift44(d[1]));
    const n44 h0 = n44_add(w44_low44(d[0]), n44_times5(w44_shift42(d[2])));
    h[0] = n44_low44(h0);
    h[1] = n44_add(w44_low44(d[1]), n44_shift44(h0));
    h[2] = w44_low42(d[2]);
}

#include "poly1305_turns.h"
