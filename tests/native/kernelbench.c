/* kernelbench OP BYTES ITERS [--kernel NAME]: runs one operation over and over, for timing or counting instructions.
 * kernelbench --list: the kernels that this machine can run, best first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../engine/native/aead.h"
#include "../../engine/native/dispatch.h"

static const struct kernel *kernel;
static const uint8_t key[32] = {1, 2, 3}, nonce[24] = {4, 5, 6};
static uint8_t *in, *out, tag[16];
static size_t bytes;

static void chacha20(void)
{
    uint32_t state[16];
    chacha20_state(state, key, 1, nonce);
    chacha20_xor(kernel, state, out, in, bytes);
}

/* One MAC goes on over all iterations, as a stream does: its powers of r are there from the second on. */
static struct poly1305_stream stream;

static void poly1305(void)
{
    poly1305_stream_write(&stream, in, bytes);
}

static void poly1305_writes(size_t size)
{
    const uint8_t *at = in;
    for (size_t left = bytes / size; left; left--, at += size)
        poly1305_stream_write(&stream, at, size);
    if (bytes % size)
        poly1305_stream_write(&stream, at, bytes % size);
}

static void poly1305_write64(void)
{
    poly1305_writes(64);
}

static void poly1305_write1k(void)
{
    poly1305_writes(1024);
}

static void seal(size_t nonce_size)
{
    const struct aead_aad aad = {{0}, {0}};
    aead_seal(kernel, key, nonce, nonce_size, &aad, in, bytes, out, tag);
}

static void aead_seal_op(void)
{
    seal(12);
}

static void xaead_seal_op(void)
{
    seal(24);
}

static void aead_open_op(void)
{
    const struct aead_aad aad = {{0}, {0}};
    if (aead_open(kernel, key, nonce, 12, &aad, out, bytes, tag, in)) {
        fputs("what was sealed does not open\n", stderr);
        exit(1);
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} operations[] = {
    {"chacha20", chacha20},
    {"poly1305", poly1305},
    {"poly1305-write64", poly1305_write64},
    {"poly1305-write1k", poly1305_write1k},
    {"aead-seal", aead_seal_op},
    {"aead-open", aead_open_op},
    {"xaead-seal", xaead_seal_op},
};

enum { OPERATIONS = sizeof operations / sizeof *operations };

static int usage(void)
{
    fputs("usage: kernelbench OP BYTES ITERS [--kernel NAME], or kernelbench --list\nOP:", stderr);
    for (int i = 0; i < OPERATIONS; i++)
        fprintf(stderr, " %s", operations[i].name);
    fputs("\n", stderr);
    return 2;
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "--list")) {
        for (const struct kernel *const *k = kernels_usable(); *k; k++)
            puts((*k)->name);
        return 0;
    }
    if (argc != 4 && !(argc == 6 && !strcmp(argv[4], "--kernel")))
        return usage();
    kernel = argc == 6 ? kernel_find(argv[5]) : kernels_usable()[0];
    if (!kernel) {
        fprintf(stderr, "no kernel %s here: see kernelbench --list\n", argv[5]);
        return 2;
    }
    int operation = 0;
    while (operation < OPERATIONS && strcmp(argv[1], operations[operation].name))
        operation++;
    if (operation == OPERATIONS)
        return usage();
    bytes = strtoul(argv[2], NULL, 0);
    unsigned long iterations = strtoul(argv[3], NULL, 0);
    in = calloc(1, bytes + 1);
    out = calloc(1, bytes + 1);
    if (!in || !out) {
        fputs("no memory for that many bytes\n", stderr);
        return 1;
    }
    poly1305_stream_init(&stream, kernel, key);
    if (operations[operation].run == aead_open_op)
        aead_seal_op();
    while (iterations--)
        operations[operation].run();
    free(in);
    free(out);
    return 0;
}
