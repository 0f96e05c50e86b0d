/* Seal and open: every kernel makes the same of a message, apart and in place, and opens what it sealed. Small ones also go through the
 * plain implementation. */
#include "input.h"

enum { MOST = 150000, MOST_AAD = 3000, MOST_PLAIN = 700 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_size)
{
    struct input input = {data, data_size};
    uint8_t key[32], nonce[24], tag[16], wanted_tag[16];
    const uint32_t flags = input_number(&input, 1);
    const size_t nonce_size = flags & 1 ? 24 : 12, offset = flags >> 4, size = input_size(&input, MOST);
    const size_t aad_size = flags & 2 ? input_size(&input, MOST_AAD) : 0, cut = aad_size ? input_number(&input, 2) % (aad_size + 1) : 0;
    input_bytes(&input, key, 32);
    input_bytes(&input, nonce, 24);
    uint8_t *first = buffer(cut, 0), *second = buffer(aad_size - cut, 3), *in = buffer(size, offset), *wanted = buffer(size, 0);
    input_fill(&input, first, cut);
    input_fill(&input, second, aad_size - cut);
    input_fill(&input, in, size);
    const struct aead_aad aad = {{first, second}, {cut, aad_size - cut}};
    aead_seal(kernel_find("scalar"), key, nonce, nonce_size, &aad, in, size, wanted, wanted_tag);
    if (size + aad_size <= MOST_PLAIN) {
        uint8_t joined[MOST_PLAIN + 1], out[MOST_PLAIN + 1];
        memcpy(joined, first, cut);
        memcpy(joined + cut, second, aad_size - cut);
        plain_aead_seal(out, tag, in, size, joined, aad_size, key, nonce, nonce_size == 24);
        must(!memcmp(out, wanted, size) && !memcmp(tag, wanted_tag, 16), "seal is not the plain one", kernel_find("scalar"), size);
    }
    EACH_KERNEL(kernel) {
        uint8_t *out = buffer(size, 15 - offset), *opened = buffer(size, offset);
        aead_seal(kernel, key, nonce, nonce_size, &aad, in, size, out, tag);
        must(!memcmp(out, wanted, size) && !memcmp(tag, wanted_tag, 16), "seal", kernel, size);
        must(!aead_open(kernel, key, nonce, nonce_size, &aad, out, size, tag, opened), "does not open", kernel, size);
        must(!memcmp(opened, in, size), "opens to something else", kernel, size);
        aead_seal(kernel, key, nonce, nonce_size, &aad, opened, size, opened, tag);
        must(!memcmp(opened, wanted, size) && !memcmp(tag, wanted_tag, 16), "seal in place", kernel, size);
        must(!aead_open(kernel, key, nonce, nonce_size, &aad, opened, size, tag, opened), "does not open in place", kernel, size);
        must(!memcmp(opened, in, size), "opens to something else in place", kernel, size);
        buffer_free(out, 15 - offset);
        buffer_free(opened, offset);
    }
    buffer_free(first, 0);
    buffer_free(second, 3);
    buffer_free(in, offset);
    buffer_free(wanted, 0);
    return 0;
}
