#include "chunked.h"

#include "bytes.h"

static const struct aead_aad NO_AAD; /* the context is bound into the key */

/* How far a run of pieces has been read. */
struct reader {
    const struct chunked_piece *piece;
    size_t at;
};

static void copy(struct reader *reader, uint8_t *to, size_t size)
{
    while (size) {
        const size_t left = reader->piece->size - reader->at, take = left < size ? left : size;
        if (take) /* an empty piece may have no address */
            memcpy(to, reader->piece->data + reader->at, take);
        to += take;
        size -= take;
        reader->at += take;
        if (size) {
            reader->piece++;
            reader->at = 0;
        }
    }
}

/* The next `size` bytes: where they are if one piece holds them, else brought together in `room`. */
static const uint8_t *next(struct reader *reader, uint8_t *room, size_t size)
{
    while (size && reader->at == reader->piece->size) {
        reader->piece++;
        reader->at = 0;
    }
    if (size && reader->piece->size - reader->at >= size) {
        const uint8_t *found = reader->piece->data + reader->at;
        reader->at += size;
        return found;
    }
    copy(reader, room, size);
    return room;
}

static void nonce_of(const struct chunked *chunked, uint64_t number, uint8_t nonce[AEAD_NONCE_MAX])
{
    memcpy(nonce, chunked->base_nonce, chunked->nonce_size);
    for (size_t at = chunked->nonce_size; number; number >>= 8)
        nonce[--at] ^= (uint8_t)number;
}

void chunked_seal(const struct chunked *chunked, const struct chunked_piece *pieces, size_t size, int last, uint8_t *out)
{
    struct reader reader = {pieces, 0};
    uint8_t nonce[AEAD_NONCE_MAX];
    const uint64_t count = size / CHUNK_SIZE + (last ? 1 : 0);
    for (uint64_t i = 0; i < count; i++) {
        const size_t take = size < CHUNK_SIZE ? size : CHUNK_SIZE;
        nonce_of(chunked, chunked->index + i, nonce);
        aead_seal(chunked->kernel, chunked->key, nonce, chunked->nonce_size, &NO_AAD, next(&reader, out, take), take, out, out + take);
        out += take + AEAD_TAG;
        size -= take;
    }
    wipe(nonce, sizeof nonce);
}

int chunked_open(const struct chunked *chunked, const struct chunked_piece *pieces, size_t size, int last, uint8_t *out)
{
    struct reader reader = {pieces, 0};
    uint8_t nonce[AEAD_NONCE_MAX], tag[AEAD_TAG], sealed[CHUNK_SIZE];
    uint8_t *to = out;
    const uint64_t count = size / CHUNK_SEALED + (last ? 1 : 0);
    int differs = 0;
    for (uint64_t i = 0; i < count && !differs; i++) {
        const size_t take = (size < CHUNK_SEALED ? size : CHUNK_SEALED) - AEAD_TAG;
        nonce_of(chunked, chunked->index + i, nonce);
        const uint8_t *in = next(&reader, out ? to : sealed, take);
        copy(&reader, tag, sizeof tag);
        differs = aead_open(chunked->kernel, chunked->key, nonce, chunked->nonce_size, &NO_AAD, in, take, tag, out ? to : NULL);
        size -= take + AEAD_TAG;
        if (out && !differs)
            to += take;
        else if (out)
            wipe(out, (size_t)(to - out));
    }
    wipe(nonce, sizeof nonce);
    return differs;
}
