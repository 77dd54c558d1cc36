/* softmax(scale q k + bias) v.

   Keys stand in two ways. What all hypotheses of a sentence have in common, the source and the trunk of the target, is packed:
   WIDTH positions together, so that one register holds the same column of WIDTH keys and a product with a query needs no sum
   across it. What they do not have in common, the newest few positions, stands one by one, and each query knows where. */

#pragma once

#include "rows.h"

#define QUERIES 8                          /* that look at keys together, at most */
#define ABREAST (WIDTH == 16 ? 4 : 2)      /* of them with the same registers of packed keys */

/* What queries look at, a key's heads one after another, then its value's. */
typedef struct {
    int heads, size; /* of each */
    float scale;
    const float *packed; /* keys that all queries look at; NULL if there are none */
    int n_packed;
    int count; /* keys behind them, at `at` */
    const float *const *at;
    int at_step;           /* from one query's keys to the next's: 0 if all look at the same */
    const float *bias;     /* of the first key and head; or NULL */
    int bias_step;         /* from one query's to the next's */
    ptrdiff_t bias_stride; /* from one head's to the next's */
    float *scores;         /* room for QUERIES, for each head of them `stride` floats */
    int stride;
} keys;

/* Positions as whole blocks; and the floats of a block: the columns of its keys, then its values one after another. */
INLINE int blocks_of(int positions) { return (positions + WIDTH - 1) / WIDTH; }
INLINE ptrdiff_t block_size(int inner) { return (ptrdiff_t)2 * inner * WIDTH; }

/* A key, and its value behind it, to its place among the packed ones. */
static void pack(int inner, const float *pair, int position, float *packed) {
    float *block = packed + position / WIDTH * block_size(inner), *key = block + position % WIDTH;
    for (int i = 0; i < inner; i++) key[i * WIDTH] = pair[i];
    memcpy(block + (ptrdiff_t)(WIDTH + position % WIDTH) * inner, pair + inner, sizeof(float) * inner);
}

/* q k of WIDTH packed keys for a few queries, times the scale; -inf where there is no key. Two sums under way for each query,
   whatever their number, so that a score's bits do not depend on who looks beside it. */
INLINE void compared_packed(int queries, int size, float scale, const float *q, ptrdiff_t q_stride, const float *columns,
                            int count, float *scores, ptrdiff_t scores_stride) {
    floats even[ABREAST], odd[ABREAST];
    for (int r = 0; r < queries; r++) even[r] = odd[r] = all(0);
    int i = 0;
    for (; i + 1 < size; i += 2) {
        floats first = load(columns + i * WIDTH), second = load(columns + (i + 1) * WIDTH);
        for (int r = 0; r < queries; r++)
            even[r] += q[r * q_stride + i] * first, odd[r] += q[r * q_stride + i + 1] * second;
    }
    if (i < size)
        for (int r = 0; r < queries; r++) even[r] += q[r * q_stride + i] * load(columns + i * WIDTH);
    for (int r = 0; r < queries; r++) store(scores + r * scores_stride, filled((even[r] + odd[r]) * scale, count, -INFINITY));
}

/* The same of up to WIDTH keys that stand one by one, `from` floats behind `at`. */
INLINE floats compared(int size, float scale, const float *q, int count, const float *const *at, int from) {
    floats total[WIDTH];
    for (int j = 0; j < WIDTH; j++) {
        total[j] = all(0);
        if (j >= count) continue;
        const float *k = at[j] + from;
        int i = 0;
        for (; i + WIDTH <= size; i += WIDTH) total[j] += load(q + i) * load(k + i);
        if (i < size) total[j] += load_part(q + i, size - i, 0) * load_part(k + i, size - i, 0);
    }
    return filled(sums(total) * scale, count, -INFINITY);
}

/* Bring up to WIDTH rows near, while something else is done. */
INLINE void ask_for_rows(const float *const *at, int count, int from, int size) {
    for (int j = 0; j < count && j < WIDTH; j++)
        for (int i = 0; i < size; i += 16) __builtin_prefetch(at[j] + from + i, 0, 3);
}

/* Scores of all keys, those one by one behind the packed ones' last whole block. */
static void compare(const keys *k, int queries, const float *q, ptrdiff_t q_stride) {
    int heads = k->heads, size = k->size, inner = heads * size, packed = blocks_of(k->n_packed) * WIDTH;
    ptrdiff_t stride = (ptrdiff_t)heads * k->stride; /* from one query's scores to the next's */
    for (int first = 0; first < k->n_packed; first += WIDTH) {
        const float *block = k->packed + first / WIDTH * block_size(inner);
        int few = k->n_packed - first < WIDTH ? k->n_packed - first : WIDTH;
        for (int h = 0; h < heads; h++)
            for (int r = 0; r < queries; r += ABREAST) {
                const float *own = q + r * q_stride + h * size, *columns = block + (ptrdiff_t)h * size * WIDTH;
                float *scores = k->scores + r * stride + (ptrdiff_t)h * k->stride + first;
                switch (queries - r) {
                case 1: compared_packed(1, size, k->scale, own, q_stride, columns, few, scores, stride); break;
#if WIDTH == 16
                case 2: compared_packed(2, size, k->scale, own, q_stride, columns, few, scores, stride); break;
                case 3: compared_packed(3, size, k->scale, own, q_stride, columns, few, scores, stride); break;
#endif
                default: compared_packed(ABREAST, size, k->scale, own, q_stride, columns, few, scores, stride);
                }
            }
    }
    for (int first = 0; first < k->count; first += WIDTH) {
        int few = k->count - first < WIDTH ? k->count - first : WIDTH;
        ask_for_rows(k->at + first + WIDTH, k->count - first - WIDTH, 0, inner);
        for (int r = 0; r < queries; r++)
            for (int h = 0; h < heads; h++) {
                const float *own = q + r * q_stride + h * size, *const *at = k->at + r * k->at_step + first;
                float *scores = k->scores + r * stride + (ptrdiff_t)h * k->stride + packed + first;
                switch (size) { /* usual sizes, known to the compiler */
                case 32: store(scores, compared(32, k->scale, own, few, at, h * 32)); break;
                case 64: store(scores, compared(64, k->scale, own, few, at, h * 64)); break;
                default: store(scores, compared(size, k->scale, own, few, at, h * size));
                }
            }
    }
}

/* Add to `out` the `vectors` vectors that stand `from` floats behind each of `at`, each times its weight. */
INLINE void weighted(int vectors, int count, const float *weights, const float *const *at, int from, float *out) {
    floats total[4];
    _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++) total[v] = load(out + v * WIDTH);
    for (int j = 0; j < count; j++)
        _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++) total[v] += weights[j] * load(at[j] + from + v * WIDTH);
    _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++) store(out + v * WIDTH, total[v]);
}

/* Add up to WIDTH values, `from` floats behind `at`, times their weights, to what a query has found. */
INLINE void take(const keys *k, int few, const float *weights, const float *const *at, int from, float *context) {
    int size = k->size;
    for (int h = 0; h < k->heads; h++, weights += k->stride, context += size, from += size) {
        int i = 0;
        for (; i + 4 * WIDTH <= size; i += 4 * WIDTH) weighted(4, few, weights, at, from + i, context + i);
        for (; i + 2 * WIDTH <= size; i += 2 * WIDTH) weighted(2, few, weights, at, from + i, context + i);
        for (; i + WIDTH <= size; i += WIDTH) weighted(1, few, weights, at, from + i, context + i);
        for (; i < size; i++)
            for (int j = 0; j < few; j++) context[i] += weights[j] * at[j][from + i];
    }
}

/* softmax(scale q k + bias) v for every head of up to QUERIES queries. A few keys at a time, for all heads and queries: keys
   may be many, and only so much stays near the processor. */
static void attend(const keys *k, int queries, const float *q, ptrdiff_t q_stride, float *context, ptrdiff_t context_stride) {
    int heads = k->heads, inner = heads * k->size, packed = blocks_of(k->n_packed) * WIDTH;
    compare(k, queries, q, q_stride);
    for (int r = 0; r < queries; r++) {
        for (int h = 0; h < heads; h++) {
            float *own = k->scores + (ptrdiff_t)(r * heads + h) * k->stride;
            const float *bias = k->bias ? k->bias + r * k->bias_step + h * k->bias_stride : NULL;
            for (int j = 0; bias && j < k->n_packed; j += WIDTH) store(own + j, load(own + j) + part_of(bias, j, k->n_packed, 0));
            for (int j = 0; bias && j < k->count; j += WIDTH)
                store(own + packed + j, load(own + packed + j) + part_of(bias + k->n_packed, j, k->count, 0));
            softmax(packed + k->count, own);
        }
        memset(context + r * context_stride, 0, sizeof(float) * inner);
    }
    for (int first = 0; first < k->n_packed; first += WIDTH) {
        const float *values = k->packed + first / WIDTH * block_size(inner) + (ptrdiff_t)WIDTH * inner, *at[WIDTH];
        int few = k->n_packed - first < WIDTH ? k->n_packed - first : WIDTH;
        for (int j = 0; j < few; j++) at[j] = values + (ptrdiff_t)j * inner;
        for (int r = 0; r < queries; r++)
            take(k, few, k->scores + (ptrdiff_t)r * heads * k->stride + first, at, 0, context + r * context_stride);
    }
    for (int first = 0; first < k->count; first += WIDTH) {
        int few = k->count - first < WIDTH ? k->count - first : WIDTH;
        ask_for_rows(k->at + first + WIDTH, k->count - first - WIDTH, inner, inner);
        for (int r = 0; r < queries; r++)
            take(k, few, k->scores + (ptrdiff_t)r * heads * k->stride + packed + first, k->at + r * k->at_step + first, inner,
                 context + r * context_stride);
    }
}
