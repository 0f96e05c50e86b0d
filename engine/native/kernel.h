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
    POLY1305_VECTOR_MAX = 128, /* bytes that any kernel absorbs as one vector: a power of 2, as each is */
    POLY1305_POWERS_MAX = 8,   /* as many powers of r as any kernel's vector has blocks */
    POLY1305_TABLE_MAX = 1728, /* bytes of its table of them */
    POLY1305_LANES_MAX = 320,  /* bytes of its lanes */
};

/* A Poly1305 computation between whole blocks (RFC 8439, section 2.5). */
struct poly1305 {
    uint64_t h[3];                          /* accumulator, radix 2^64, partly reduced: the top word is below 64. Unless spread is set: */
    uint32_t spread;                        /* then it is in `lanes`, as the kernel keeps it between calls */
    uint32_t turn;                          /* vectors that the table serves in one turn; 0 before there is one */
    uint32_t powers;                        /* how many of `power` are there */
    uint8_t pad[16];                        /* the key's second half, s */
    uint64_t power[POLY1305_POWERS_MAX][3]; /* r^1, r^2, ... in radix 2^44: limbs below 2^44, 2^44 + 2^12, 2^42 */
    _Alignas(64) uint8_t lanes[POLY1305_LANES_MAX];
    _Alignas(64) uint8_t table[POLY1305_TABLE_MAX];
};

struct poly1305_stream;

struct kernel {
    const char *name;

    /* One row of the state per vector, few blocks at once: short messages, key blocks and ends. Writes at least `size` bytes of keystream,
       rounded up to a multiple of `rows_step`; size is at most `rows_bytes`. The first block's counter is state[12], and those of the others
       follow it after a gap of `skip`. */
    size_t rows_step, rows_bytes;
    void (*chacha20_rows)(uint8_t *keystream, size_t size, const uint32_t state[16], uint32_t skip);

    /* HChaCha20 (draft-irtf-cfrg-xchacha-03, section 2.2): state[12..15] hold the nonce; 32 bytes out. */
    void (*hchacha20)(uint8_t subkey[32], const uint32_t state[16]);

    /* One word of the state per vector, a block per lane: bulk. XORs `passes` times `columns_bytes`; out may be in. 0 and NULL
       where a kernel has none. */
    size_t columns_bytes;
    void (*chacha20_columns)(uint8_t *out, const uint8_t *in, size_t passes, const uint32_t state[16]);

    /* Absorbs `vectors` times `poly1305_bytes` of whole blocks, with powers of r as it needs them, and leaves the sum spread over lanes;
       poly1305_fold brings it back to state->h. 0 and NULL where a kernel has none. Below `poly1305_worth` bytes computing those powers
       costs more than it saves. */
    size_t poly1305_bytes;
    size_t poly1305_worth;
    void (*poly1305_vectors)(struct poly1305 *state, const uint8_t *in, size_t vectors);
    void (*poly1305_fold)(struct poly1305 *state);

    /* poly1305_stream_write (poly1305.h), with copies of small writes in this ISA's registers. */
    void (*poly1305_write)(struct poly1305_stream *stream, const uint8_t *in, size_t size);

    /* Clears what this kernel's functions left on the stack below their caller, who calls it last: little where no more than rows and
       single blocks ran, else `most`. */
    void (*wipe_stack)(int most);
};

#endif
