/* Poly1305 as a stream: writes of any size, exports, and imports into another kernel. Whatever the order, every kernel comes to the tag
 * that the message has in one piece. */
#include "input.h"

enum { MOST = 40000, MOST_WRITES = 40, MOST_PLAIN = 1000 };

struct step {
    size_t write;
    unsigned move; /* 0: goes on; otherwise exports, and the kernel that is so many places further imports */
};

static const struct kernel *kernel_at(size_t index)
{
    size_t count = 0;
    while (kernels_usable()[count])
        count++;
    return kernels_usable()[index % count];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_size)
{
    struct input input = {data, data_size};
    struct step steps[MOST_WRITES];
    uint8_t key[32], wanted[16], tag[16], state[POLY1305_STATE];
    size_t count = input_number(&input, 1) % (MOST_WRITES + 1), size = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t move = input_number(&input, 1);
        steps[i].write = input_size(&input, 9000);
        steps[i].move = move < 0xc0 ? 0 : move & 7;
        if (size + steps[i].write > MOST)
            steps[i].write = MOST - size;
        size += steps[i].write;
    }
    input_bytes(&input, key, 32);
    uint8_t *message = buffer(size, 5);
    input_fill(&input, message, size);

    struct poly1305_stream *stream = malloc(sizeof *stream);
    if (!stream)
        abort();
    const struct kernel *scalar = kernel_find("scalar");
    poly1305_stream_init(stream, scalar, key);
    poly1305_stream_write(stream, message, size);
    poly1305_stream_finish(stream, wanted);
    if (size <= MOST_PLAIN) {
        plain_poly1305(tag, message, size, key);
        must(!memcmp(tag, wanted, 16), "tag is not the plain one", scalar, size);
    }
    for (size_t first = 0; kernels_usable()[first]; first++) {
        size_t at = 0, kernel = first;
        poly1305_stream_init(stream, kernel_at(kernel), key);
        for (size_t i = 0; i < count; i++) {
            poly1305_stream_write(stream, message + at, steps[i].write);
            at += steps[i].write;
            if (steps[i].move) {
                poly1305_stream_export(stream, state);
                kernel += steps[i].move;
                memset(stream, 0xee, sizeof *stream);
                must(!poly1305_stream_import(stream, kernel_at(kernel), state), "its own state is refused", kernel_at(kernel), at);
            }
        }
        poly1305_stream_finish(stream, tag);
        must(!memcmp(tag, wanted, 16), "tag", kernel_at(first), size);
    }
    free(stream);
    buffer_free(message, 5);
    return 0;
}
