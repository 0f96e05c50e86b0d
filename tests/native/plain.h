/* A second implementation of everything, plain and slow, from RFC 8439 and draft-irtf-cfrg-xchacha-03: numbers are arrays of bytes or
 * 32-bit words and nothing is shared with the engine. */
#ifndef SEALANE_PLAIN_H
#define SEALANE_PLAIN_H

#include <stddef.h>
#include <stdint.h>

void plain_chacha20_xor(uint8_t *out, const uint8_t *in, size_t size, const uint8_t key[32], uint32_t counter, const uint8_t nonce[12]);
void plain_hchacha20(uint8_t out[32], const uint8_t key[32], const uint8_t nonce[16]);
void plain_poly1305(uint8_t tag[16], const uint8_t *message, size_t size, const uint8_t key[32]);
void plain_aead_seal(uint8_t *out, uint8_t tag[16], const uint8_t *in, size_t size, const uint8_t *aad, size_t aad_size,
                     const uint8_t key[32], const uint8_t *nonce, int extended);

/* Whether `result` is what a kernel must make of accumulator h (both in radix 2^64) and whole vectors of `vector` bytes, where all powers
   of r are the same `factor` (radix 2^44): the sum is multiplied by it after each vector. */
int plain_vectors_equal(const uint64_t h[3], const uint64_t factor[3], const uint8_t *in, size_t size, size_t vector,
                        const uint64_t result[3]);

#endif
