/* ChaCha20 with a word of the state per vector and a block per lane: as many blocks in flight as a vector has 32-bit lanes.
 *
 * Over the v32 vocabulary (lanes/README.md). RFC 8439, section 2.3.
 */
#include "../bytes.h"

enum { COLUMNS_BYTES = 4 * V32_PARTS * CHACHA20_BLOCK };


/* COLUMNS_TOGETHER quarter-rounds at once, step by step, so that none waits for itself: four where registers hold sixteen words and what
   turning them takes, fewer where they would spill. */
ALWAYS_INLINE void columns_quarter_rounds(v32 x[16], int b, int c, int d)
{
#define EACH UNROLL for (int i = first; i < first + COLUMNS_TOGETHER; i++)
#define STEP(to, from, turned, n)              \
    EACH x[to] = v32_add(x[to], x[from]);      \
    EACH x[turned] = v32_rotl(v32_xor(x[turned], x[to]), n);
#define A (i)
#define B (4 + (i + b) % 4)
#define C (8 + (i + c) % 4)
#define D (12 + (i + d) % 4)
    UNROLL for (int first = 0; first < 4; first += COLUMNS_TOGETHER) {
        STEP(A, B, D, 16)
        STEP(C, D, B, 12)
        STEP(A, B, D, 8)
        STEP(C, D, B, 7)
    }
#undef EACH
#undef STEP
#undef A
#undef B
#undef C
#undef D
}

/* Four words of every block, as the bytes that go out: lane k of x[i] is word i of block k; afterwards part m of x[i] holds the four
   words of block 4m + i. */
ALWAYS_INLINE void columns_transpose(v32 x[4])
{
    const v32 low01 = v32_zip_low32_le(x[0], x[1]), high01 = v32_zip_high32_le(x[0], x[1]);
    const v32 low23 = v32_zip_low32_le(x[2], x[3]), high23 = v32_zip_high32_le(x[2], x[3]);
    x[0] = v32_zip_low64(low01, low23), x[1] = v32_zip_high64(low01, low23);
    x[2] = v32_zip_low64(high01, high23), x[3] = v32_zip_high64(high01, high23);
}

static void chacha20_columns(uint8_t *out, const uint8_t *in, size_t passes, const uint32_t state[16])
{
    /* Locals, since the compiler can't know that the output is not the state: with them it takes the first quarter-rounds that do not
       meet the counter out of the loop. */
    v32 initial[16];
    UNROLL for (int i = 0; i < 16; i++) initial[i] = v32_spread(state + i);
    initial[12] = v32_add(initial[12], v32_iota());
    for (; passes; passes--, out += COLUMNS_BYTES, in += COLUMNS_BYTES) {
        v32 x[16];
        UNROLL for (int i = 0; i < 16; i++) x[i] = initial[i];
        COLUMNS_ROUNDS for (int round = 0; round < 10; round++) {
            columns_quarter_rounds(x, 0, 0, 0);
            columns_quarter_rounds(x, 1, 2, 3);
        }
        UNROLL for (int i = 0; i < 16; i++) x[i] = v32_add(x[i], initial[i]);
        initial[12] = v32_add(initial[12], v32_set1(4 * V32_PARTS));
        UNROLL for (int i = 0; i < 4; i++) columns_transpose(x + 4 * i);
        UNROLL for (int i = 0; i < 4; i++) { /* block i of every part */
            v32 block[4] = {x[i], x[4 + i], x[8 + i], x[12 + i]};
            v32_blocks(block);
            UNROLL for (int j = 0; j < 4; j++) {
                const size_t part = (size_t)j * V32_PARTS / 4, within = (size_t)j * sizeof(v32) % CHACHA20_BLOCK;
                const size_t at = (4 * part + (size_t)i) * CHACHA20_BLOCK + within;
                v32_store(out + at, v32_xor(block[j], v32_load(in + at)));
            }
        }
    }
}

#define KERNEL_COLUMNS .columns_bytes = COLUMNS_BYTES, .chacha20_columns = chacha20_columns
_Static_assert((int)COLUMNS_BYTES <= (int)CHACHA20_COLUMNS_MAX, "raise CHACHA20_COLUMNS_MAX");
