/* ChaCha20-Poly1305 (RFC 8439, section 2.8) and XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03) over any kernel. */
#ifndef SEALANE_AEAD_H
#define SEALANE_AEAD_H

#include "chacha20.h"
#include "poly1305.h"

enum {
    AEAD_TAG = POLY1305_TAG,
    AEAD_NONCE_MAX = XCHACHA20_NONCE,
};

/* Block 0 makes the one-time key, so one block less than ChaCha20's own limit. */
#define AEAD_PLAINTEXT_MAX (chacha20_limit(1))

/* The AAD comes in up to two pieces, read as one: a format's header and the caller's own. */
struct aead_aad {
    const uint8_t *piece[2];
    size_t size[2];
};

/* nonce_size is 12 or, for XChaCha, 24. out holds `size` bytes, and may be in. */
void aead_seal(const struct kernel *kernel, const uint8_t key[CHACHA20_KEY], const uint8_t *nonce, size_t nonce_size,
               const struct aead_aad *aad, const uint8_t *in, size_t size, uint8_t *out, uint8_t tag[AEAD_TAG]);

/* 0, or -1 where the tag does not verify: then nothing was written. out may be in, or NULL to verify only. */
int aead_open(const struct kernel *kernel, const uint8_t key[CHACHA20_KEY], const uint8_t *nonce, size_t nonce_size,
              const struct aead_aad *aad, const uint8_t *in, size_t size, const uint8_t tag[AEAD_TAG], uint8_t *out);

/* Constant time: 0 where both tags are the same. */
int tag_differs(const uint8_t a[AEAD_TAG], const uint8_t b[AEAD_TAG]);

#endif
