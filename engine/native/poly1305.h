/* Poly1305 over any kernel (RFC 8439, section 2.5). */
#ifndef SEALANE_POLY1305_H
#define SEALANE_POLY1305_H

#include "kernel.h"

enum {
    POLY1305_KEY = 32,
    POLY1305_TAG = 16,
    POLY1305_ACCUMULATOR = 17,
    POLY1305_BUFFER = 4096, /* small writes gather here, so that a kernel's set-up is paid once for all of them; a multiple of any vector */
    POLY1305_DIRECT = 512,  /* a write of this size is absorbed where it lies */
    POLY1305_STATE = 1 + POLY1305_KEY + POLY1305_ACCUMULATOR + 1 + POLY1305_BLOCK - 1,
};

/* What a limb of radix 2^44 keeps. */
extern const uint64_t poly1305_masks44[3];

void poly1305_init(struct poly1305 *state, const uint8_t key[POLY1305_KEY]);

/* Absorbs `size` bytes, a multiple of 16. Those that fill vectors stay spread over lanes until something else is absorbed. */
void poly1305_blocks(const struct kernel *kernel, struct poly1305 *state, const uint8_t *in, size_t size);

/* Absorbs `size` bytes and zeros up to a multiple of 16, as the AEAD pads (RFC 8439, section 2.8). */
void poly1305_padded(const struct kernel *kernel, struct poly1305 *state, const uint8_t *in, size_t size);

/* Absorbs a last block of under 16 bytes, if any, and writes the tag. The state is spent. */
void poly1305_finish(const struct kernel *kernel, struct poly1305 *state, const uint8_t *rest, size_t size, uint8_t tag[POLY1305_TAG]);

/* out = a * b for powers of r in radix 2^44, partly reduced: limbs below 2^44, 2^44 + 2^12, 2^42. out may be a or b. */
void poly1305_multiply(uint64_t out[3], const uint64_t a[3], const uint64_t b[3]);

/* Makes r^1 to r^count ready in state->power. */
void poly1305_powers(struct poly1305 *state, uint32_t count);

/* Forgets everything, as cheaply as what was used allows. */
void poly1305_wipe(struct poly1305 *state);

/* A computation over writes of any size. */
struct poly1305_stream {
    size_t used;  /* bytes waiting in buffer */
    const struct kernel *kernel;
    uint8_t buffer[POLY1305_BUFFER];
    uint8_t key[POLY1305_KEY];
    int emptied; /* whether the buffer has held more than what waits in it now */
    struct poly1305 state;
};

void poly1305_stream_init(struct poly1305_stream *stream, const struct kernel *kernel, const uint8_t key[POLY1305_KEY]);

static inline void poly1305_stream_write(struct poly1305_stream *stream, const uint8_t *in, size_t size)
{
    stream->kernel->poly1305_write(stream, in, size);
}

/* What a kernel's own write leaves to it: more than fits the buffer, or enough to be absorbed where it lies. */
void poly1305_stream_write_large(struct poly1305_stream *stream, const uint8_t *in, size_t size);

/* Writes the tag and forgets everything. */
void poly1305_stream_finish(struct poly1305_stream *stream, uint8_t tag[POLY1305_TAG]);

/* Forgets everything, as cheaply as what was used allows. */
void poly1305_stream_wipe(struct poly1305_stream *stream);

/* Version 1: version | key (32) | accumulator, little-endian and fully reduced (17) | pending length | pending (15, zero-padded).
   Any kernel on any architecture goes on from it. */
void poly1305_stream_export(struct poly1305_stream *stream, uint8_t out[POLY1305_STATE]);

/* 0, or -1 where the bytes are no state. */
int poly1305_stream_import(struct poly1305_stream *stream, const struct kernel *kernel, const uint8_t in[POLY1305_STATE]);

#endif
