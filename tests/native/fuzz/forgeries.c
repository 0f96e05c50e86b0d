/* Forgeries: a sealed message with some of it changed (ciphertext, tag, AAD, nonce or key, or an end cut off), and bytes that nobody
 * sealed. No kernel opens any, and none writes a byte. */
#include "input.h"

enum { MOST = 70000, MOST_AAD = 300 };

static void must_fail(const uint8_t key[32], const uint8_t *nonce, size_t nonce_size, const struct aead_aad *aad, const uint8_t *in, size_t size,
                      const uint8_t tag[16])
{
    EACH_KERNEL(kernel) {
        uint8_t *out = buffer(size, 1);
        memset(out, 0xa5, size);
        must(aead_open(kernel, key, nonce, nonce_size, aad, in, size, tag, out) == -1, "a forgery opens", kernel, size);
        for (size_t i = 0; i < size; i++)
            must(out[i] == 0xa5, "a forgery is written out", kernel, size);
        buffer_free(out, 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_size)
{
    struct input input = {data, data_size};
    uint8_t key[32], nonce[24], tag[16], aad_bytes[MOST_AAD];
    const uint32_t flags = input_number(&input, 1), kind = input_number(&input, 1) % 6, place = input_number(&input, 3);
    const uint8_t change = (uint8_t)(input_number(&input, 1) | 1);
    const size_t nonce_size = flags & 1 ? 24 : 12, size = input_size(&input, MOST), aad_size = input_size(&input, MOST_AAD);
    const struct aead_aad aad = {{aad_bytes, NULL}, {aad_size, 0}};
    input_bytes(&input, key, 32);
    input_bytes(&input, nonce, 24);
    input_bytes(&input, tag, 16);
    input_fill(&input, aad_bytes, aad_size);
    uint8_t *in = buffer(size, 0);
    input_fill(&input, in, size);

    /* What a fuzzer makes up verifies once in 2^106 or so. */
    must_fail(key, nonce, nonce_size, &aad, in, size, tag);

    aead_seal(kernels_usable()[flags >> 1 & 1], key, nonce, nonce_size, &aad, in, size, in, tag);
    struct aead_aad shown = aad;
    size_t length = size;
    const uint8_t *start = in;
    switch (kind) {
    case 0: if (size) in[place % size] ^= change; else tag[place % 16] ^= change; break;
    case 1: tag[place % 16] ^= change; break;
    case 2: if (aad_size) aad_bytes[place % aad_size] ^= change; else shown.size[0] = 1, aad_bytes[0] = change; break;
    case 3: nonce[place % nonce_size] ^= change; break;
    case 4: key[place % 32] ^= change; break;
    default:
        if (!size)
            tag[0] ^= change;
        else if (flags & 2)
            length -= 1 + place % size;
        else
            start += 1 + place % size, length -= 1 + place % size;
    }
    must_fail(key, nonce, nonce_size, &shown, start, length, tag);
    buffer_free(in, 0);
    return 0;
}
