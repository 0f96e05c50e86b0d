/* Chunks of a sealed stream (c2sp.org/chunked-encryption, v1), many in one call. Key, base nonce and header are the caller's business. */
#ifndef SEALANE_CHUNKED_H
#define SEALANE_CHUNKED_H

#include "aead.h"

enum {
    CHUNK_SIZE = 16 * 1024, /* plaintext of every chunk but the last, which is shorter */
    CHUNK_SEALED = CHUNK_SIZE + AEAD_TAG,
};

#define CHUNKS_MOST ((uint64_t)1 << 38)

/* Where a run of chunks belongs: chunk `index + i` has the base nonce XOR that number, big-endian, as its nonce. */
struct chunked {
    const struct kernel *kernel;
    const uint8_t *key, *base_nonce;
    size_t nonce_size;
    uint64_t index;
};

/* Input comes in pieces, read as one. */
struct chunked_piece {
    const uint8_t *data;
    size_t size;
};

/* Seals `size` bytes as whole chunks, and what is left, if only nothing, as one more where that is the last. out: the sealed chunks,
   apart from the input. */
void chunked_seal(const struct chunked *chunked, const struct chunked_piece *pieces, size_t size, int last, uint8_t *out);

/* The inverse for `size` sealed bytes, of which the last chunk is at least a tag; out may be NULL to verify only. 0, or -1 where a chunk does
   not verify: then out holds nothing of the plaintext. */
int chunked_open(const struct chunked *chunked, const struct chunked_piece *pieces, size_t size, int last, uint8_t *out);

#endif
