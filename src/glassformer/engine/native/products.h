/* Rows times a matrix, in three precisions.

   A matrix is stored in panels of PANEL columns, each panel row by row, so that a product reads it from front to back.
   Every number of the result is one sum in the order of the matrix's rows, however many rows of x there are: the bits of
   a row do not depend on its neighbours. */

#pragma once

#include "rows.h"

enum precision { FLOAT32, FLOAT16, INT8 };

typedef struct {
    int32_t precision, inputs, outputs; /* outputs in whole panels: what is not needed is multiplied by zeros */
    const void *weight;                 /* panels; of int8, four rows of a column stand together */
    const float *bias;                  /* of every output */
    const float *scale;                 /* int8: what one step of an output's weights is worth */
    const int32_t *sums;                /* int8: 128 times the sum of an output's weights */
} product;

#define DEPTH 512 /* rows of a panel that are worked on at once: they stay in the nearest caches */
#define EACH_ROW _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
#define EACH_VECTOR _Pragma("GCC unroll 8") for (int v = 0; v < PANEL_VECTORS; v++)

/* Bring these bytes near, while something else is done. */
INLINE void ask_for(const char *bytes, int count) {
    __builtin_prefetch(bytes, 0, 2);
    if (count > 64) __builtin_prefetch(bytes + 64, 0, 2);
}

INLINE floats load_half(const uint16_t *from) {
#if defined(__AVX512F__)
    return (floats)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
#elif defined(__AVX2__) && defined(__F16C__)
    return (floats)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
#elif defined(__aarch64__)
    return (floats)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from)));
#else
    floats x;
    for (int i = 0; i < WIDTH; i++) x[i] = (float)((const _Float16 *)from)[i];
    return x;
#endif
}

/* Add up to ROWS rows of x, interleaved, times `depth` rows of a panel to y; `begin` with the bias. `rows` and `half` are
   known where this is inlined. Meanwhile what comes next is asked for, `pace` bytes for every row of the panel. */
INLINE void block_floats(int rows, int half, int depth, const float *x, const void *panel, const char *next, int pace,
                         const float *begin, float *y, ptrdiff_t y_stride) {
    floats total[ROWS][PANEL_VECTORS];
    EACH_ROW EACH_VECTOR total[i][v] = load(begin ? begin + v * WIDTH : y + i * y_stride + v * WIDTH);
    const int bytes = PANEL * (half ? 2 : 4);
    for (int k = 0; k < depth; k++) {
        const char *here = (const char *)panel + (ptrdiff_t)k * bytes;
        ask_for(next + (ptrdiff_t)k * pace, pace);
        floats w[PANEL_VECTORS];
        EACH_VECTOR w[v] = half ? load_half((const uint16_t *)here + v * WIDTH) : load((const float *)here + v * WIDTH);
        EACH_ROW {
            float factor = x[(ptrdiff_t)k * rows + i];
            EACH_VECTOR total[i][v] += factor * w[v];
        }
    }
    EACH_ROW EACH_VECTOR store(y + i * y_stride + v * WIDTH, total[i][v]);
}

/* total += four products of bytes, for every column. */
INLINE ints four_products(ints total, const uint8_t *x, const int8_t *w) {
#if defined(__AVX512VNNI__)
    int32_t four;
    memcpy(&four, x, 4);
    return (ints)_mm512_dpbusd_epi32((__m512i)total, _mm512_set1_epi32(four), _mm512_loadu_si512(w));
#elif defined(__AVXVNNI__) && WIDTH == 8
    int32_t four;
    memcpy(&four, x, 4);
    return (ints)_mm256_dpbusd_avx_epi32((__m256i)total, _mm256_set1_epi32(four), _mm256_loadu_si256((const __m256i *)w));
#elif defined(__AVX2__) && WIDTH == 8
    /* In 16 bits, where pairs cannot overflow: 255 * 127 * 2 is too much for the instruction that takes bytes. */
    int32_t four;
    memcpy(&four, x, 4);
    __m256i wide_x = _mm256_cvtepu8_epi16(_mm_set1_epi32(four));
    __m256i low = _mm256_madd_epi16(wide_x, _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)w)));
    __m256i high = _mm256_madd_epi16(wide_x, _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(w + 16))));
    __m256i pairs = _mm256_permute4x64_epi64(_mm256_hadd_epi32(low, high), 0xd8);
    return total + (ints)pairs;
#else
    for (int i = 0; i < WIDTH; i++) total[i] += x[0] * w[4 * i] + x[1] * w[4 * i + 1] + x[2] * w[4 * i + 2] + x[3] * w[4 * i + 3];
    return total;
#endif
}

/* The same with bytes; the sums are whole numbers, so their order does not matter. `worth`: of one step of each row. */
INLINE void block_bytes(int rows, const product *by, const uint8_t *x, ptrdiff_t x_stride, int column, const char *next,
                        int pace, const float *worth, float *y, ptrdiff_t y_stride) {
    ints total[ROWS][PANEL_VECTORS];
    EACH_ROW EACH_VECTOR total[i][v] = (ints){0};
    int depth = (by->inputs + 3) / 4, bytes = PANEL * 4;
    const int8_t *panel = (const int8_t *)by->weight + (ptrdiff_t)column * depth * 4;
    for (int k = 0; k < depth; k++, panel += bytes) {
        ask_for(next + (ptrdiff_t)k * pace, pace);
        EACH_ROW EACH_VECTOR total[i][v] = four_products(total[i][v], x + i * x_stride + 4 * k, panel + v * WIDTH * 4);
    }
    EACH_VECTOR {
        int c = column + v * WIDTH;
        ints sums = *(const ints *)(by->sums + c);
        floats scale = load(by->scale + c), bias = load(by->bias + c);
        EACH_ROW {
            floats whole = __builtin_convertvector(total[i][v] - sums, floats);
            store(y + i * y_stride + c, whole * (worth[i] * scale) + bias);
        }
    }
}

/* Up to ROWS rows; the number is made a constant, so that the sums live in registers. */
#define BY_ROWS(rows, CALL)                                                                                            \
    switch (rows) {                                                                                                    \
    case 1: CALL(1); break;                                                                                            \
    case 2: CALL(2); break;                                                                                            \
    case 3: CALL(3); break;                                                                                            \
    case 4: CALL(4); break;                                                                                            \
    BY_MORE_ROWS(CALL)                                                                                                 \
    }
#if ROWS == 14
#define BY_MORE_ROWS(CALL)                                                                                             \
    case 5: CALL(5); break;                                                                                            \
    case 6: CALL(6); break;                                                                                            \
    case 7: CALL(7); break;                                                                                            \
    case 8: CALL(8); break;                                                                                            \
    case 9: CALL(9); break;                                                                                            \
    case 10: CALL(10); break;                                                                                          \
    case 11: CALL(11); break;                                                                                          \
    case 12: CALL(12); break;                                                                                          \
    case 13: CALL(13); break;                                                                                          \
    case 14: CALL(14); break;
#elif ROWS == 6
#define BY_MORE_ROWS(CALL)                                                                                             \
    case 5: CALL(5); break;                                                                                            \
    case 6: CALL(6); break;
#else
#define BY_MORE_ROWS(CALL)
#endif

/* Whole numbers from 1 to 255 for a row, 128 for nothing; returns what one step is worth. */
static float quantise(int size, const float *x, uint8_t *steps) {
    floats top = {0};
    ints wrong = {0};
    for (int i = 0; i < size; i += WIDTH) {
        floats part = size - i < WIDTH ? load_part(x + i, size - i, 0) : load(x + i);
        top = larger(larger(part, -part), top);
        wrong |= part != part;
    }
    float most = largest(top);
    float worth = most / 127, inverse = most > 0 ? 127 / most : 0;
    int i = 0;
    for (; i < size; i++) { /* adding 1.5 * 2^23 rounds; the low bits are the number */
        float shifted = x[i] * inverse + 12583040.0f;
        uint32_t bits;
        memcpy(&bits, &shifted, 4);
        steps[i] = (uint8_t)bits;
    }
    for (; i % 4; i++) steps[i] = 128;
    return any(wrong) ? NAN : worth; /* what is no number stays none */
}

typedef float four_floats __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t four_ints __attribute__((vector_size(16)));

/* Numbers that are read together stand together: the first of all rows, the second of all rows, ... */
static void interleave(int rows, int size, const float *x, ptrdiff_t x_stride, float *out) {
    int i = 0;
    for (; i + 4 <= rows; i += 4) { /* squares of 4 x 4 are turned over in registers */
        const float *from = x + i * x_stride;
        float *to = out + i;
        int k = 0;
        for (; k + 4 <= size; k += 4, from += 4, to += 4 * rows) {
            four_floats a = *(const four_floats *)from, b = *(const four_floats *)(from + x_stride);
            four_floats c = *(const four_floats *)(from + 2 * x_stride), d = *(const four_floats *)(from + 3 * x_stride);
            four_floats ab = SHUFFLE(four_ints, a, b, 0, 4, 1, 5), cd = SHUFFLE(four_ints, c, d, 0, 4, 1, 5);
            *(four_floats *)to = SHUFFLE(four_ints, ab, cd, 0, 1, 4, 5), *(four_floats *)(to + rows) = SHUFFLE(four_ints, ab, cd, 2, 3, 6, 7);
            ab = SHUFFLE(four_ints, a, b, 2, 6, 3, 7), cd = SHUFFLE(four_ints, c, d, 2, 6, 3, 7);
            *(four_floats *)(to + 2 * rows) = SHUFFLE(four_ints, ab, cd, 0, 1, 4, 5);
            *(four_floats *)(to + 3 * rows) = SHUFFLE(four_ints, ab, cd, 2, 3, 6, 7);
        }
        for (; k < size; k++, from++, to += rows)
            for (int j = 0; j < 4; j++) to[j] = from[j * x_stride];
    }
    for (; i < rows; i++)
        for (int k = 0; k < size; k++) out[(ptrdiff_t)k * rows + i] = x[i * x_stride + k];
}

/* y = x W + b for `count` rows. `room`: for all of x once more, and two floats more a row. */
static void multiply(const product *by, int count, const float *x, ptrdiff_t x_stride, float *y, ptrdiff_t y_stride,
                     float *room) {
    int blocks = (count + ROWS - 1) / ROWS;
#define FIRST_ROW(b) ((int)((int64_t)count * (b) / blocks)) /* blocks of like size: small ones waste registers */
    if (by->precision == INT8) {
        int stride = (by->inputs + 3) / 4 * 4;
        float *worth = room;
        uint8_t *steps = (uint8_t *)(room + count);
        for (int i = 0; i < count; i++) worth[i] = quantise(by->inputs, x + i * x_stride, steps + (ptrdiff_t)i * stride);
        for (int column = 0; column < by->outputs; column += PANEL)
            for (int b = 0; b < blocks; b++) {
                int row = FIRST_ROW(b), rows = FIRST_ROW(b + 1) - row, pace = PANEL * 4 / blocks;
                const char *next = (const char *)by->weight + (ptrdiff_t)(column + PANEL) * stride + (ptrdiff_t)b * stride / 4 * pace;
                const uint8_t *from = steps + (ptrdiff_t)row * stride;
#define BYTES(n) block_bytes(n, by, from, stride, column, next, pace, worth + row, y + row * y_stride, y_stride)
                BY_ROWS(rows, BYTES)
            }
        return;
    }
    int half = by->precision == FLOAT16, bytes_a_row = PANEL * (half ? 2 : 4);
    for (int b = 0; b < blocks && count > 1; b++) {
        int row = FIRST_ROW(b);
        interleave(FIRST_ROW(b + 1) - row, by->inputs, x + row * x_stride, x_stride, room + (ptrdiff_t)row * by->inputs);
    }
    if (count > 1) x = room;
    for (int column = 0; column < by->outputs; column += PANEL)
        for (int first = 0; first < by->inputs; first += DEPTH) {
            int depth = by->inputs - first < DEPTH ? by->inputs - first : DEPTH;
            const char *panel = (const char *)by->weight + ((ptrdiff_t)column / PANEL * by->inputs + first) * bytes_a_row;
            for (int b = 0; b < blocks; b++) {
                int row = FIRST_ROW(b), rows = FIRST_ROW(b + 1) - row;
                int pace = bytes_a_row / blocks; /* every block asks for its share of the next panel */
                const char *next = panel + (ptrdiff_t)depth * (bytes_a_row + b * pace);
                const float *begin = first == 0 ? by->bias + column : NULL;
                const float *from = x + (ptrdiff_t)row * by->inputs + (ptrdiff_t)first * rows;
                float *to = y + row * y_stride + column;
#define FLOATS(n) block_floats(n, 0, depth, from, panel, next, pace, begin, to, y_stride)
#define HALVES(n) block_floats(n, 1, depth, from, panel, next, pace, begin, to, y_stride)
                if (half) BY_ROWS(rows, HALVES) else BY_ROWS(rows, FLOATS)
            }
        }
}
