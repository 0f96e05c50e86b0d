/* Writes of Poly1305 whose size is common, in this ISA's own code: a small write then costs little more than its arithmetic. */
#include "../bytes.h"
#include "../poly1305.h"

/* Apart, so that the small write needs no frame. */
static __attribute__((noinline)) void poly1305_write_other(struct poly1305_stream *stream, const uint8_t *in, size_t size)
{
    const size_t used = stream->used;
#ifdef KERNEL_POLY1305
    if (!used && size >= POLY1305_DIRECT && size % VECTOR_BYTES == 0 && stream->state.turn == LANES_UNROLL) {
        turns(&stream->state, in, size / VECTOR_BYTES, LANES_UNROLL);
        return;
    }
#endif
    if (size >= POLY1305_DIRECT || size > POLY1305_BUFFER - used) {
        poly1305_stream_write_large(stream, in, size);
        return;
    }
    memcpy(stream->buffer + used, in, size);
    stream->used = used + size;
}

static void poly1305_write(struct poly1305_stream *stream, const uint8_t *in, size_t size)
{
    const size_t used = stream->used;
    if (size != 64 || used > POLY1305_BUFFER - 64) {
        poly1305_write_other(stream, in, size);
        return;
    }
    memcpy(stream->buffer + used, in, 64); /* of a constant size: in registers */
    stream->used = used + 64;
}

#define KERNEL_WRITE .poly1305_write = poly1305_write
