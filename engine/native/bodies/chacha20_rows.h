/* ChaCha20 with a row of the state per vector: few blocks at once, at the price of one.
 *
 * Each 128-bit part of a vector belongs to one block; up to ROWS_SETS (1 to 4) vectors of each row are worked on at once, to
 * fill the time that one waits for itself. Over the v32 vocabulary (lanes/README.md). RFC 8439, section 2.3; draft-irtf-cfrg-xchacha-03, section 2.2.
 */
#include "../bytes.h"

ALWAYS_INLINE void rows_quarter_rounds(v32 *a, v32 *b, v32 *c, v32 *d, int sets)
{
    UNROLL for (int i = 0; i < sets; i++) a[i] = v32_add(a[i], b[i]), d[i] = v32_rotl(v32_xor(d[i], a[i]), 16);
    UNROLL for (int i = 0; i < sets; i++) c[i] = v32_add(c[i], d[i]), b[i] = v32_rotl(v32_xor(b[i], c[i]), 12);
    UNROLL for (int i = 0; i < sets; i++) a[i] = v32_add(a[i], b[i]), d[i] = v32_rotl(v32_xor(d[i], a[i]), 8);
    UNROLL for (int i = 0; i < sets; i++) c[i] = v32_add(c[i], d[i]), b[i] = v32_rotl(v32_xor(b[i], c[i]), 7);
}

ALWAYS_INLINE void rows_twenty_rounds(v32 *a, v32 *b, v32 *c, v32 *d, int sets)
{
    for (int round = 0; round < 10; round++) {
        rows_quarter_rounds(a, b, c, d, sets);
        UNROLL for (int i = 0; i < sets; i++) /* diagonals become columns */
            b[i] = v32_row_rotate(b[i], 1), c[i] = v32_row_rotate(c[i], 2), d[i] = v32_row_rotate(d[i], 3);
        rows_quarter_rounds(a, b, c, d, sets);
        UNROLL for (int i = 0; i < sets; i++)
            b[i] = v32_row_rotate(b[i], 3), c[i] = v32_row_rotate(c[i], 2), d[i] = v32_row_rotate(d[i], 1);
    }
}

ALWAYS_INLINE void rows_pass(uint8_t *keystream, const uint32_t state[16], uint32_t skip, int sets)
{
    const v32 row0 = v32_row_load(state), row1 = v32_row_load(state + 4), row2 = v32_row_load(state + 8);
    v32 a[4], b[4], c[4], d[4], row3[4];
    UNROLL for (int i = 0; i < sets; i++) {
        row3[i] = v32_add(v32_row_load(state + 12), v32_row_counters(i * V32_PARTS, skip));
        a[i] = row0, b[i] = row1, c[i] = row2, d[i] = row3[i];
    }
    rows_twenty_rounds(a, b, c, d, sets);
    UNROLL for (int i = 0; i < sets; i++) {
        v32 block[4] = {
            v32_to_le(v32_add(a[i], row0)),
            v32_to_le(v32_add(b[i], row1)),
            v32_to_le(v32_add(c[i], row2)),
            v32_to_le(v32_add(d[i], row3[i])),
        };
        v32_blocks(block);
        UNROLL for (int j = 0; j < 4; j++) v32_store(keystream + (size_t)(4 * i + j) * sizeof(v32), block[j]);
    }
}

/* As many sets as the size needs, each count unrolled by itself. */
static void chacha20_rows(uint8_t *keystream, size_t size, const uint32_t state[16], uint32_t skip)
{
    enum { STEP = V32_PARTS * CHACHA20_BLOCK };
    if (ROWS_SETS == 1 || size <= STEP)
        rows_pass(keystream, state, skip, 1);
    else if (ROWS_SETS == 2 || size <= 2 * STEP)
        rows_pass(keystream, state, skip, 2);
    else if (ROWS_SETS == 3 || size <= 3 * STEP)
        rows_pass(keystream, state, skip, 3);
    else
        rows_pass(keystream, state, skip, 4);
}

static void hchacha20_rows(uint8_t subkey[32], const uint32_t state[16])
{
    v32 a = v32_row_load(state), b = v32_row_load(state + 4), c = v32_row_load(state + 8), d = v32_row_load(state + 12);
    uint8_t out[2][sizeof(v32)];
    rows_twenty_rounds(&a, &b, &c, &d, 1);
    v32_store(out[0], v32_to_le(a));
    v32_store(out[1], v32_to_le(d));
    memcpy(subkey, out[0], 16);
    memcpy(subkey + 16, out[1], 16);
    wipe(out, sizeof out);
}

#define KERNEL_ROWS                                                                                            \
    .rows_step = V32_PARTS * CHACHA20_BLOCK, .rows_bytes = ROWS_SETS * V32_PARTS * CHACHA20_BLOCK,        \
    .chacha20_rows = chacha20_rows, .hchacha20 = hchacha20_rows, KERNEL_WIPE
#include "wipe_stack.h"
_Static_assert(ROWS_SETS * V32_PARTS * CHACHA20_BLOCK <= CHACHA20_ROWS_MAX, "raise CHACHA20_ROWS_MAX");
