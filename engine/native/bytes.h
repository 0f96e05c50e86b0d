/* Little-endian loads and stores, and wiping. */
#ifndef SEALANE_BYTES_H
#define SEALANE_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Unrolls every loop with a constant count that follows it, with gcc and clang alike (gcc takes at most 65534). */
#define DO_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define UNROLL DO_PRAGMA(clang loop unroll(full))
#else
#define UNROLL DO_PRAGMA(GCC unroll 64)
#endif

#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE uint32_t load32_le(const uint8_t *p)
{
    uint32_t x;
    memcpy(&x, p, sizeof x);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap32(x);
#endif
    return x;
}

ALWAYS_INLINE uint64_t load64_le(const uint8_t *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap64(x);
#endif
    return x;
}

ALWAYS_INLINE void store32_le(uint8_t *p, uint32_t x)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap32(x);
#endif
    memcpy(p, &x, sizeof x);
}

ALWAYS_INLINE void store64_le(uint8_t *p, uint64_t x)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap64(x);
#endif
    memcpy(p, &x, sizeof x);
}

/* Clears secrets in a way that no optimiser takes for a dead store. */
ALWAYS_INLINE void wipe(void *p, size_t size)
{
    memset(p, 0, size);
    __asm__ volatile("" : : "r"(p) : "memory");
}

/* Marks the one bit of a secret computation that everyone may know, such as whether a tag was right. Does nothing but in the build whose
   secrets are watched (tests/native/constant_time.c). */
#ifdef SEALANE_WATCH_SECRETS
#include <valgrind/memcheck.h>
#define PUBLIC(bit) (void)VALGRIND_MAKE_MEM_DEFINED(&(bit), sizeof(bit))
#else
#define PUBLIC(bit) (void)0
#endif

#endif
