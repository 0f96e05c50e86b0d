/* constant_time KERNEL: runs everything that touches a secret with the secrets marked undefined, so that valgrind's memcheck reports
 * every branch and every address that depends on one (the way of Adam Langley's ctgrind).
 *
 * Secret are keys, plaintexts, one-time keys, accumulators, and when opening the tag that was computed. Public are lengths, nonces, AAD,
 * ciphertexts, tags that came in, and whether a tag or an imported state was right: the engine says so where that is decided, in the two
 * places that PUBLIC marks (bytes.h).
 *
 * Compiled with -DLEAK=BRANCH or -DLEAK=INDEX it does one thing wrong on purpose: then memcheck must report it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <valgrind/memcheck.h>

#include "../../engine/native/aead.h"
#include "../../engine/native/dispatch.h"

enum { MOST = 140000 };

static const struct kernel *kernel;
static uint8_t in[MOST], out[MOST];

static void secret(const void *p, size_t size) { (void)VALGRIND_MAKE_MEM_UNDEFINED(p, size); }
static void reveal(const void *p, size_t size) { (void)VALGRIND_MAKE_MEM_DEFINED(p, size); }

/* A secret that never reached the result would have proved nothing. */
static void must_depend_on_secrets(const uint8_t *p, size_t size, const char *what)
{
    uint8_t bits[64];
    for (size_t at = 0; at < size; at += sizeof bits) {
        const size_t take = size - at < sizeof bits ? size - at : sizeof bits;
        uint8_t any = 0;
        if (VALGRIND_GET_VBITS(p + at, bits, take) != 1)
            exit(3);
        for (size_t i = 0; i < take; i++)
            any |= bits[i];
        if (!any) {
            printf("%s: %s does not depend on the secrets\n", kernel->name, what);
            exit(3);
        }
    }
}

#define BRANCH 1
#define INDEX 2
#ifdef LEAK
/* What an early exit from a comparison, or a table, would be. */
static void leak(const uint8_t tag[16])
{
    static volatile const uint8_t table[256];
    static volatile int seen;
    if (LEAK == INDEX)
        seen = table[tag[0]];
    else if (tag[0] == 7)
        seen = seen + 1;
}
#endif

static void seal_and_open(size_t size, size_t nonce_size)
{
    static const uint8_t aad_bytes[13];
    const struct aead_aad aad = {{aad_bytes, aad_bytes + 5}, {5, size % 3 * 4}};
    uint8_t key[32] = {1}, nonce[24] = {2}, tag[16];
    secret(key, sizeof key);
    secret(in, size);
    aead_seal(kernel, key, nonce, nonce_size, &aad, in, size, out, tag);
    must_depend_on_secrets(out, size, "ciphertext");
    must_depend_on_secrets(tag, sizeof tag, "tag");
#ifdef LEAK
    leak(tag);
#endif
    reveal(out, size);
    reveal(tag, sizeof tag);
    const int differs = aead_open(kernel, key, nonce, nonce_size, &aad, out, size, tag, out);
    if (differs)
        exit(4);
    must_depend_on_secrets(out, size, "plaintext");
    tag[size % 16] ^= 1;
    reveal(out, size);
    if (!aead_open(kernel, key, nonce, nonce_size, &aad, out, size, tag, out))
        exit(4);
    if (!aead_open(kernel, key, nonce, nonce_size, &aad, out, size, tag, NULL))
        exit(4);
}

static void keystream(size_t size, uint32_t counter)
{
    uint8_t key[32] = {3}, nonce[16] = {4}, subkey[32];
    uint32_t state[16];
    secret(key, sizeof key);
    secret(in, size);
    chacha20_state(state, key, counter, nonce);
    chacha20_xor(kernel, state, out, in, size);
    must_depend_on_secrets(out, size, "keystream");
    hchacha20(kernel, subkey, key, nonce);
    must_depend_on_secrets(subkey, sizeof subkey, "subkey");
}

/* Writes of `write` bytes, with the state exported and imported in the middle. */
static void mac(size_t size, size_t write)
{
    static struct poly1305_stream stream;
    uint8_t key[32] = {5}, tag[16], state[POLY1305_STATE];
    secret(key, sizeof key);
    secret(in, size);
    poly1305_stream_init(&stream, kernel, key);
    for (size_t at = 0, moved = 0; at < size;) {
        const size_t take = write < size - at ? write : size - at;
        poly1305_stream_write(&stream, in + at, take);
        at += take;
        if (!moved && at >= size / 2) {
            moved = 1;
            poly1305_stream_export(&stream, state);
            must_depend_on_secrets(state + 1, 32, "exported key");
            if (at >= 16)
                must_depend_on_secrets(state + 33, 17, "exported accumulator");
            secret(state + 1, 32 + 17);
            secret(state + 51, state[50]);
            if (poly1305_stream_import(&stream, kernel, state))
                exit(4);
        }
    }
    poly1305_stream_finish(&stream, tag);
    must_depend_on_secrets(tag, sizeof tag, "MAC");
    uint8_t came[16] = {0};
    int differs = tag_differs(tag, came);
    must_depend_on_secrets((const uint8_t *)&differs, 1, "comparison");
}

int main(int argc, char **argv)
{
    if (!RUNNING_ON_VALGRIND) {
        fputs("constant_time proves something under valgrind only\n", stderr);
        return 2;
    }
    if (argc != 2 || !(kernel = kernel_find(argv[1]))) {
        fprintf(stderr, "usage: constant_time KERNEL, one that valgrind can run\n");
        return 2;
    }
    /* Every length over the rows and columns passes of the widest kernel and their partial ends, then the slices of long messages. */
    for (size_t size = 0; size <= 1300; size++) {
        seal_and_open(size, size % 2 ? 24 : 12);
        keystream(size, (uint32_t)(size * 77));
    }
    static const size_t sizes[] = {2048, 4095, 4096, 8192 + 33, 16384, 65535, 65536, 65536 + 63, 65536 + 449, 131072 + 500};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        seal_and_open(sizes[i], i % 2 ? 24 : 12);
        keystream(sizes[i], UINT32_MAX - 4096);
        mac(sizes[i], sizes[i]);
    }
    static const size_t writes[] = {1, 7, 16, 64, 65, 100, 511, 512, 1024, 1025, 5000};
    for (size_t i = 0; i < sizeof writes / sizeof *writes; i++)
        for (size_t size = 0; size <= 9000; size += 1 + size / 3)
            mac(size, writes[i]);
    printf("%s: nothing branched on a secret or indexed by one, as far as valgrind saw\n", kernel->name);
    return 0;
}
