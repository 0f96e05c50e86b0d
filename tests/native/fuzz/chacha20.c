/* ChaCha20 from any counter on, in pieces of whole blocks, apart and in place, and HChaCha20: every kernel makes what the plain
 * implementation makes. */
#include "input.h"

enum { MOST = 9000, MOST_PIECES = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_size)
{
    struct input input = {data, data_size};
    uint8_t key[32], nonce[16], subkey[32], wanted_subkey[32];
    const uint32_t flags = input_number(&input, 1), near = input_number(&input, 1), any = input_number(&input, 4);
    const uint32_t counter = flags & 1 ? UINT32_MAX - near : any;
    const size_t offset = flags >> 4;
    size_t size = input_size(&input, MOST), pieces[MOST_PIECES], count = input_number(&input, 1) % MOST_PIECES;
    if (size > chacha20_limit(counter))
        size = chacha20_limit(counter);
    for (size_t i = 0; i < count; i++)
        pieces[i] = input_number(&input, 1) % 40 * 64;
    pieces[count] = size;
    input_bytes(&input, key, 32);
    input_bytes(&input, nonce, 16);
    uint8_t *in = buffer(size, offset), *wanted = buffer(size, 0);
    input_fill(&input, in, size);
    plain_chacha20_xor(wanted, in, size, key, counter, nonce);
    plain_hchacha20(wanted_subkey, key, nonce);
    EACH_KERNEL(kernel) {
        for (int in_place = 0; in_place <= 1; in_place++) {
            uint8_t *out = buffer(size, 15 - offset);
            const uint8_t *from = in_place ? out : in;
            uint32_t state[16];
            if (in_place)
                memcpy(out, in, size);
            chacha20_state(state, key, counter, nonce);
            for (size_t at = 0, i = 0; i <= count; i++) {
                const size_t take = pieces[i] < size - at ? pieces[i] : size - at;
                chacha20_xor(kernel, state, out + at, from + at, take);
                at += take;
            }
            must(!memcmp(out, wanted, size), in_place ? "in place" : "apart", kernel, size);
            buffer_free(out, 15 - offset);
        }
        hchacha20(kernel, subkey, key, nonce);
        must(!memcmp(subkey, wanted_subkey, 32), "hchacha20", kernel, 32);
    }
    buffer_free(in, offset);
    buffer_free(wanted, 0);
    return 0;
}
