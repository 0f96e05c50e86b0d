/* SSE2: what every x86-64 has. */
#include <emmintrin.h>

#define V_BYTES 16
#include "vector.h"

#define v32_rotl(x, n) (((x) << (n)) | ((x) >> (32 - (n))))

/* Turns every part's words left by n: word i becomes what word i + n was. */
#define v32_row_rotate(x, n) \
    ((v32)_mm_shuffle_epi32((__m128i)(x), (n) | ((n) + 1) % 4 << 2 | ((n) + 2) % 4 << 4 | ((n) + 3) % 4 << 6))

ALWAYS_INLINE v32 v32_row_load(const uint32_t *p) { return v32_load((const uint8_t *)p); }
ALWAYS_INLINE v32 v32_to_le(v32 x) { return x; }
ALWAYS_INLINE void v32_blocks(v32 x[4]) { (void)x; }
ALWAYS_INLINE v32 v32_zip_low32_le(v32 a, v32 b) { return (v32)_mm_unpacklo_epi32((__m128i)a, (__m128i)b); }
ALWAYS_INLINE v32 v32_zip_high32_le(v32 a, v32 b) { return (v32)_mm_unpackhi_epi32((__m128i)a, (__m128i)b); }
ALWAYS_INLINE v32 v32_zip_low64(v32 a, v32 b) { return (v32)_mm_unpacklo_epi64((__m128i)a, (__m128i)b); }
ALWAYS_INLINE v32 v32_zip_high64(v32 a, v32 b) { return (v32)_mm_unpackhi_epi64((__m128i)a, (__m128i)b); }

ALWAYS_INLINE v64 v64_zip_low(v64 a, v64 b) { return (v64)_mm_unpacklo_epi64((__m128i)a, (__m128i)b); }
ALWAYS_INLINE v64 v64_zip_high(v64 a, v64 b) { return (v64)_mm_unpackhi_epi64((__m128i)a, (__m128i)b); }
ALWAYS_INLINE v64 v64_mul32(v64 a, v64 b) { return (v64)_mm_mul_epu32((__m128i)a, (__m128i)b); }
