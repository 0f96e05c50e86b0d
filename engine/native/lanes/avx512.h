/* AVX-512 (F, VL, BW, DQ): four 16-byte parts a vector. */
#include <immintrin.h>

#define V_BYTES 64
#include "vector.h"

#define v32_rotl(x, n) ((v32)_mm512_rol_epi32((__m512i)(x), n))
#define v32_row_rotate(x, n) \
    ((v32)_mm512_shuffle_epi32((__m512i)(x), (n) | ((n) + 1) % 4 << 2 | ((n) + 2) % 4 << 4 | ((n) + 3) % 4 << 6))

ALWAYS_INLINE v32 v32_row_load(const uint32_t *p) { return (v32)_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)p)); }
ALWAYS_INLINE v32 v32_to_le(v32 x) { return x; }

/* Four vectors of one part of 16 bytes per block become whole blocks, one after another: a transpose of parts. */
ALWAYS_INLINE void v32_blocks(v32 x[4])
{
    const __m512i a = (__m512i)x[0], b = (__m512i)x[1], c = (__m512i)x[2], d = (__m512i)x[3];
    const __m512i ab01 = _mm512_shuffle_i32x4(a, b, 0x44), ab23 = _mm512_shuffle_i32x4(a, b, 0xee);
    const __m512i cd01 = _mm512_shuffle_i32x4(c, d, 0x44), cd23 = _mm512_shuffle_i32x4(c, d, 0xee);
    x[0] = (v32)_mm512_shuffle_i32x4(ab01, cd01, 0x88), x[1] = (v32)_mm512_shuffle_i32x4(ab01, cd01, 0xdd);
    x[2] = (v32)_mm512_shuffle_i32x4(ab23, cd23, 0x88), x[3] = (v32)_mm512_shuffle_i32x4(ab23, cd23, 0xdd);
}

ALWAYS_INLINE v32 v32_zip_low32_le(v32 a, v32 b) { return (v32)_mm512_unpacklo_epi32((__m512i)a, (__m512i)b); }
ALWAYS_INLINE v32 v32_zip_high32_le(v32 a, v32 b) { return (v32)_mm512_unpackhi_epi32((__m512i)a, (__m512i)b); }
ALWAYS_INLINE v32 v32_zip_low64(v32 a, v32 b) { return (v32)_mm512_unpacklo_epi64((__m512i)a, (__m512i)b); }
ALWAYS_INLINE v32 v32_zip_high64(v32 a, v32 b) { return (v32)_mm512_unpackhi_epi64((__m512i)a, (__m512i)b); }

ALWAYS_INLINE v64 v64_zip_low(v64 a, v64 b) { return (v64)_mm512_unpacklo_epi64((__m512i)a, (__m512i)b); }
ALWAYS_INLINE v64 v64_zip_high(v64 a, v64 b) { return (v64)_mm512_unpackhi_epi64((__m512i)a, (__m512i)b); }
ALWAYS_INLINE v64 v64_mul32(v64 a, v64 b) { return (v64)_mm512_mul_epu32((__m512i)a, (__m512i)b); }
