/* Poly1305 over any kernel (RFC 8439, section 2.5). */
#ifndef SEALANE_POLY1305_H
#define SEALANE_POLY1305_H

#include "kernel.h"

enum {
    POLY1305_KEY = 32,
    POLY1305_TAG = 16,
    POLY1305_ACCUMULATOR = 17,
    POLY1305_BUFFER = 2048, /* small writes gather here, so that a kernel's set-up and fold are paid once for all of them */
    POLY1305_STATE = 1 + POLY1305_KEY + POLY1305_ACCUMULATOR + 1 + POLY1305_BLOCK - 1,
};

/* What a limb of radix 2^44 keeps. */
extern const uint64_t poly1305_masks44[3];

void poly1305_init(struct poly1305 *state, const uint8_t key[POLY1305_KEY]);

/* Absorbs `size` bytes, a multiple of 16. */
void poly1305_blocks(const struct kernel *kernel, struct poly1305 *state, const uint8_t *in, size_t size);

/* Absorbs `size` bytes and zeros up to a multiple of 16, as the AEAD pads (RFC 8439, section 2.8). */
void poly1305_padded(const struct kernel *kernel, struct poly1305 *state, const uint8_t *in, size_t size);

/* Absorbs a last block of under 16 bytes, if any, and writes the tag. The state is spent. */
void poly1305_finish(struct poly1305 *state, const uint8_t *rest, size_t size, uint8_t tag[POLY1305_TAG]);

/* Makes r^1 to r^count ready in state->power. */
void poly1305_powers(struct poly1305 *state, uint32_t count);

/* Forgets everything, as cheaply as what was used allows. */
void poly1305_wipe(struct poly1305 *state);

/* A computation over writes of any size. */
struct poly1305_stream {
    const struct kernel *kernel;
    struct poly1305 state;
    size_t used; /* bytes waiting in buffer, below POLY1305_BUFFER between calls */
    uint8_t key[POLY1305_KEY];
    uint8_t buffer[POLY1305_BUFFER];
};

void poly1305_stream_init(struct poly1305_stream *stream, const struct kernel *kernel, const uint8_t key[POLY1305_KEY]);
void poly1305_stream_write_large(struct poly1305_stream *stream, const uint8_t *in, size_t size);
void poly1305_stream_finish(struct poly1305_stream *stream, uint8_t tag[POLY1305_TAG]);

/* Version 1: version | key (32) | accumulator, little-endian and fully reduced (17) | pending length | pending (15, zero-padded).
   Any kernel on any architecture goes on from it. */
void poly1305_stream_export(struct poly1305_stream *stream, uint8_t out[POLY1305_STATE]);

/* 0, or -1 where the bytes are no state. */
int poly1305_stream_import(struct poly1305_stream *stream, const struct kernel *kernel, const uint8_t in[POLY1305_STATE]);

/* The write is inlined for what fits the buffer: a call costs a small write more than its arithmetic. */
static inline void poly1305_stream_write(struct poly1305_stream *stream, const uint8_t *in, size_t size)
{
    if (size >= POLY1305_BUFFER - stream->used) {
        poly1305_stream_write_large(stream, in, size);
        return;
    }
    if (size == 64) /* a constant size lets the compiler copy in registers */
        __builtin_memcpy(stream->buffer + stream->used, in, 64);
    else
        __builtin_memcpy(stream->buffer + stream->used, in, size);
    stream->used += size;
}

#endif
