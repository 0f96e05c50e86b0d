/* LoongArch LSX: 16-byte vectors (LoongArch SIMD extension, lsxintrin.h). */
#include <lsxintrin.h>

#define V_BYTES 16
#define V32_OWN
#include "vector.h"

ALWAYS_INLINE v32 v32_xor(v32 a, v32 b) { return (v32)__lsx_vxor_v((__m128i)a, (__m128i)b); }
ALWAYS_INLINE v32 v32_load(const uint8_t *p) { return (v32)__lsx_vld(p, 0); }
ALWAYS_INLINE void v32_store(uint8_t *p, v32 x) { __lsx_vst((__m128i)x, p, 0); }
ALWAYS_INLINE v32 v32_spread(const uint32_t *p) { return (v32)__lsx_vldrepl_w(p, 0); }

#define v32_rotl(x, n) ((v32)__lsx_vrotri_w((__m128i)(x), 32 - (n)))

/* Turns every part's words left by n: word i becomes what word i + n was. */
#define v32_row_rotate(x, n) ((v32)__lsx_vshuf4i_w((__m128i)(x), (n) | ((n) + 1) % 4 << 2 | ((n) + 2) % 4 << 4 | ((n) + 3) % 4 << 6))

ALWAYS_INLINE v32 v32_row_load(const uint32_t *p) { return v32_load((const uint8_t *)p); }
ALWAYS_INLINE v32 v32_to_le(v32 x) { return x; }
ALWAYS_INLINE void v32_blocks(v32 x[4]) { (void)x; }
ALWAYS_INLINE v32 v32_zip_low32_le(v32 a, v32 b) { return (v32)__lsx_vilvl_w((__m128i)b, (__m128i)a); }
ALWAYS_INLINE v32 v32_zip_high32_le(v32 a, v32 b) { return (v32)__lsx_vilvh_w((__m128i)b, (__m128i)a); }
ALWAYS_INLINE v32 v32_zip_low64(v32 a, v32 b) { return (v32)__lsx_vilvl_d((__m128i)b, (__m128i)a); }
ALWAYS_INLINE v32 v32_zip_high64(v32 a, v32 b) { return (v32)__lsx_vilvh_d((__m128i)b, (__m128i)a); }

#define loong_zip_low64(a, b) ((v64)__lsx_vilvl_d((__m128i)(b), (__m128i)(a)))
#define loong_mul_low(a, b) ((v64)__lsx_vmulwev_q_du((__m128i)(a), (__m128i)(b)))
#define loong_mac_low(sum, a, b) ((v64)__lsx_vmaddwev_q_du((__m128i)(sum), (__m128i)(a), (__m128i)(b)))
#define loong_mac_high(sum, a, b) ((v64)__lsx_vmaddwod_q_du((__m128i)(sum), (__m128i)(a), (__m128i)(b)))
#define loong_add128(a, b) ((v64)__lsx_vadd_q((__m128i)(a), (__m128i)(b)))
#define loong_shift128(high, low, n) ((v64)__lsx_vsrlni_d_q((__m128i)(high), (__m128i)(low), n))
#define loong_bit_set(x, n) ((v64)__lsx_vbitseti_d((__m128i)(x), n))
