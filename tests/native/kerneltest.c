/* kerneltest [--short] [--kernel NAME]: every usable kernel (or that one) against known answers and against a plain second implementation.
 * --short tries few lengths and no carry traps, for valgrind. Exit status 0 where all agree. Needs no Python, so that it runs wherever a static program does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../engine/native/aead.h"
#include "../../engine/native/dispatch.h"
#include "plain.h"

enum {
    LENGTHS = 2100,  /* every length up to here: past two passes of the widest kernel */
    OFFSETS = 32,    /* every alignment up to here */
    SPACE = 8 * LENGTHS,
};

static unsigned long checks, failures;
static const struct kernel *kernel;
static size_t stride = 1; /* between lengths */

static void check(int good, const char *what, size_t size, size_t detail)
{
    checks++;
    if (!good && failures++ < 20)
        printf("FAIL %s: %s, %zu bytes, %zu\n", kernel->name, what, size, detail);
}

static uint64_t seed = 1;

static uint32_t random32(void)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 32);
}

static void random_bytes(uint8_t *out, size_t size)
{
    for (size_t i = 0; i < size; i++)
        out[i] = (uint8_t)random32();
}

static uint8_t in[SPACE], out[SPACE], expected[SPACE];

/* Keystreams: every length at every alignment, apart and in place; counters up to the last block and over it inside a pass. */
static void test_chacha20(void)
{
    uint8_t key[32], nonce[12];
    static const uint32_t counters[] = {0, 1, 0x7ffffff0, 0xffffffff - LENGTHS / 64 - 1, 0xffffffff, 0xfffffff9, 0xfffffff1, 0xffffffe1};
    for (size_t c = 0; c < sizeof counters / sizeof *counters; c++) {
        random_bytes(key, sizeof key);
        random_bytes(nonce, sizeof nonce);
        random_bytes(in, sizeof in);
        plain_chacha20_xor(expected, in, LENGTHS, key, counters[c], nonce);
        for (size_t size = 0; size <= LENGTHS; size += stride) {
            const size_t to = size * 7 % OFFSETS, from = c ? size * 5 % OFFSETS : 0;
            uint32_t state[16];
            uint8_t *source = in + LENGTHS + from;
            memcpy(source, in, size);
            memset(out, 0xa5, sizeof out);
            chacha20_state(state, key, counters[c], nonce);
            chacha20_xor(kernel, state, out + to, source, size);
            check(!memcmp(out + to, expected, size), "chacha20", size, counters[c]);
            check(out[to + size] == 0xa5 && (!to || out[to - 1] == 0xa5), "chacha20 writes outside", size, to);
            chacha20_state(state, key, counters[c], nonce);
            chacha20_xor(kernel, state, source, source, size);
            check(!memcmp(source, expected, size), "chacha20 in place", size, counters[c]);
        }
    }
    for (size_t from = 0; from < OFFSETS; from++)
        for (size_t to = 0; to < OFFSETS; to++) {
            const size_t size = LENGTHS - OFFSETS - from * to;
            uint32_t state[16];
            plain_chacha20_xor(expected, in + from, size, key, 3, nonce);
            chacha20_state(state, key, 3, nonce);
            chacha20_xor(kernel, state, out + to, in + from, size);
            check(!memcmp(out + to, expected, size), "chacha20 at offsets", size, from * 100 + to);
        }
    /* In pieces of whole blocks the state moves on. */
    for (int i = 0; i < 200; i++) {
        uint32_t state[16];
        chacha20_state(state, key, 9, nonce);
        plain_chacha20_xor(expected, in, SPACE, key, 9, nonce);
        for (size_t at = 0; at < SPACE;) {
            size_t take = 64 * (1 + random32() % 40);
            take = take < SPACE - at ? take : SPACE - at;
            chacha20_xor(kernel, state, out + at, in + at, take);
            at += take;
        }
        check(!memcmp(out, expected, SPACE), "chacha20 in pieces", SPACE, (size_t)i);
    }
}

static void test_hchacha20(void)
{
    for (int i = 0; i < 100; i++) {
        uint8_t key[32], nonce[16], subkey[32], wanted[32];
        random_bytes(key, sizeof key);
        random_bytes(nonce, sizeof nonce);
        plain_hchacha20(wanted, key, nonce);
        hchacha20(kernel, subkey, key, nonce);
        check(!memcmp(subkey, wanted, 32), "hchacha20", 32, (size_t)i);
    }
}

static void mac_in_writes(const uint8_t key[32], const uint8_t *message, size_t size, size_t write, uint8_t tag[16])
{
    struct poly1305_stream stream;
    poly1305_stream_init(&stream, kernel, key);
    for (size_t at = 0; at < size;) {
        size_t take = write ? write : random32() % 4 ? random32() % 200 : random32() % 5000;
        take = take < size - at ? take : size - at;
        poly1305_stream_write(&stream, message + at, take);
        at += take;
    }
    poly1305_stream_finish(&stream, tag);
}

static void check_mac(const uint8_t key[32], const uint8_t *message, size_t size, const char *what, size_t detail)
{
    uint8_t tag[16], wanted[16];
    plain_poly1305(wanted, message, size, key);
    mac_in_writes(key, message, size, size ? size : 1, tag);
    check(!memcmp(tag, wanted, 16), what, size, detail);
    mac_in_writes(key, message, size, 0, tag);
    check(!memcmp(tag, wanted, 16), what, size, detail + 1000000);
}

static void test_poly1305(void)
{
    uint8_t key[32];
    random_bytes(in, sizeof in);
    for (size_t size = 0; size <= LENGTHS; size += stride) {
        random_bytes(key, sizeof key);
        check_mac(key, in + size % OFFSETS, size, "poly1305", size % OFFSETS);
    }
    for (int i = 0; i < 300; i++) {
        random_bytes(key, sizeof key);
        check_mac(key, in, SPACE - random32() % 3000, "poly1305, long", (size_t)i);
    }
    /* Every split of one message in two. */
    uint8_t tag[16], wanted[16];
    plain_poly1305(wanted, in, 700, key);
    for (size_t split = 0; split <= 700; split++) {
        struct poly1305_stream stream;
        poly1305_stream_init(&stream, kernel, key);
        poly1305_stream_write(&stream, in, split);
        poly1305_stream_write(&stream, in + split, 700 - split);
        poly1305_stream_finish(&stream, tag);
        check(!memcmp(tag, wanted, 16), "poly1305 split", 700, split);
    }
}

/* Carries: r at its extremes (and with powers whose limbs are large), messages of ones, of zeros, of p and its neighbours, in runs and
   alternating, straight through the kernel's own turns and as single blocks. */
static void test_poly1305_carries(void)
{
    static const uint8_t clamped_ones[16] = {0xff, 0xff, 0xff, 0x0f, 0xfc, 0xff, 0xff, 0x0f, 0xfc, 0xff, 0xff, 0x0f, 0xfc, 0xff, 0xff, 0x0f};
    uint8_t keys[12][32] = {{0}};
    memset(keys[0], 0xff, 32);
    memcpy(keys[1], clamped_ones, 16);
    keys[2][0] = 1; /* the accumulator is then the sum of the blocks */
    keys[3][0] = 2;
    keys[4][0] = 5;
    memset(keys[5] + 16, 0xff, 16); /* r = 0 */
    keys[6][15] = 0x0f; /* only the top */
    memset(keys[7], 0xff, 8);
    memset(keys[8] + 8, 0xff, 8);
    keys[9][3] = 4; /* 2^26, 2^44 less what clamping takes */
    keys[10][5] = 0x10;
    memset(keys[11], 0x55, 32);
    static const uint8_t blocks[][16] = {
        {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
        {0},
        {1},
        {0xfb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
        {0xfa, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
        {0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
        {0xff, 0xff, 0xff, 0x03},
        {0xff, 0xff, 0xff, 0xff, 0xff, 0x0f},
        {0, 0, 0, 0, 0, 0xf0, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0},
        {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff},
    };
    enum { KINDS = sizeof blocks / sizeof *blocks, RUN = 1200 };
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for (size_t first = 0; first < KINDS; first++)
            for (size_t second = 0; second < KINDS; second++) {
                for (size_t at = 0; at < RUN; at += 16)
                    memcpy(in + at, blocks[at / 16 % 3 == 2 ? second : first], 16);
                for (size_t size = 1; size <= RUN; size += size < 100 ? 5 : size < 200 ? 29 : 90)
                    check_mac(keys[k], in, size, "poly1305 carries", k * 10000 + first * 100 + second);
            }
    /* Small r: sums that land on p, 2^130, 2^128 and one to each side. Blocks count 2^128 and their own bytes each; four of them make
       2^130 and what their first words say. */
    for (int r = 1; r <= 3; r++)
        for (uint32_t first = 0; first < 14; first++) {
            uint8_t key[32] = {(uint8_t)r};
            for (size_t count = 1; count < 140; count++) {
                memset(in, 0, 16 * count);
                in[0] = (uint8_t)first;
                check_mac(key, in, 16 * count, "poly1305 sums", (size_t)r * 100 + first);
                memset(in, 0xff, 16 * count);
                in[0] = (uint8_t)(0xf4 + first % 12);
                check_mac(key, in, 16 * count, "poly1305 sums of ones", (size_t)r * 100 + first);
            }
        }
}

/* A kernel's turns under powers that no key would give it, every limb of each at its largest: only here do wrong bounds show. With all
   powers the same number, whole vectors are multiplied by it, the sum of all before each. */
static void test_poly1305_bounds(void)
{
    const size_t vector = kernel->poly1305_bytes;
    if (!vector)
        return;
    for (int fill = 0; fill <= 1; fill++)
        for (uint64_t less = 0; less <= 1; less++)
            for (size_t vectors = 1; vectors < 40; vectors++) {
                struct poly1305 state = {0};
                for (int i = 0; i < POLY1305_POWERS_MAX; i++)
                    for (int limb = 0; limb < 3; limb++)
                        state.power[i][limb] = (UINT64_C(1) << (limb == 2 ? 42 : 44)) - 1 + (less || limb != 1 ? 0 : 1 << 12);
                state.powers = POLY1305_POWERS_MAX;
                const uint64_t h[3] = {UINT64_MAX, UINT64_MAX, 63};
                memset(in, fill ? 0xff : 0xfb, vectors * vector);
                memcpy(state.h, h, sizeof h);
                for (size_t v = 0; v < vectors; v++) {
                    kernel->poly1305_vectors(&state, in + v * vector, 1);
                    if (v % 3 == 2)
                        kernel->poly1305_fold(&state);
                }
                if (state.spread)
                    kernel->poly1305_fold(&state);
                check(plain_vectors_equal(h, state.power[0], in, vectors * vector, vector, state.h), "poly1305 bounds", vectors, less);
                memcpy(state.h, h, sizeof h);
                kernel->poly1305_vectors(&state, in, vectors);
                kernel->poly1305_fold(&state);
                check(plain_vectors_equal(h, state.power[0], in, vectors * vector, vector, state.h), "poly1305 bounds in turns", vectors, less);
            }
}

static void test_state_moves(void)
{
    uint8_t key[32], state[POLY1305_STATE], tag[16], wanted[16];
    random_bytes(in, sizeof in);
    for (const struct kernel *const *other = kernels_usable(); *other; other++)
        for (size_t split = 0; split <= 600; split += 1 + split / 40) {
            struct poly1305_stream stream;
            random_bytes(key, sizeof key);
            plain_poly1305(wanted, in, 1500, key);
            poly1305_stream_init(&stream, kernel, key);
            poly1305_stream_write(&stream, in, split);
            poly1305_stream_export(&stream, state);
            check(!poly1305_stream_import(&stream, *other, state), "state taken up", split, 0);
            poly1305_stream_write(&stream, in + split, 1500 - split);
            poly1305_stream_finish(&stream, tag);
            check(!memcmp(tag, wanted, 16), "state moves", split, 0);
        }
    struct poly1305_stream stream;
    memset(state, 0, sizeof state);
    check(poly1305_stream_import(&stream, kernel, state), "state of version 0", 0, 0);
    state[0] = 1;
    check(!poly1305_stream_import(&stream, kernel, state), "state of nothing", 0, 0);
    memset(state + 33, 0xff, 16);
    state[49] = 3;
    check(poly1305_stream_import(&stream, kernel, state), "state above p", 0, 0);
    state[33] = 0xfa;
    check(!poly1305_stream_import(&stream, kernel, state), "state of p - 1", 0, 0);
    state[50] = 16;
    check(poly1305_stream_import(&stream, kernel, state), "state with 16 waiting", 0, 0);
    state[50] = 3;
    state[54] = 1;
    check(poly1305_stream_import(&stream, kernel, state), "state with more than waits", 0, 0);
}

static void test_aead(void)
{
    uint8_t key[32], nonce[24], tag[16], wanted[16], aad_bytes[100];
    random_bytes(in, sizeof in);
    for (size_t size = 0; size <= LENGTHS; size += stride)
        for (int extended = 0; extended <= 1; extended++) {
            random_bytes(key, sizeof key);
            random_bytes(nonce, sizeof nonce);
            random_bytes(aad_bytes, sizeof aad_bytes);
            const size_t aad_size = size % 3 ? random32() % 90 : 0, cut = aad_size ? random32() % (aad_size + 1) : 0;
            const struct aead_aad aad = {{aad_bytes, aad_bytes + cut}, {cut, aad_size - cut}};
            const size_t from = size % OFFSETS, to = size * 3 % OFFSETS;
            plain_aead_seal(expected, wanted, in + from, size, aad_bytes, aad_size, key, nonce, extended);
            aead_seal(kernel, key, nonce, extended ? 24 : 12, &aad, in + from, size, out + to, tag);
            check(!memcmp(out + to, expected, size) && !memcmp(tag, wanted, 16), "seal", size, aad_size * 100 + cut);
            uint8_t *opened = out + LENGTHS + 2 * OFFSETS;
            memset(opened, 0, size);
            check(!aead_open(kernel, key, nonce, extended ? 24 : 12, &aad, out + to, size, tag, opened), "open", size, aad_size);
            check(!memcmp(opened, in + from, size), "opened", size, aad_size);
            tag[random32() % 16] ^= (uint8_t)(1 << random32() % 8);
            memset(opened, 0x5a, size);
            check(aead_open(kernel, key, nonce, extended ? 24 : 12, &aad, out + to, size, tag, opened), "open wrong tag", size, 0);
            check(!size || (opened[0] == 0x5a && opened[size - 1] == 0x5a), "wrong tag writes nothing", size, 0);
            aead_seal(kernel, key, nonce, extended ? 24 : 12, &aad, out + to, 0, out + to, tag);
        }
    /* Around the slices in which long messages go, in place. */
    static uint8_t big[200000], big_expected[200000];
    static const size_t sizes[] = {65535, 65536, 65536 + 63, 65536 + 64, 65536 + 192, 65536 + 448, 65536 + 449, 131072, 131072 + 500, 199999};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const struct aead_aad aad = {{aad_bytes, aad_bytes}, {13, 0}};
        random_bytes(big, sizes[i]);
        plain_aead_seal(big_expected, wanted, big, sizes[i], aad_bytes, 13, key, nonce, 0);
        aead_seal(kernel, key, nonce, 12, &aad, big, sizes[i], big, tag);
        check(!memcmp(big, big_expected, sizes[i]) && !memcmp(tag, wanted, 16), "seal in slices", sizes[i], 0);
        check(!aead_open(kernel, key, nonce, 12, &aad, big, sizes[i], tag, big), "open in place", sizes[i], 0);
    }
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    const char *only = NULL;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--short")) {
            stride = 61;
        } else if (!strcmp(argv[i], "--kernel") && i + 1 < argc) {
            only = argv[++i];
        } else {
            fputs("usage: kerneltest [--short] [--kernel NAME]\n", stderr);
            return 2;
        }
    }
    if (only && !kernel_find(only)) {
        fprintf(stderr, "no kernel %s here\n", only);
        return 2;
    }
    for (const struct kernel *const *k = kernels_usable(); *k; k++) {
        if (only && strcmp((*k)->name, only))
            continue;
        kernel = *k;
        const unsigned long before = failures;
        checks = 0;
        test_chacha20();
        test_hchacha20();
        test_poly1305();
        if (stride == 1)
            test_poly1305_carries();
        test_poly1305_bounds();
        test_state_moves();
        test_aead();
        printf("%s: %lu checks, %lu failures\n", kernel->name, checks, failures - before);
    }
    return failures ? 1 : 0;
}
