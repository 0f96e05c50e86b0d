/* Bytes that may or may not be an exported Poly1305 state: all kernels accept or refuse alike, give back exactly what they accepted, and
 * come to the same tag and the same later state from it. */
#include "input.h"

enum { MOST = 6000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_size)
{
    struct input input = {data, data_size};
    uint8_t state[POLY1305_STATE], later[POLY1305_STATE], back[POLY1305_STATE], wanted_tag[16] = {0}, tag[16];
    const uint32_t flags = input_number(&input, 1);
    const size_t size = input_size(&input, MOST);
    input_bytes(&input, state, sizeof state);
    /* Most inputs would fail at the first look. */
    if (flags & 1)
        state[0] = 1;
    if (flags & 2)
        state[49] &= 3;
    if (flags & 4) {
        state[50] %= 16;
        for (size_t i = state[50]; i < 15; i++)
            state[51 + i] = 0;
    }
    uint8_t *more = buffer(size, 0);
    input_fill(&input, more, size);
    struct poly1305_stream *stream = malloc(sizeof *stream);
    if (!stream)
        abort();
    const struct kernel *scalar = kernel_find("scalar");
    const int refused = poly1305_stream_import(stream, scalar, state);
    if (!refused) {
        poly1305_stream_write(stream, more, size);
        poly1305_stream_export(stream, later);
        poly1305_stream_finish(stream, wanted_tag);
    }
    EACH_KERNEL(kernel) {
        memset(stream, 0xee, sizeof *stream);
        must(poly1305_stream_import(stream, kernel, state) == refused, "takes what another refuses", kernel, size);
        if (refused)
            continue;
        poly1305_stream_export(stream, back);
        must(!memcmp(back, state, sizeof back), "gives back another state", kernel, size);
        poly1305_stream_write(stream, more, size);
        poly1305_stream_export(stream, back);
        must(!memcmp(back, later, sizeof back), "goes on to another state", kernel, size);
        poly1305_stream_finish(stream, tag);
        must(!memcmp(tag, wanted_tag, 16), "another tag", kernel, size);
    }
    free(stream);
    buffer_free(more, 0);
    return 0;
}
