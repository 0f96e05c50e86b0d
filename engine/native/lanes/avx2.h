/* AVX2: two 16-byte parts a vector. */
#include <immintrin.h>

#define V_BYTES 32
#include "vector.h"

ALWAYS_INLINE v32 v32_rotl16(v32 x)
{
    const __m256i order = _mm256_set_epi8(13, 12, 15, 14, 9, 8, 11, 10, 5, 4, 7, 6, 1, 0, 3, 2, 13, 12, 15, 14, 9, 8, 11, 10, 5, 4, 7, 6,
                                          1, 0, 3, 2);
    return (v32)_mm256_shuffle_epi8((__m256i)x, order);
}

ALWAYS_INLINE v32 v32_rotl8(v32 x)
{
    const __m256i order = _mm256_set_epi8(14, 13, 12, 15, 10, 9, 8, 11, 6, 5, 4, 7, 2, 1, 0, 3, 14, 13, 12, 15, 10, 9, 8, 11, 6, 5, 4, 7,
                                          2, 1, 0, 3);
    return (v32)_mm256_shuffle_epi8((__m256i)x, order);
}

ALWAYS_INLINE v32 v32_rotl(v32 x, int n)
{
    return n == 16 ? v32_rotl16(x) : n == 8 ? v32_rotl8(x) : (v32)((x << n) | (x >> (32 - n)));
}

#define v32_row_rotate(x, n) \
    ((v32)_mm256_shuffle_epi32((__m256i)(x), (n) | ((n) + 1) % 4 << 2 | ((n) + 2) % 4 << 4 | ((n) + 3) % 4 << 6))

ALWAYS_INLINE v32 v32_row_load(const uint32_t *p) { return (v32)_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p)); }
ALWAYS_INLINE v32 v32_to_le(v32 x) { return x; }

/* Four vectors of one part of 16 bytes per block become whole blocks, one after another. */
ALWAYS_INLINE void v32_blocks(v32 x[4])
{
    const __m256i a = (__m256i)x[0], b = (__m256i)x[1], c = (__m256i)x[2], d = (__m256i)x[3];
    x[0] = (v32)_mm256_permute2x128_si256(a, b, 0x20), x[1] = (v32)_mm256_permute2x128_si256(c, d, 0x20);
    x[2] = (v32)_mm256_permute2x128_si256(a, b, 0x31), x[3] = (v32)_mm256_permute2x128_si256(c, d, 0x31);
}

ALWAYS_INLINE v32 v32_zip_low32_le(v32 a, v32 b) { return (v32)_mm256_unpacklo_epi32((__m256i)a, (__m256i)b); }
ALWAYS_INLINE v32 v32_zip_high32_le(v32 a, v32 b) { return (v32)_mm256_unpackhi_epi32((__m256i)a, (__m256i)b); }
ALWAYS_INLINE v32 v32_zip_low64(v32 a, v32 b) { return (v32)_mm256_unpacklo_epi64((__m256i)a, (__m256i)b); }
ALWAYS_INLINE v32 v32_zip_high64(v32 a, v32 b) { return (v32)_mm256_unpackhi_epi64((__m256i)a, (__m256i)b); }

ALWAYS_INLINE v64 v64_zip_low(v64 a, v64 b) { return (v64)_mm256_unpacklo_epi64((__m256i)a, (__m256i)b); }
ALWAYS_INLINE v64 v64_zip_high(v64 a, v64 b) { return (v64)_mm256_unpackhi_epi64((__m256i)a, (__m256i)b); }
ALWAYS_INLINE v64 v64_mul32(v64 a, v64 b) { return (v64)_mm256_mul_epu32((__m256i)a, (__m256i)b); }
