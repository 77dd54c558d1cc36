/* Matrix products with packed weights, in four precisions.

   A matrix is stored in packed panels of PANEL columns, each panel row by row, so that a product reads it sequentially.
   Every number of the result is one sum in the order of the matrix's rows, however many rows x has: a row of the result
   is bitwise independent of the other rows. */

#pragma once

#include "rows.h"

enum precision { FLOAT32, FLOAT16, BFLOAT16, INT8 };

typedef struct {
    int32_t precision, inputs, outputs; /* outputs rounded up to whole panels, with zero weights */
    const void *weight;                 /* packed panels; bfloat16, int8: two, four rows of a column are adjacent */
    const float *bias;                  /* one per output */
    const float *scale;                 /* int8: quantisation step of each output's weights */
    const int32_t *sums;                /* int8: 128 times the sum of each output's weights */
} product;

#define DEPTH 512 /* rows of a panel processed at once: they stay in the L1 and L2 caches */
#define EACH_ROW _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
#define EACH_VECTOR _Pragma("GCC unroll 8") for (int v = 0; v < PANEL_VECTORS; v++)

/* Prefetches up to 128 bytes. */
INLINE void prefetch(const char *bytes, int count) {
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
    /* The exponent's bias changes by 112; numbers below 2^-14 lack the leading 1, and infinity has the largest exponent. */
    ints bits = __builtin_convertvector(*(const halves *)from, ints), size = (bits & 0x7fff) << 13;
    ints exponent = size & 0x0f800000, changed = size + (112 << 23);
    changed = (ints)choose(exponent == 0x0f800000, (floats)(changed + (112 << 23)), (floats)changed);
    floats small = (floats)(changed + (1 << 23)) - 0x1p-14f;
    return (floats)((ints)choose(exponent == 0, small, (floats)changed) | ((ints)all(-0.0f) & (bits > 0x7fff)));
#endif
}

/* Two bfloat16 numbers per int, adjacent ones of a row, rounded to nearest even; NaN stays NaN. */
INLINE ints rounded_pairs(floats a, floats b) {
    floats both[] = {SHUFFLE(ints, a, b, EVEN), SHUFFLE(ints, a, b, ODD)};
    ints bits[2];
    for (int i = 0; i < 2; i++) {
        bits[i] = (ints)choose(both[i] == both[i], both[i], all(NAN));
        bits[i] += 0x7fff + (bits[i] >> 16 & 1);
    }
    return (bits[0] >> 16 & 0xffff) | (bits[1] & ~0xffff);
}

/* A row in bfloat16; writes up to one vector beyond the end. */
static void round_to_pairs(int size, const float *x, float *pairs) {
    for (int i = 0; i < size; i += 2 * WIDTH) {
        floats second = i + WIDTH < size ? part_of(x, i + WIDTH, size, 0) : all(0);
        *(ints *)(pairs + i / 2) = rounded_pairs(part_of(x, i, size, 0), second);
    }
}

/* total += two bfloat16 products per column, first that of the odd row, each rounded as float32. Bitwise the same on every
   processor, except that the instruction takes numbers below 2^-126 for zero. */
INLINE floats two_products(floats total, const float *x, floats w) {
    uint32_t two;
    memcpy(&two, x, 4);
#if defined(__AVX512BF16__)
    return (floats)_mm512_dpbf16_ps((__m512)total, (__m512bh)w, (__m512bh)_mm512_set1_epi32((int)two));
#else
    uint32_t parts[] = {two << 16, two & 0xffff0000};
    float even, odd;
    memcpy(&even, parts, 4), memcpy(&odd, parts + 1, 4);
    total += odd * (floats)((ints)w & ~0xffff);
    return total + even * (floats)((ints)w << 16);
#endif
}

/* y += up to ROWS interleaved rows of x times `depth` rows of a panel; the sum starts from `begin`, the bias, if given.
   In bfloat16, rows of x and of the panel are pairs. `rows` and `precision` are constants where this is inlined. `next` is
   prefetched meanwhile, `prefetch_bytes` per panel row. */
INLINE void block_floats(int rows, enum precision precision, int depth, const float *x, const void *panel, const char *next,
                         int prefetch_bytes, const float *begin, float *y, ptrdiff_t y_stride) {
    floats total[ROWS][PANEL_VECTORS];
    EACH_ROW EACH_VECTOR total[i][v] = load(begin ? begin + v * WIDTH : y + i * y_stride + v * WIDTH);
    const int half = precision == FLOAT16, bytes = PANEL * (half ? 2 : 4);
    for (int k = 0; k < depth; k++) {
        const char *here = (const char *)panel + (ptrdiff_t)k * bytes;
        prefetch(next + (ptrdiff_t)k * prefetch_bytes, prefetch_bytes);
        floats w[PANEL_VECTORS];
        EACH_VECTOR w[v] = half ? load_half((const uint16_t *)here + v * WIDTH) : load((const float *)here + v * WIDTH);
        EACH_ROW {
            const float *factor = x + (ptrdiff_t)k * rows + i;
            EACH_VECTOR {
                if (precision == BFLOAT16) total[i][v] = two_products(total[i][v], factor, w[v]);
                else total[i][v] += *factor * w[v];
            }
        }
    }
    EACH_ROW EACH_VECTOR store(y + i * y_stride + v * WIDTH, total[i][v]);
}

/* total += four byte products per column. */
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
    /* In 16 bits, where pairs cannot overflow: 255 * 127 * 2 overflows the byte instruction. */
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

/* The same in int8; the sums are integers, so their order does not matter. `row_scale`: quantisation step of each row. */
INLINE void block_bytes(int rows, const product *by, const uint8_t *x, ptrdiff_t x_stride, int column, const char *next,
                        int prefetch_bytes, const float *row_scale, float *y, ptrdiff_t y_stride) {
    ints total[ROWS][PANEL_VECTORS];
    EACH_ROW EACH_VECTOR total[i][v] = (ints){0};
    int depth = (by->inputs + 3) / 4, bytes = PANEL * 4;
    const int8_t *panel = (const int8_t *)by->weight + (ptrdiff_t)column * depth * 4;
    for (int k = 0; k < depth; k++, panel += bytes) {
        prefetch(next + (ptrdiff_t)k * prefetch_bytes, prefetch_bytes);
        EACH_ROW EACH_VECTOR total[i][v] = four_products(total[i][v], x + i * x_stride + 4 * k, panel + v * WIDTH * 4);
    }
    EACH_VECTOR {
        int c = column + v * WIDTH;
        ints sums = *(const ints *)(by->sums + c);
        floats scale = load(by->scale + c), bias = load(by->bias + c);
        EACH_ROW {
            floats whole = __builtin_convertvector(total[i][v] - sums, floats);
            store(y + i * y_stride + c, whole * (row_scale[i] * scale) + bias);
        }
    }
}

/* Up to ROWS rows; dispatches to a constant row count, so that the sums stay in registers. */
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

/* Quantises a row to integers from 1 to 255, with 128 for zero; returns the quantisation step. */
static float quantise(int size, const float *x, uint8_t *quantised) {
    floats top = {0}, wrong = {0};
    for (int i = 0; i < size; i += WIDTH) {
        floats part = size - i < WIDTH ? load_part(x + i, size - i, 0) : load(x + i);
        top = larger(larger(part, -part), top);
        wrong += check(part);
    }
    float most = largest(top);
    float row_scale = most / 127, inverse = most > 1e-36f ? 127 / most : 0; /* 127 / 1e-37 would be infinite */
    int i = 0;
    for (; i < size; i++) { /* adding 1.5 * 2^23 (+ 128) rounds; the low bits are the integer */
        float shifted = x[i] * inverse + 12583040.0f;
        uint32_t bits;
        memcpy(&bits, &shifted, 4);
        quantised[i] = (uint8_t)bits;
    }
    for (; i % 4; i++) quantised[i] = 128;
    return row_scale + sum(wrong); /* NaN if any number is not finite */
}

typedef float four_floats __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t four_ints __attribute__((vector_size(16)));

/* Interleaves rows so that numbers read together are adjacent: the first of all rows, the second of all rows, ... */
static void interleave(int rows, int size, const float *x, ptrdiff_t x_stride, float *out) {
    int i = 0;
    for (; i + 4 <= rows; i += 4) { /* 4 x 4 squares are transposed in registers */
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

/* y = x W + b for `count` rows. `scratch`: buffer of the size of x plus two floats per row. */
static void multiply(const product *by, int count, const float *x, ptrdiff_t x_stride, float *y, ptrdiff_t y_stride,
                     float *scratch) {
    int blocks = (count + ROWS - 1) / ROWS;
#define FIRST_ROW(b) ((int)((int64_t)count * (b) / blocks)) /* blocks of similar size: small ones waste registers */
    if (by->precision == INT8) {
        int stride = (by->inputs + 3) / 4 * 4;
        float *row_scale = scratch;
        uint8_t *quantised = (uint8_t *)(scratch + count);
        for (int i = 0; i < count; i++)
            row_scale[i] = quantise(by->inputs, x + i * x_stride, quantised + (ptrdiff_t)i * stride);
        for (int column = 0; column < by->outputs; column += PANEL)
            for (int b = 0; b < blocks; b++) {
                int row = FIRST_ROW(b), rows = FIRST_ROW(b + 1) - row, prefetch_bytes = PANEL * 4 / blocks;
                const char *next = (const char *)by->weight + (ptrdiff_t)(column + PANEL) * stride +
                                   (ptrdiff_t)b * stride / 4 * prefetch_bytes;
                const uint8_t *from = quantised + (ptrdiff_t)row * stride;
#define BYTES(n) block_bytes(n, by, from, stride, column, next, prefetch_bytes, row_scale + row, y + row * y_stride, y_stride)
                BY_ROWS(rows, BYTES)
            }
        return;
    }
    int size = by->inputs, bytes_per_row = PANEL * (by->precision == FLOAT16 ? 2 : 4);
    if (by->precision == BFLOAT16) {
        size = (by->inputs + 1) / 2;
        for (int i = 0; i < count; i++) round_to_pairs(by->inputs, x + i * x_stride, scratch + (ptrdiff_t)i * size);
        x = scratch, x_stride = size, scratch += (ptrdiff_t)count * size;
    }
    for (int b = 0; b < blocks && count > 1; b++) {
        int row = FIRST_ROW(b);
        interleave(FIRST_ROW(b + 1) - row, size, x + row * x_stride, x_stride, scratch + (ptrdiff_t)row * size);
    }
    if (count > 1) x = scratch;
    for (int column = 0; column < by->outputs; column += PANEL)
        for (int first = 0; first < size; first += DEPTH) {
            int depth = size - first < DEPTH ? size - first : DEPTH;
            const char *panel = (const char *)by->weight + ((ptrdiff_t)column / PANEL * size + first) * bytes_per_row;
            for (int b = 0; b < blocks; b++) {
                int row = FIRST_ROW(b), rows = FIRST_ROW(b + 1) - row;
                int prefetch_bytes = bytes_per_row / blocks; /* every block prefetches its share of the next panel */
                const char *next = panel + (ptrdiff_t)depth * (bytes_per_row + b * prefetch_bytes);
                const float *begin = first == 0 ? by->bias + column : NULL;
                const float *from = x + (ptrdiff_t)row * size + (ptrdiff_t)first * rows;
                float *to = y + row * y_stride + column;
#define FLOATS(n) block_floats(n, FLOAT32, depth, from, panel, next, prefetch_bytes, begin, to, y_stride)
#define HALVES(n) block_floats(n, FLOAT16, depth, from, panel, next, prefetch_bytes, begin, to, y_stride)
#define PAIRS(n) block_floats(n, BFLOAT16, depth, from, panel, next, prefetch_bytes, begin, to, y_stride)
                switch (by->precision) {
                case FLOAT16: BY_ROWS(rows, HALVES) break;
                case BFLOAT16: BY_ROWS(rows, PAIRS) break;
                default: BY_ROWS(rows, FLOATS)
                }
            }
        }
}
