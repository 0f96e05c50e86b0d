#include "chacha20.h"

#include "bytes.h"

static void words(uint32_t *out, const uint8_t *in, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = load32_le(in + 4 * i);
}

static void key_words(uint32_t state[16], const uint8_t key[CHACHA20_KEY])
{
    state[0] = 0x61707865; /* "expand 32-byte k" */
    state[1] = 0x3320646e;
    state[2] = 0x79622d32;
    state[3] = 0x6b206574;
    words(state + 4, key, 8);
}

void chacha20_state(uint32_t state[16], const uint8_t key[CHACHA20_KEY], uint32_t counter, const uint8_t nonce[CHACHA20_NONCE])
{
    key_words(state, key);
    state[12] = counter;
    words(state + 13, nonce, 3);
}

void chacha20_xor_bytes(uint8_t *out, const uint8_t *in, const uint8_t *keystream, size_t size)
{
    size_t i = 0;
    for (; i + 8 <= size; i += 8) {
        uint64_t a, b;
        memcpy(&a, in + i, 8);
        memcpy(&b, keystream + i, 8);
        a ^= b;
        memcpy(out + i, &a, 8);
    }
    for (; i < size; i++)
        out[i] = in[i] ^ keystream[i];
}

void chacha20_xor(const struct kernel *kernel, uint32_t state[16], uint8_t *out, const uint8_t *in, size_t size)
{
    if (kernel->columns_bytes && size >= kernel->columns_bytes) {
        const size_t passes = size / kernel->columns_bytes, bytes = passes * kernel->columns_bytes;
        kernel->chacha20_columns(out, in, passes, state);
        state[12] += (uint32_t)(bytes / CHACHA20_BLOCK);
        out += bytes;
        in += bytes;
        size -= bytes;
    }
    if (!size)
        return;
    _Alignas(64) uint8_t scratch[CHACHA20_COLUMNS_MAX];
    if (kernel->columns_bytes && size > kernel->rows_bytes) {
        memcpy(scratch, in, size);
        kernel->chacha20_columns(scratch, scratch, 1, state);
        memcpy(out, scratch, size);
        state[12] += (uint32_t)((size + CHACHA20_BLOCK - 1) / CHACHA20_BLOCK);
        wipe(scratch, kernel->columns_bytes);
        return;
    }
    while (size) {
        const size_t take = size < kernel->rows_bytes ? size : kernel->rows_bytes;
        kernel->chacha20_rows(scratch, take, state, 0);
        chacha20_xor_bytes(out, in, scratch, take);
        state[12] += (uint32_t)((take + CHACHA20_BLOCK - 1) / CHACHA20_BLOCK);
        out += take;
        in += take;
        size -= take;
    }
    wipe(scratch, kernel->rows_bytes);
}

void hchacha20(const struct kernel *kernel, uint8_t subkey[CHACHA20_KEY], const uint8_t key[CHACHA20_KEY],
               const uint8_t nonce[HCHACHA20_NONCE])
{
    uint32_t state[16];
    key_words(state, key);
    words(state + 12, nonce, 4);
    kernel->hchacha20(subkey, state);
    wipe(state, sizeof state);
}

void xchacha20_state(const struct kernel *kernel, uint32_t state[16], const uint8_t key[CHACHA20_KEY], uint32_t counter,
                     const uint8_t nonce[XCHACHA20_NONCE])
{
    uint8_t subkey[CHACHA20_KEY];
    hchacha20(kernel, subkey, key, nonce);
    key_words(state, subkey);
    state[12] = counter;
    state[13] = 0;
    words(state + 14, nonce + 16, 2);
    wipe(subkey, sizeof subkey);
}
