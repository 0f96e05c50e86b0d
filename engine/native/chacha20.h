/* ChaCha20 over any kernel (RFC 8439, section 2.4) and HChaCha20 (draft-irtf-cfrg-xchacha-03, section 2.2). */
#ifndef SEALANE_CHACHA20_H
#define SEALANE_CHACHA20_H

#include "kernel.h"

enum {
    CHACHA20_KEY = 32,
    CHACHA20_NONCE = 12,
    HCHACHA20_NONCE = 16,
    XCHACHA20_NONCE = 24,
};

/* Bytes that one key and nonce may encrypt from block `counter` on: the 32-bit counter never wraps. */
static inline uint64_t chacha20_limit(uint32_t counter)
{
    return ((UINT64_C(1) << 32) - counter) * CHACHA20_BLOCK;
}

void chacha20_state(uint32_t state[16], const uint8_t key[CHACHA20_KEY], uint32_t counter, const uint8_t nonce[CHACHA20_NONCE]);

/* XORs the keystream into `size` bytes and moves the counter on; out may be in, and otherwise does not overlap it. */
void chacha20_xor(const struct kernel *kernel, uint32_t state[16], uint8_t *out, const uint8_t *in, size_t size);

/* out = in ^ keystream, for what one rows pass covers. */
void chacha20_xor_bytes(uint8_t *out, const uint8_t *in, const uint8_t *keystream, size_t size);

void hchacha20(const struct kernel *kernel, uint8_t subkey[CHACHA20_KEY], const uint8_t key[CHACHA20_KEY],
               const uint8_t nonce[HCHACHA20_NONCE]);

/* The state for XChaCha20: HChaCha20's subkey and the last 8 bytes of the nonce. */
void xchacha20_state(const struct kernel *kernel, uint32_t state[16], const uint8_t key[CHACHA20_KEY], uint32_t counter,
                     const uint8_t nonce[XCHACHA20_NONCE]);

#endif
