/* Poly1305 on vectors, whatever the radix: included by poly1305_26.h and poly1305_44.h, which say what a limb is and how it multiplies.
 *
 * A vector holds LANES_HALVES * LANES_LANES blocks. Lane w of half s sums every block that falls to it; its half says what power of r it
 * still needs, the same for every lane, so one multiply serves two halves and lanes meet only in the fold, where each gets its own power.
 *
 * Between turns, and between calls, the sum is a vector that has been loaded and joined by what came before but not yet multiplied: what
 * it is to be multiplied by depends on whether more comes.
 */
enum { VECTOR_BLOCKS = LANES_HALVES * LANES_LANES, VECTOR_BYTES = VECTOR_BLOCKS * POLY1305_BLOCK };
_Static_assert((int)VECTOR_BYTES <= (int)POLY1305_VECTOR_MAX && POLY1305_VECTOR_MAX % VECTOR_BYTES == 0, "see POLY1305_VECTOR_MAX");
_Static_assert((int)VECTOR_BLOCKS <= (int)POLY1305_POWERS_MAX, "raise POLY1305_POWERS_MAX");

/* The powers of r by which vectors are multiplied. */
struct table {
    limb last[FACTORS];               /* in the fold: lane w of half s wants r^(VECTOR_BLOCKS - s * LANES_LANES - w) */
    limb each[LANES_UNROLL][FACTORS]; /* v vectors before a turn's last: every lane of half s wants r^((v + 1) * VECTOR_BLOCKS - s * LANES_LANES) */
};
_Static_assert(sizeof(struct table) <= POLY1305_TABLE_MAX, "raise POLY1305_TABLE_MAX");
_Static_assert(LIMBS * sizeof(limb) <= POLY1305_LANES_MAX, "raise POLY1305_LANES_MAX");

/* Makes the table serve turns of `count` vectors. */
static void prepare(struct poly1305 *state, uint32_t count)
{
    struct table *table = (struct table *)state->table;
    poly1305_powers(state, VECTOR_BLOCKS);
    const uint64_t *whole = state->power[VECTOR_BLOCKS - 1];
    for (int s = 0; s < LANES_HALVES; s++) {
        uint64_t power[3];
        memcpy(power, state->power[VECTOR_BLOCKS - s * LANES_LANES - 1], sizeof power);
        for (uint32_t v = 0; v < count; v++) {
            if (v)
                poly1305_multiply(power, power, whole);
            UNROLL for (int w = 0; w < LANES_LANES; w++) put_factors(table->each[v], s, w, power);
        }
        UNROLL for (int w = 0; w < LANES_LANES; w++)
            put_factors(table->last, s, w, state->power[VECTOR_BLOCKS - s * LANES_LANES - w - 1]);
        wipe(power, sizeof power);
    }
    state->turn = count;
}

/* sum = sum * r[count - 1] + first * r[count - 2] + ... and joins the last of `count` vectors to that, with one carry. */
ALWAYS_INLINE void turn(limb sum[LIMBS], const limb (*r)[FACTORS], const uint8_t *in, int count)
{
    product d[LIMBS];
    limb m[LIMBS];
    accumulator_limb h[LIMBS];
    UNROLL for (int v = 0; v < count - 1; v++) { /* what does not wait for the sum comes first */
        load(m, in + (count - 2 - v) * VECTOR_BYTES);
        multiply_add(d, m, r[v], v == 0);
    }
    multiply_add(d, sum, r[count - 1], count == 1);
    carry(h, d);
    load(m, in + (count - 1) * VECTOR_BYTES);
    UNROLL for (int i = 0; i < LIMBS; i++) sum[i] = join(m[i], h[i]);
}

/* Turns of `count` after as many single ones as don't fill a turn. */
ALWAYS_INLINE void turns(struct poly1305 *state, const uint8_t *in, size_t vectors, int count)
{
    /* Locals, since the compiler can't know that the input is not the table. */
    limb sum[LIMBS], each[LANES_UNROLL][FACTORS];
    const struct table *table = (const struct table *)state->table;
    limb *lanes = (limb *)state->lanes;
    if (state->spread) {
        UNROLL for (int i = 0; i < LIMBS; i++) sum[i] = lanes[i];
    } else {
        accumulator_limb h[LIMBS];
        take_accumulator(h, state->h);
        load(sum, in);
        UNROLL for (int i = 0; i < LIMBS; i++) sum[i] = join(sum[i], h[i]);
        in += VECTOR_BYTES;
        vectors--;
        state->spread = 1;
    }
    UNROLL for (int v = 0; v < count; v++) UNROLL for (int i = 0; i < FACTORS; i++) each[v][i] = table->each[v][i];
    for (size_t left = vectors % (size_t)count; left; left--, in += VECTOR_BYTES)
        turn(sum, (const limb(*)[FACTORS])each, in, 1);
    for (size_t left = vectors / (size_t)count; left; left--, in += count * VECTOR_BYTES)
        turn(sum, (const limb(*)[FACTORS])each, in, count);
    UNROLL for (int i = 0; i < LIMBS; i++) lanes[i] = sum[i];
}

static void poly1305_vectors(struct poly1305 *state, const uint8_t *in, size_t vectors)
{
    if (state->turn < LANES_UNROLL) {
        if (vectors < LANES_WORTH_UNROLL) {
            if (!state->turn)
                prepare(state, 1);
            turns(state, in, vectors, 1);
            return;
        }
        prepare(state, LANES_UNROLL);
    }
    turns(state, in, vectors, LANES_UNROLL);
}

static void poly1305_fold(struct poly1305 *state)
{
    const struct table *table = (const struct table *)state->table;
    product d[LIMBS];
    accumulator_limb h[LIMBS];
    multiply_add(d, (const limb *)state->lanes, table->last, 1);
    carry(h, d);
    give_accumulator(state->h, h);
    state->spread = 0;
}

#define KERNEL_POLY1305                                                                                                      \
    .poly1305_bytes = VECTOR_BYTES, .poly1305_worth = LANES_WORTH * VECTOR_BYTES, .poly1305_vectors = poly1305_vectors, \
    .poly1305_fold = poly1305_fold, KERNEL_WRITE

#include "poly1305_write.h"
