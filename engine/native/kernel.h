/* What one ISA's kernel exports; everything else in the engine is written over this struct. */
#ifndef SEALANE_KERNEL_H
#define SEALANE_KERNEL_H

#include <stddef.h>
#include <stdint.h>

enum {
    CHACHA20_BLOCK = 64,
    CHACHA20_ROWS_MAX = 8 * CHACHA20_BLOCK,     /* the most that any kernel's rows pass makes */
    CHACHA20_COLUMNS_MAX = 16 * CHACHA20_BLOCK, /* the most that any kernel's columns pass takes */
    POLY1305_BLOCK = 16,
    POLY1305_POWERS_MAX = 16,  /* powers of r that any kernel multiplies by */
    POLY1305_TABLE_MAX = 1152, /* bytes of its table of them */
};

/* A Poly1305 computation between whole blocks (RFC 8439, section 2.5). */
struct poly1305 {
    uint64_t h[3];                            /* accumulator, radix 2^64, partly reduced: the top word is below 64 */
    uint64_t power[POLY1305_POWERS_MAX][3];   /* r^1, r^2, ... in radix 2^44, limbs below 2^44, 2^44 + 2^12, 2^42 */
    uint8_t pad[16];                          /* the key's second half, s */
    uint32_t powers;                          /* how many of them are there */
    uint32_t vectors;                         /* how many vectors of `table` are filled */
    _Alignas(64) uint8_t table[POLY1305_TABLE_MAX]; /* the same powers as the kernel's multiply wants them */
};

struct kernel {
    const char *name;

    /* One row of the state per vector, few blocks at once: short messages, key blocks and ends. Writes keystream for the counter in
       state[12] and those after it: `rows_few_bytes`, or `rows_bytes` where `size` is more. */
    size_t rows_few_bytes, rows_bytes;
    void (*chacha20_rows)(uint8_t *keystream, size_t size, const uint32_t state[16]);

    /* HChaCha20 (draft-irtf-cfrg-xchacha-03, section 2.2): state[12..15] hold the nonce; 32 bytes out. */
    void (*hchacha20)(uint8_t subkey[32], const uint32_t state[16]);

    /* One word of the state per vector, a block per lane: bulk. XORs `passes` times `columns_bytes`; out may be in. 0 and NULL
       where a kernel has none. */
    size_t columns_bytes;
    void (*chacha20_columns)(uint8_t *out, const uint8_t *in, size_t passes, const uint32_t state[16]);

    /* Absorbs `vectors` times `poly1305_bytes` of whole blocks, with powers of r as it needs them. 0 and NULL where a kernel has
       none. Below `poly1305_worth` bytes computing those powers costs more than it saves. */
    size_t poly1305_bytes;
    size_t poly1305_worth;
    void (*poly1305_vectors)(struct poly1305 *state, const uint8_t *in, size_t vectors);
};

#endif
