/* LoongArch LASX: 32-byte vectors of two parts (LoongArch advanced SIMD extension, lasxintrin.h). */
#include <lasxintrin.h>

#define V_BYTES 32
#define V32_OWN
#include "vector.h"

ALWAYS_INLINE v32 v32_xor(v32 a, v32 b) { return (v32)__lasx_xvxor_v((__m256i)a, (__m256i)b); }
ALWAYS_INLINE v32 v32_load(const uint8_t *p) { return (v32)__lasx_xvld(p, 0); }
ALWAYS_INLINE void v32_store(uint8_t *p, v32 x) { __lasx_xvst((__m256i)x, p, 0); }
ALWAYS_INLINE v32 v32_spread(const uint32_t *p) { return (v32)__lasx_xvldrepl_w(p, 0); }

#define v32_rotl(x, n) ((v32)__lasx_xvrotri_w((__m256i)(x), 32 - (n)))
#define v32_row_rotate(x, n) ((v32)__lasx_xvshuf4i_w((__m256i)(x), (n) | ((n) + 1) % 4 << 2 | ((n) + 2) % 4 << 4 | ((n) + 3) % 4 << 6))

ALWAYS_INLINE v32 v32_row_load(const uint32_t *p)
{
    const v32 x = {p[0], p[1], p[2], p[3], p[0], p[1], p[2], p[3]};
    return x;
}

ALWAYS_INLINE v32 v32_to_le(v32 x) { return x; }

/* Four vectors of one part of 16 bytes per block become whole blocks, one after another. */
ALWAYS_INLINE void v32_blocks(v32 x[4])
{
    const __m256i a = (__m256i)x[0], b = (__m256i)x[1], c = (__m256i)x[2], d = (__m256i)x[3];
    x[0] = (v32)__lasx_xvpermi_q(b, a, 0x20), x[1] = (v32)__lasx_xvpermi_q(d, c, 0x20);
    x[2] = (v32)__lasx_xvpermi_q(b, a, 0x31), x[3] = (v32)__lasx_xvpermi_q(d, c, 0x31);
}

ALWAYS_INLINE v32 v32_zip_low32_le(v32 a, v32 b) { return (v32)__lasx_xvilvl_w((__m256i)b, (__m256i)a); }
ALWAYS_INLINE v32 v32_zip_high32_le(v32 a, v32 b) { return (v32)__lasx_xvilvh_w((__m256i)b, (__m256i)a); }
ALWAYS_INLINE v32 v32_zip_low64(v32 a, v32 b) { return (v32)__lasx_xvilvl_d((__m256i)b, (__m256i)a); }
ALWAYS_INLINE v32 v32_zip_high64(v32 a, v32 b) { return (v32)__lasx_xvilvh_d((__m256i)b, (__m256i)a); }

#define loong_zip_low64(a, b) ((v64)__lasx_xvilvl_d((__m256i)(b), (__m256i)(a)))
#define loong_mul_low(a, b) ((v64)__lasx_xvmulwev_q_du((__m256i)(a), (__m256i)(b)))
#define loong_mac_low(sum, a, b) ((v64)__lasx_xvmaddwev_q_du((__m256i)(sum), (__m256i)(a), (__m256i)(b)))
#define loong_mac_high(sum, a, b) ((v64)__lasx_xvmaddwod_q_du((__m256i)(sum), (__m256i)(a), (__m256i)(b)))
#define loong_add128(a, b) ((v64)__lasx_xvadd_q((__m256i)(a), (__m256i)(b)))
#define loong_shift128(high, low, n) ((v64)__lasx_xvsrlni_d_q((__m256i)(high), (__m256i)(low), n))
#define loong_bit_set(x, n) ((v64)__lasx_xvbitseti_d((__m256i)(x), n))
