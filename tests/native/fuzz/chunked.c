/* Chunks of a stream: input in pieces that are cut anywhere, every kernel against chunks sealed one by one; then opened, opened to verify
 * only, and with one byte changed, after which nothing of the plaintext is left. */
#include "input.h"

#include "../../../engine/native/chunked.h"

enum { MOST_CHUNKS = 4, MOST_PIECES = 12 };

/* Cuts what is at `data` into at most MOST_PIECES copies, each in memory of its own. */
static size_t cut(struct input *input, const uint8_t *data, size_t size, struct chunked_piece *pieces)
{
    size_t count = 0;
    while (count < MOST_PIECES - 1) {
        const size_t take = input_size(input, size);
        if (!take && count % 2)
            break;
        uint8_t *copy = buffer(take, 0);
        memcpy(copy, data, take);
        pieces[count++] = (struct chunked_piece){copy, take};
        data += take;
        size -= take;
    }
    uint8_t *copy = buffer(size, 0);
    memcpy(copy, data, size);
    pieces[count++] = (struct chunked_piece){copy, size};
    return count;
}

static void release(const struct chunked_piece *pieces, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free((uint8_t *)pieces[i].data);
}

static void seal_one_by_one(const struct chunked *chunked, const uint8_t *in, size_t size, int last, uint8_t *out)
{
    static const struct aead_aad none;
    for (uint64_t i = 0; i < size / CHUNK_SIZE + (size_t)last; i++) {
        const size_t at = (size_t)i * CHUNK_SIZE, take = size - at < CHUNK_SIZE ? size - at : CHUNK_SIZE;
        uint8_t nonce[24];
        memcpy(nonce, chunked->base_nonce, chunked->nonce_size);
        for (size_t byte = 0; byte < 8; byte++)
            nonce[chunked->nonce_size - 1 - byte] ^= (uint8_t)((chunked->index + i) >> (8 * byte));
        uint8_t *to = out + (size_t)i * CHUNK_SEALED;
        aead_seal(kernel_find("scalar"), chunked->key, nonce, chunked->nonce_size, &none, in + at, take, to, to + take);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_size)
{
    struct input input = {data, data_size};
    uint8_t key[32], base[24];
    const uint32_t flags = input_number(&input, 1);
    const int last = flags & 1;
    const size_t whole = (flags >> 1) % (MOST_CHUNKS + 1), size = whole * CHUNK_SIZE + (last ? input_size(&input, CHUNK_SIZE - 1) : 0);
    const size_t sealed_size = size + (whole + (size_t)last) * AEAD_TAG;
    struct chunked chunked = {NULL, key, base, flags & 0x80 ? 24 : 12, ((uint64_t)input_number(&input, 2) << 22) + input_number(&input, 3)};
    const size_t change = input_number(&input, 3);
    input_bytes(&input, key, 32);
    input_bytes(&input, base, 24);
    uint8_t *in = buffer(size, 0), *wanted = buffer(sealed_size, 0);
    struct chunked_piece plain[MOST_PIECES], sealed[MOST_PIECES], forged[MOST_PIECES];
    input_fill(&input, in, size);
    const size_t plain_pieces = cut(&input, in, size, plain);
    seal_one_by_one(&chunked, in, size, last, wanted);
    const size_t sealed_pieces = cut(&input, wanted, sealed_size, sealed);
    size_t forged_pieces = 0;
    if (sealed_size) {
        wanted[change % sealed_size] ^= 0x40;
        forged_pieces = cut(&input, wanted, sealed_size, forged);
        wanted[change % sealed_size] ^= 0x40;
    }
    EACH_KERNEL(kernel) {
        uint8_t *out = buffer(sealed_size, 3), *opened = buffer(size, 1);
        chunked.kernel = kernel;
        chunked_seal(&chunked, plain, size, last, out);
        must(!memcmp(out, wanted, sealed_size), "chunks", kernel, size);
        must(!chunked_open(&chunked, sealed, sealed_size, last, NULL), "chunks do not verify", kernel, size);
        must(!chunked_open(&chunked, sealed, sealed_size, last, opened), "chunks do not open", kernel, size);
        must(!memcmp(opened, in, size), "chunks open to something else", kernel, size);
        if (sealed_size) {
            memset(opened, 0xa5, size);
            must(chunked_open(&chunked, forged, sealed_size, last, NULL) == -1, "a forged chunk verifies", kernel, size);
            must(chunked_open(&chunked, forged, sealed_size, last, opened) == -1, "a forged chunk opens", kernel, size);
            for (size_t i = 0; i < change % sealed_size / CHUNK_SEALED * CHUNK_SIZE; i++)
                must(!opened[i], "plaintext is left of chunks before a forged one", kernel, size);
        }
        buffer_free(out, 3);
        buffer_free(opened, 1);
    }
    release(plain, plain_pieces);
    release(sealed, sealed_pieces);
    release(forged, forged_pieces);
    free(in);
    free(wanted);
    return 0;
}
