/* What every harness does with the bytes that a fuzzer makes up: reads parameters from the front, lengthens the rest to any size, and
 * keeps buffers that end where memory does, so that AddressSanitizer sees a byte read or written too far. */
#ifndef SEALANE_FUZZ_INPUT_H
#define SEALANE_FUZZ_INPUT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../engine/native/aead.h"
#include "../../../engine/native/dispatch.h"
#include "../plain.h"

struct input {
    const uint8_t *at;
    size_t left;
};

static inline uint32_t input_number(struct input *input, int bytes)
{
    uint32_t number = 0;
    for (; bytes && input->left; bytes--, input->at++, input->left--)
        number = (number << 8) | *input->at;
    return number;
}

/* Zeros where the input has ended. */
static inline void input_bytes(struct input *input, uint8_t *out, size_t size)
{
    for (size_t i = 0; i < size; i++)
        out[i] = (uint8_t)input_number(input, 1);
}

/* A size that is small seven times out of eight, so that runs are fast, and up to `most` otherwise. */
static inline size_t input_size(struct input *input, size_t most)
{
    const uint32_t kind = input_number(input, 1), size = input_number(input, kind % 8 ? 2 : 3);
    const size_t limit = kind % 8 && most > 2100 ? 2100 : most;
    return size % (limit + 1);
}

/* What is left of the input, over and over, each time a little different. */
static inline void input_fill(const struct input *input, uint8_t *out, size_t size)
{
    for (size_t i = 0; i < size; i++)
        out[i] = input->left ? (uint8_t)(input->at[i % input->left] + i / input->left * 41) : 0;
}

/* `size` bytes that start `offset` (0 to 15) after an alignment of 16 and end where the allocation does; released by buffer_free. */
static inline uint8_t *buffer(size_t size, size_t offset)
{
    uint8_t *start = malloc(size + offset ? size + offset : 1);
    if (!start)
        abort();
    return start + offset;
}

static inline void buffer_free(uint8_t *p, size_t offset) { free(p - offset); }

static inline void must(int good, const char *what, const struct kernel *kernel, size_t size)
{
    if (good)
        return;
    fprintf(stderr, "%s: %s, %zu bytes\n", kernel->name, what, size);
    abort();
}

#define EACH_KERNEL(kernel) \
    for (const struct kernel *const *each = kernels_usable(), *kernel; (kernel = *each); each++)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
