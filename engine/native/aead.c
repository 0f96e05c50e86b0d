#include "aead.h"

#include "bytes.h"

enum { SLICE = 64 * 1024 }; /* encrypted and absorbed while it is in cache; a multiple of every pass */

/* One message under way. */
struct aead {
    const struct kernel *kernel;
    uint32_t state[16];
    size_t ready; /* bytes of keystream */
    struct poly1305 mac;
    _Alignas(64) uint8_t keystream[CHACHA20_ROWS_MAX]; /* the first pass: block 0 is the one-time key, and the rest serves the message */
};

static void begin(struct aead *aead, const struct kernel *kernel, const uint8_t key[CHACHA20_KEY], const uint8_t *nonce,
                  size_t nonce_size, size_t size)
{
    aead->kernel = kernel;
    if (nonce_size == XCHACHA20_NONCE)
        xchacha20_state(kernel, aead->state, key, 0, nonce);
    else
        chacha20_state(aead->state, key, 0, nonce);
    /* One larger pass where that is all; else the small one, since what follows goes in columns anyway. */
    const size_t all = CHACHA20_BLOCK + size;
    aead->ready = all > kernel->rows_few_bytes && all <= kernel->rows_bytes ? kernel->rows_bytes : kernel->rows_few_bytes;
    kernel->chacha20_rows(aead->keystream, aead->ready, aead->state);
    poly1305_init(&aead->mac, aead->keystream);
}

static void end(struct aead *aead)
{
    poly1305_wipe(&aead->mac);
    wipe(aead->state, sizeof aead->state);
    wipe(aead->keystream, aead->ready);
}

static void absorb_aad(struct aead *aead, const struct aead_aad *aad)
{
    const uint8_t *second = aad->piece[1];
    size_t left = aad->size[1];
    const size_t rest = aad->size[0] % POLY1305_BLOCK, whole = aad->size[0] - rest;
    if (whole)
        poly1305_blocks(aead->kernel, &aead->mac, aad->piece[0], whole);
    if (rest) { /* the block in which the pieces meet */
        uint8_t block[POLY1305_BLOCK] = {0};
        const size_t room = POLY1305_BLOCK - rest, take = left < room ? left : room;
        memcpy(block, aad->piece[0] + whole, rest);
        if (take)
            memcpy(block + rest, second, take);
        poly1305_padded(aead->kernel, &aead->mac, block, POLY1305_BLOCK);
        second += take;
        left -= take;
    }
    if (left)
        poly1305_padded(aead->kernel, &aead->mac, second, left);
}

static void finish(struct aead *aead, const struct aead_aad *aad, size_t size, uint8_t tag[AEAD_TAG])
{
    uint8_t lengths[POLY1305_BLOCK];
    store64_le(lengths, (uint64_t)aad->size[0] + aad->size[1]);
    store64_le(lengths + 8, size);
    poly1305_padded(aead->kernel, &aead->mac, lengths, sizeof lengths);
    poly1305_finish(aead->kernel, &aead->mac, NULL, 0, tag);
}

/* XORs the beginning with what is left of the first pass, unless the message comes out even in columns without that. Returns its length,
   a multiple of 64 unless it is all. */
static size_t encrypt_beginning(struct aead *aead, uint8_t *out, const uint8_t *in, size_t size)
{
    const size_t columns = aead->kernel->columns_bytes, left = aead->ready - CHACHA20_BLOCK;
    const size_t take = columns && size && size % columns == 0 ? 0 : size < left ? size : left;
    if (take)
        chacha20_xor_bytes(out, in, aead->keystream + CHACHA20_BLOCK, take);
    aead->state[12] = 1 + (uint32_t)((take + CHACHA20_BLOCK - 1) / CHACHA20_BLOCK);
    return take;
}

void aead_seal(const struct kernel *kernel, const uint8_t key[CHACHA20_KEY], const uint8_t *nonce, size_t nonce_size,
               const struct aead_aad *aad, const uint8_t *in, size_t size, uint8_t *out, uint8_t tag[AEAD_TAG])
{
    struct aead aead;
    begin(&aead, kernel, key, nonce, nonce_size, size);
    absorb_aad(&aead, aad);
    size_t done = encrypt_beginning(&aead, out, in, size), absorbed = 0;
    for (;;) {
        const size_t left = size - done, take = left < SLICE ? left : SLICE;
        chacha20_xor(kernel, aead.state, out + done, in + done, take);
        done += take;
        if (done == size)
            break;
        /* Whole vectors only, so that the sum stays on lanes from slice to slice. */
        const size_t whole = (done - absorbed) / POLY1305_VECTOR_MAX * POLY1305_VECTOR_MAX;
        poly1305_blocks(kernel, &aead.mac, out + absorbed, whole);
        absorbed += whole;
    }
    poly1305_padded(kernel, &aead.mac, out + absorbed, size - absorbed);
    finish(&aead, aad, size, tag);
    end(&aead);
}

int tag_differs(const uint8_t a[AEAD_TAG], const uint8_t b[AEAD_TAG])
{
    uint64_t low[2], high[2];
    memcpy(low, a, 16);
    memcpy(high, b, 16);
    uint64_t difference = (low[0] ^ high[0]) | (low[1] ^ high[1]);
    difference |= difference >> 32;
    return (int)((((difference & 0xffffffff) + 0xffffffff) >> 32) & 1);
}

int aead_open(const struct kernel *kernel, const uint8_t key[CHACHA20_KEY], const uint8_t *nonce, size_t nonce_size,
              const struct aead_aad *aad, const uint8_t *in, size_t size, const uint8_t tag[AEAD_TAG], uint8_t *out)
{
    struct aead aead;
    uint8_t expected[AEAD_TAG];
    begin(&aead, kernel, key, nonce, nonce_size, size);
    absorb_aad(&aead, aad);
    poly1305_padded(kernel, &aead.mac, in, size);
    finish(&aead, aad, size, expected);
    const int differs = tag_differs(expected, tag);
    if (!differs && out) {
        const size_t done = encrypt_beginning(&aead, out, in, size);
        chacha20_xor(kernel, aead.state, out + done, in + done, size - done);
    }
    wipe(expected, sizeof expected);
    end(&aead);
    return -differs;
}
