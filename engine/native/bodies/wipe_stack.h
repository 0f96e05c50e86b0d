/* Clears what calls left on the stack and in vector registers: compilers spill keys, powers of r and keystream into frames that nobody
 * wipes, and whoever saves registers next (a signal, the dynamic linker at a function's first call) puts them on the stack.
 *
 * The frame of a callee lies where those of its elder siblings lay. tests/native/stacktest.c shows that the sizes are enough. */
#include "../bytes.h"

#define STACK_FEW 576 /* bytes below a caller of the rows pass and of single Poly1305 blocks; up to eight vectors stay at the far end */
#ifndef STACK_MOST
#define STACK_MOST 3200 /* below a caller of anything else */
#endif

ALWAYS_INLINE void clear_stack(uint8_t *area, size_t size)
{
#if defined(V_BYTES) && (V_BYTES == 64 || !defined(__x86_64__)) /* elsewhere the C library's is as good */
    enum { AT_ONCE = 8 };
    const v32 zero = v32_set1(0);
    uint8_t *end = area + size;
    v32_store(end - sizeof(v32), zero);
    end -= (uintptr_t)end % sizeof(v32); /* a store over a cache line's end costs twice */
    for (; end >= area + AT_ONCE * sizeof(v32); end -= AT_ONCE * sizeof(v32))
        UNROLL for (int i = 1; i <= AT_ONCE; i++) v32_store(end - (size_t)i * sizeof(v32), zero);
#else
    __asm__("" : "+r"(size)); /* hidden: of a constant it would make string instructions, which start slowly */
    memset(area, 0, size);
#endif
    __asm__ volatile("" : : "r"(area) : "memory");
}

/* Instructions that all CPUs since these ISAs take for "becomes zero". */
ALWAYS_INLINE void clear_registers(void)
{
#ifdef __x86_64__
#ifdef __AVX__
#define CLEAR(n) __asm__ volatile("vpxor %%xmm" #n ", %%xmm" #n ", %%xmm" #n : : : "xmm" #n);
#else
#define CLEAR(n) __asm__ volatile("pxor %%xmm" #n ", %%xmm" #n : : : "xmm" #n);
#endif
    CLEAR(0) CLEAR(1) CLEAR(2) CLEAR(3) CLEAR(4) CLEAR(5) CLEAR(6) CLEAR(7)
    CLEAR(8) CLEAR(9) CLEAR(10) CLEAR(11) CLEAR(12) CLEAR(13) CLEAR(14) CLEAR(15)
#undef CLEAR
#ifdef __AVX512F__
#define CLEAR(n) __asm__ volatile("vpxord %%xmm" #n ", %%xmm" #n ", %%xmm" #n : : : "xmm" #n);
    CLEAR(16) CLEAR(17) CLEAR(18) CLEAR(19) CLEAR(20) CLEAR(21) CLEAR(22) CLEAR(23)
    CLEAR(24) CLEAR(25) CLEAR(26) CLEAR(27) CLEAR(28) CLEAR(29) CLEAR(30) CLEAR(31)
#undef CLEAR
#endif
#endif
}

static __attribute__((noinline)) void wipe_stack_few(void)
{
    uint8_t area[STACK_FEW];
    clear_stack(area, sizeof area);
}

static __attribute__((noinline)) void wipe_stack_most(void)
{
    uint8_t area[STACK_MOST];
    clear_stack(area, sizeof area);
}

static void wipe_stack(int most)
{
    if (most)
        wipe_stack_most();
    else
        wipe_stack_few();
    clear_registers();
}

#define KERNEL_WIPE .wipe_stack = wipe_stack
