/* SIMD vectors of floats, and the few functions of them that a Transformer needs.

   Written with the vector types of gcc and clang, so that one source serves every processor. The order of summation
   depends on the length only: the same row gives bitwise the same result, whatever the other rows are. */

#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define INLINE static inline __attribute__((always_inline))

/* WIDTH floats fill a register. A product keeps ROWS x PANEL_VECTORS registers of partial sums: as many as there are,
   with some left for the operands. */
#if defined(__AVX512F__)
#define WIDTH 16
#define PANEL_VECTORS 2
#define ROWS 14
#elif defined(__AVX2__)
#define WIDTH 8
#define PANEL_VECTORS 2
#define ROWS 6
#elif defined(__aarch64__)
#define WIDTH 4
#define PANEL_VECTORS 4
#define ROWS 6
#else
#define WIDTH 4
#define PANEL_VECTORS 2
#define ROWS 4
#endif
#define PANEL (WIDTH * PANEL_VECTORS)

/* Rows may begin at any float, so no larger alignment is assumed. */
typedef float floats __attribute__((vector_size(WIDTH * 4), aligned(4), may_alias));
typedef int32_t ints __attribute__((vector_size(WIDTH * 4), aligned(4), may_alias));
typedef uint16_t halves __attribute__((vector_size(WIDTH * 2), aligned(2), may_alias));

#if defined(__clang__)
#define SHUFFLE(ints, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(ints, a, b, ...) __builtin_shuffle(a, b, (ints){__VA_ARGS__})
#endif
#if WIDTH == 16
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define PLACES 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
#elif WIDTH == 8
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define ODD 1, 3, 5, 7, 9, 11, 13, 15
#define PLACES 0, 1, 2, 3, 4, 5, 6, 7
#else
#define EVEN 0, 2, 4, 6
#define ODD 1, 3, 5, 7
#define PLACES 0, 1, 2, 3
#endif

INLINE floats load(const float *from) { return *(const floats *)from; }
INLINE void store(float *to, floats x) { *(floats *)to = x; }
INLINE floats all(float x) { return x - (floats){0}; }

/* a where `mask` is set, otherwise b. */
INLINE floats choose(ints mask, floats a, floats b) { return (floats)(((ints)a & mask) | ((ints)b & ~mask)); }
/* b if either is NaN. */
#if defined(__AVX512F__)
INLINE floats larger(floats a, floats b) { return (floats)_mm512_max_ps((__m512)a, (__m512)b); }
INLINE floats smaller(floats a, floats b) { return (floats)_mm512_min_ps((__m512)a, (__m512)b); }
#elif defined(__AVX2__)
INLINE floats larger(floats a, floats b) { return (floats)_mm256_max_ps((__m256)a, (__m256)b); }
INLINE floats smaller(floats a, floats b) { return (floats)_mm256_min_ps((__m256)a, (__m256)b); }
#else
INLINE floats larger(floats a, floats b) { return choose(a > b, a, b); }
INLINE floats smaller(floats a, floats b) { return choose(a < b, a, b); }
#endif

/* 0 where x is finite, NaN elsewhere: added to a result that would otherwise hide what is not finite. */
INLINE floats check(floats x) { return x * 0.0f; }

/* The sums of adjacent pairs: first those of a, then those of b. */
INLINE floats pairs(floats a, floats b) { return SHUFFLE(ints, a, b, EVEN) + SHUFFLE(ints, a, b, ODD); }

/* The sums of WIDTH vectors, as one vector. The input is overwritten. */
INLINE floats sums(floats x[WIDTH]) {
    _Pragma("GCC unroll 4") for (int count = WIDTH / 2; count; count /= 2)
        _Pragma("GCC unroll 8") for (int i = 0; i < count; i++) x[i] = pairs(x[2 * i], x[2 * i + 1]);
    return x[0];
}

INLINE float sum(floats x) {
    for (int count = WIDTH; count > 1; count /= 2) x = pairs(x, x);
    return x[0];
}

INLINE float largest(floats x) {
    for (int count = WIDTH; count > 1; count /= 2) x = larger(SHUFFLE(ints, x, x, EVEN), SHUFFLE(ints, x, x, ODD));
    return x[0];
}

INLINE int any(ints mask) {
#if defined(__AVX512F__)
    return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#else
    int32_t found = 0;
    for (int i = 0; i < WIDTH; i++) found |= mask[i];
    return found != 0;
#endif
}

/* The first `count` floats of x, then `fill`. */
INLINE floats filled(floats x, int count, float fill) { return choose((ints){PLACES} < count, x, all(fill)); }

/* The last `count` floats of a row, then `fill`. Nothing beyond the row is read. */
INLINE floats load_part(const float *from, int count, float fill) {
#if defined(__AVX512F__)
    return (floats)_mm512_mask_loadu_ps((__m512)all(fill), (__mmask16)((1u << count) - 1), from);
#else
    floats x = all(fill);
    for (int i = 0; i < count; i++) x[i] = from[i];
    return x;
#endif
}

/* e^x to about one unit in the last place; x is clamped to -87.3, where e^x is negligible. NaN stays NaN. */
INLINE floats exponential(floats x) {
    x = larger(all(-87.3f), smaller(all(88.0f), x));
    floats magic = all(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer */
    floats whole = x * 1.44269504088896f + magic;
    ints power = (ints)whole - (ints)magic;
    whole -= magic;
    floats rest = x - whole * 0.693359375f + whole * 2.12194440e-4f; /* ln 2 in two parts */
    floats y = rest * 1.9875691500e-4f + 1.3981999507e-3f;
    y = y * rest + 8.3334519073e-3f;
    y = y * rest + 4.1665795894e-2f;
    y = y * rest + 1.6666665459e-1f;
    y = y * rest + 5.0000001201e-1f;
    y = y * rest * rest + rest + 1.0f;
    return (floats)((ints)y + (power << 23));
}

/* The error function to 1.5e-7 (Abramowitz and Stegun 7.1.26). */
INLINE floats error_function(floats x) {
    ints negative = x < 0;
    floats size = choose(negative, -x, x);
    floats t = 1.0f / (1.0f + 0.3275911f * size);
    floats y = t * 1.061405429f - 1.453152027f;
    y = y * t + 1.421413741f;
    y = y * t - 0.284496736f;
    y = (y * t + 0.254829592f) * t;
    y = 1.0f - y * exponential(-size * size);
    return choose(negative, -y, y);
}
