#include "plain.h"

#include <string.h>

static uint32_t word(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put(uint8_t *p, uint32_t x)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(x >> 8 * i);
}

static void quarter(uint32_t *a, uint32_t *b, uint32_t *c, uint32_t *d)
{
    const int turns[2][2] = {{16, 12}, {8, 7}};
    for (int half = 0; half < 2; half++) {
        *a += *b, *d ^= *a, *d = *d << turns[half][0] | *d >> (32 - turns[half][0]);
        *c += *d, *b ^= *c, *b = *b << turns[half][1] | *b >> (32 - turns[half][1]);
    }
}

static void start(uint32_t x[16], const uint8_t key[32])
{
    for (int i = 0; i < 4; i++)
        x[i] = word((const uint8_t *)"expand 32-byte k" + 4 * i);
    for (int i = 0; i < 8; i++)
        x[4 + i] = word(key + 4 * i);
}

static void rounds(uint32_t x[16])
{
    for (int i = 0; i < 80; i++) {
        const int n = i % 4, turned = i / 4 % 2;
        quarter(x + n, x + 4 + (n + turned) % 4, x + 8 + (n + 2 * turned) % 4, x + 12 + (n + 3 * turned) % 4);
    }
}

void plain_chacha20_xor(uint8_t *out, const uint8_t *in, size_t size, const uint8_t key[32], uint32_t counter, const uint8_t nonce[12])
{
    for (size_t at = 0; at < size; at++) {
        static uint8_t stream[64];
        if (at % 64 == 0) {
            uint32_t first[16], x[16];
            start(first, key);
            first[12] = counter + (uint32_t)(at / 64);
            for (int i = 0; i < 3; i++)
                first[13 + i] = word(nonce + 4 * i);
            memcpy(x, first, sizeof x);
            rounds(x);
            for (int i = 0; i < 16; i++)
                put(stream + 4 * i, x[i] + first[i]);
        }
        out[at] = in[at] ^ stream[at % 64];
    }
}

void plain_hchacha20(uint8_t out[32], const uint8_t key[32], const uint8_t nonce[16])
{
    uint32_t x[16];
    start(x, key);
    for (int i = 0; i < 4; i++)
        x[12 + i] = word(nonce + 4 * i);
    rounds(x);
    for (int i = 0; i < 4; i++) {
        put(out + 4 * i, x[i]);
        put(out + 16 + 4 * i, x[12 + i]);
    }
}

/* Numbers modulo 2^130 - 5 as 17 digits of 8 bits. */
typedef uint32_t number[17];

static void carry(number a)
{
    for (int twice = 0; twice < 3; twice++) {
        uint32_t c = 0;
        for (int i = 0; i < 17; i++) {
            c += a[i];
            a[i] = c & 255;
            c >>= 8;
        }
        c = c << 6 | a[16] >> 2; /* what is above bit 130 */
        a[16] &= 3;
        for (int i = 0; c; i++) { /* comes back times 5 */
            c += c << 2;
            a[i] += c & 255;
            if (c >>= 8)
                a[i + 1] += c;
            c = 0;
        }
    }
}

static void multiply(number a, const number b)
{
    uint64_t wide[34] = {0};
    for (int i = 0; i < 17; i++)
        for (int j = 0; j < 17; j++)
            wide[i + j] += (uint64_t)a[i] * b[j];
    /* 2^136 is 320: digit 17 + i comes back as 320 times digit i, twice over at most. */
    for (int i = 33; i >= 17; i--)
        wide[i - 17] += wide[i] * 320;
    uint64_t c = 0;
    for (int again = 0; again < 3; again++) {
        for (int i = 0; i < 17; i++) {
            c += wide[i];
            wide[i] = c & 255;
            c >>= 8;
        }
        wide[0] += c * 320;
        c = 0;
    }
    for (int i = 0; i < 17; i++)
        a[i] = (uint32_t)wide[i];
    carry(a);
}

/* Subtracts p where that leaves something, twice over at most. */
static void reduce(number a)
{
    carry(a);
    for (int twice = 0; twice < 2; twice++) {
        number b;
        uint32_t c = 5;
        for (int i = 0; i < 17; i++) {
            c += a[i];
            b[i] = c & 255;
            c >>= 8;
        }
        if (b[16] & ~UINT32_C(3)) {
            b[16] &= 3;
            memcpy(a, b, sizeof b);
        }
    }
}

static void add_block(number a, const uint8_t *in, size_t size)
{
    for (size_t i = 0; i < size; i++)
        a[i] += in[i];
    a[size] += 1;
    carry(a);
}

void plain_poly1305(uint8_t tag[16], const uint8_t *message, size_t size, const uint8_t key[32])
{
    number r = {0}, h = {0};
    for (int i = 0; i < 16; i++)
        r[i] = key[i] & (i % 4 == 3 ? 15 : i % 4 == 0 && i ? 252 : 255);
    for (size_t at = 0; at < size; at += 16) {
        add_block(h, message + at, size - at < 16 ? size - at : 16);
        multiply(h, r);
    }
    reduce(h);
    uint32_t c = 0;
    for (int i = 0; i < 16; i++) {
        c += h[i] + key[16 + i];
        tag[i] = (uint8_t)c;
        c >>= 8;
    }
}

static size_t padded(uint8_t *to, const uint8_t *from, size_t size)
{
    memset(to, 0, (size + 15) / 16 * 16);
    if (size)
        memcpy(to, from, size);
    return (size + 15) / 16 * 16;
}

void plain_aead_seal(uint8_t *out, uint8_t tag[16], const uint8_t *in, size_t size, const uint8_t *aad, size_t aad_size,
                     const uint8_t key[32], const uint8_t *nonce, int extended)
{
    static uint8_t macced[300000];
    uint8_t mac_key[32] = {0}, subkey[32], short_nonce[12] = {0};
    memcpy(subkey, key, 32);
    if (extended) {
        plain_hchacha20(subkey, key, nonce);
        memcpy(short_nonce + 4, nonce + 16, 8);
    } else {
        memcpy(short_nonce, nonce, 12);
    }
    plain_chacha20_xor(mac_key, mac_key, 32, subkey, 0, short_nonce);
    plain_chacha20_xor(out, in, size, subkey, 1, short_nonce);
    size_t length = padded(macced, aad, aad_size);
    length += padded(macced + length, out, size);
    memset(macced + length, 0, 16);
    put(macced + length, (uint32_t)aad_size);
    put(macced + length + 8, (uint32_t)size);
    plain_poly1305(tag, macced, length + 16, mac_key);
}

/* A number from words or limbs that stand `step` bits apart and may overlap. */
static void from_words(number a, const uint64_t word[3], int step)
{
    memset(a, 0, sizeof(number));
    for (int i = 0; i < 3; i++)
        for (int bit = 0; bit < 64 && step * i + bit < 136; bit++)
            a[(step * i + bit) / 8] += (uint32_t)(word[i] >> bit & 1) << (step * i + bit) % 8;
    carry(a);
}

int plain_vectors_equal(const uint64_t start_h[3], const uint64_t factor[3], const uint8_t *in, size_t size, size_t vector,
                        const uint64_t result[3])
{
    number h, f, got;
    from_words(h, start_h, 64);
    from_words(f, factor, 44);
    for (size_t at = 0; at < size; at += 16) {
        add_block(h, in + at, 16);
        if ((at + 16) % vector == 0)
            multiply(h, f);
    }
    from_words(got, result, 64);
    reduce(h);
    reduce(got);
    return !memcmp(h, got, sizeof h);
}
