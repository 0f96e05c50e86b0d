#include "aead.h"

#include "bytes.h"

enum { SLICE = 64 * 1024 }; /* encrypted and absorbed while it is in cache; a multiple of every pass */

/* One message under way. The first rows pass makes the one-time key, and besides it keystream for the odd end of the message, so that all
   before that goes in whole columns passes; or, where the end is too long for it, for as much of the beginning as comes free. */
struct aead {
    const struct kernel *kernel;
    uint32_t state[16];
    size_t bulk, bulk_end; /* where in the message chacha20_xor serves */
    size_t served, serves; /* where, and for how many bytes, the first pass does */
    size_t ready;          /* bytes of keystream below */
    struct poly1305 mac;
    _Alignas(64) uint8_t keystream[CHACHA20_ROWS_MAX];
};

static void begin(struct aead *aead, const struct kernel *kernel, const uint8_t key[CHACHA20_KEY], const uint8_t *nonce,
                  size_t nonce_size, size_t size)
{
    const size_t odd = kernel->columns_bytes ? size % kernel->columns_bytes : size, step = kernel->rows_step;
    uint32_t skip = 0;
    aead->kernel = kernel;
    if (CHACHA20_BLOCK + odd <= kernel->rows_bytes) {
        aead->bulk = 0;
        aead->served = aead->bulk_end = size - odd;
        aead->serves = odd;
        aead->ready = (CHACHA20_BLOCK + odd + step - 1) / step * step;
        skip = (uint32_t)((size - odd) / CHACHA20_BLOCK);
    } else {
        aead->served = 0;
        aead->bulk = aead->serves = step - CHACHA20_BLOCK;
        aead->bulk_end = size;
        aead->ready = step;
    }
    if (nonce_size == XCHACHA20_NONCE)
        xchacha20_state(kernel, aead->state, key, 0, nonce);
    else
        chacha20_state(aead->state, key, 0, nonce);
    kernel->chacha20_rows(aead->keystream, aead->ready, aead->state, skip);
    poly1305_init(&aead->mac, aead->keystream);
    aead->state[12] = 1 + (uint32_t)(aead->bulk / CHACHA20_BLOCK);
}

static void end(struct aead *aead)
{
    const int most = aead->mac.turn || aead->bulk_end > aead->bulk;
    poly1305_wipe(&aead->mac);
    wipe(aead->state, sizeof aead->state);
    wipe(aead->keystream, aead->ready);
    aead->kernel->wipe_stack(most);
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
        if (take) { /* there may be no second piece, not even its address */
            memcpy(block + rest, second, take);
            second += take;
            left -= take;
        }
        poly1305_padded(aead->kernel, &aead->mac, block, POLY1305_BLOCK);
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

static void encrypt_served(struct aead *aead, uint8_t *out, const uint8_t *in)
{
    if (aead->serves)
        chacha20_xor_bytes(out + aead->served, in + aead->served, aead->keystream + CHACHA20_BLOCK, aead->serves);
}

void aead_seal(const struct kernel *kernel, const uint8_t key[CHACHA20_KEY], const uint8_t *nonce, size_t nonce_size,
               const struct aead_aad *aad, const uint8_t *in, size_t size, uint8_t *out, uint8_t tag[AEAD_TAG])
{
    struct aead aead;
    begin(&aead, kernel, key, nonce, nonce_size, size);
    absorb_aad(&aead, aad);
    encrypt_served(&aead, out, in);
    size_t absorbed = 0;
    for (size_t done = aead.bulk; done < aead.bulk_end;) {
        const size_t left = aead.bulk_end - done, take = left < SLICE ? left : SLICE;
        chacha20_xor(kernel, aead.state, out + done, in + done, take);
        done += take;
        if (done < aead.bulk_end) { /* whole vectors only, so that the sum stays on lanes from slice to slice */
            const size_t whole = (done - absorbed) / POLY1305_VECTOR_MAX * POLY1305_VECTOR_MAX;
            poly1305_blocks(kernel, &aead.mac, out + absorbed, whole);
            absorbed += whole;
        }
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
    int differs = tag_differs(expected, tag);
    PUBLIC(differs);
    if (!differs && out) {
        encrypt_served(&aead, out, in);
        chacha20_xor(kernel, aead.state, out + aead.bulk, in + aead.bulk, aead.bulk_end - aead.bulk);
    }
    wipe(expected, sizeof expected);
    end(&aead);
    return -differs;
}
