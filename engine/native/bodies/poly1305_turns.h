/* Poly1305 on vectors, whatever the radix: included by poly1305_26.h and poly1305_44.h, which say what a limb is and how one turn goes.
 *
 * A vector holds LANES_HALVES * LANES_LANES blocks. Lane w of half s sums every block that falls to it; its half and vector say what
 * power of r it still needs, the same for every lane, so one multiply serves two halves and lanes meet only once, at the end, where the
 * last turn gives each lane its own power.
 */
enum { VECTOR_BLOCKS = LANES_HALVES * LANES_LANES, VECTOR_BYTES = VECTOR_BLOCKS * POLY1305_BLOCK };
_Static_assert((LANES_HALVES == 1 ? 1 : LANES_UNROLL) * VECTOR_BLOCKS <= POLY1305_POWERS_MAX, "raise POLY1305_POWERS_MAX");
_Static_assert(LANES_UNROLL * FACTORS * sizeof(limb) <= POLY1305_TABLE_MAX, "raise POLY1305_TABLE_MAX");

typedef const limb (*factors)[FACTORS];

/* h = (h + first) * r[count - 1] + ... + last * r[0], for `count` vectors of blocks with one carry. */
ALWAYS_INLINE void turn(accumulator_limb h[LIMBS], factors r, const uint8_t *in, int count)
{
    sum d[LIMBS];
    UNROLL for (int v = 0; v < count; v++) {
        limb m[LIMBS];
        load(m, in + (count - 1 - v) * VECTOR_BYTES);
        if (v == count - 1) { /* the accumulator joins the first vector, which is multiplied last: its chain is the long one */
            UNROLL for (int i = 0; i < LIMBS; i++) m[i] = join(m[i], h[i]);
        }
        multiply_add(d, m, r[v], v == 0);
    }
    carry(h, d);
}

/* Entry v of the table serves the vector that is v before a turn's last: lane w of half s there wants r^((v + 1) * VECTOR_BLOCKS -
   s * LANES_LANES - w) when it is the message's last turn. Lane 0's is what every lane wants before that. */
static void prepare(struct poly1305 *state, uint32_t vectors)
{
    if (state->vectors >= vectors)
        return;
    limb *table = (limb *)state->table;
    poly1305_powers(state, (LANES_HALVES == 1 ? 1 : vectors) * VECTOR_BLOCKS);
    for (uint32_t v = state->vectors; v < vectors; v++) {
        limb *entry = table + v * FACTORS;
        if (LANES_HALVES == 1 && v) { /* lanes multiply apart: the entry before times r^VECTOR_BLOCKS */
            limb each[FACTORS];
            sum d[LIMBS];
            UNROLL for (int i = 0; i < FACTORS; i++) each[i] = spread(table[i]);
            multiply_add(d, entry - FACTORS, each, 1);
            carry_factors(entry, d);
            continue;
        }
        for (int s = 0; s < LANES_HALVES; s++)
            UNROLL for (int w = 0; w < LANES_LANES; w++)
                put_factors(entry, s, w, state->power[(int)(v + 1) * VECTOR_BLOCKS - s * LANES_LANES - w - 1]);
    }
    state->vectors = vectors;
}

/* All `vectors` in turns of `count` after as many single ones as don't fill a turn; `count` is a constant. */
ALWAYS_INLINE void turns(struct poly1305 *state, const uint8_t *in, size_t vectors, int count)
{
    prepare(state, (uint32_t)count);
    /* Locals, since the compiler can't know that the input is not the table. */
    limb last[LANES_UNROLL][FACTORS], each[LANES_UNROLL][FACTORS];
    const limb *table = (const limb *)state->table;
    accumulator_limb h[LIMBS];
    take_accumulator(h, state->h);
    if (vectors > (size_t)count) {
        UNROLL for (int v = 0; v < count; v++) UNROLL for (int i = 0; i < FACTORS; i++) each[v][i] = spread(table[v * FACTORS + i]);
        for (size_t left = vectors % (size_t)count; left; left--, in += VECTOR_BYTES)
            turn(h, (factors)each, in, 1);
        for (size_t left = vectors / (size_t)count - 1; left; left--, in += count * VECTOR_BYTES)
            turn(h, (factors)each, in, count);
    }
    UNROLL for (int v = 0; v < count; v++) UNROLL for (int i = 0; i < FACTORS; i++) last[v][i] = table[v * FACTORS + i];
    turn(h, (factors)last, in, count);
    give_accumulator(state->h, h);
}

static void poly1305_vectors(struct poly1305 *state, const uint8_t *in, size_t vectors)
{
    if (vectors >= LANES_UNROLL && (state->vectors >= LANES_UNROLL || vectors >= LANES_WORTH_UNROLL))
        turns(state, in, vectors, LANES_UNROLL);
    else
        turns(state, in, vectors, 1);
}

#define KERNEL_POLY1305                                                                       \
    .poly1305_bytes = VECTOR_BYTES, .poly1305_worth = LANES_WORTH * VECTOR_BYTES, .poly1305_vectors = poly1305_vectors
