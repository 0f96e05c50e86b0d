/* IBM Z vector facility (z13): 16-byte vectors, the leftmost element first (z/Architecture Principles of Operation, chapters 21 to 23). */
#include <vecintrin.h>

#define V_BYTES 16
#include "vector.h"

typedef __vector unsigned char vx8;
typedef __vector unsigned int vx32;
typedef __vector unsigned long long vx64;

#define v32_rotl(x, n) ((v32)vec_rli((vx32)(x), n))

/* Turns every part's words left by n: word i becomes what word i + n was. */
#define v32_row_rotate(x, n) ((v32)vec_sld((vx32)(x), (vx32)(x), 4 * (n)))

ALWAYS_INLINE v32 v32_row_load(const uint32_t *p) { return v32_load((const uint8_t *)p); }
ALWAYS_INLINE void v32_blocks(v32 x[4]) { (void)x; }

ALWAYS_INLINE v32 v32_to_le(v32 x)
{
    const vx8 order = {3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12};
    return (v32)vec_perm((vx8)x, (vx8)x, order);
}

/* The byte order comes free with the zip, in either direction. */
ALWAYS_INLINE v32 v32_zip_low32_le(v32 a, v32 b)
{
    const vx8 order = {3, 2, 1, 0, 19, 18, 17, 16, 7, 6, 5, 4, 23, 22, 21, 20};
    return (v32)vec_perm((vx8)a, (vx8)b, order);
}

ALWAYS_INLINE v32 v32_zip_high32_le(v32 a, v32 b)
{
    const vx8 order = {11, 10, 9, 8, 27, 26, 25, 24, 15, 14, 13, 12, 31, 30, 29, 28};
    return (v32)vec_perm((vx8)a, (vx8)b, order);
}

ALWAYS_INLINE v32 v32_zip_low64(v32 a, v32 b) { return (v32)vec_mergeh((vx64)a, (vx64)b); }
ALWAYS_INLINE v32 v32_zip_high64(v32 a, v32 b) { return (v32)vec_mergel((vx64)a, (vx64)b); }
