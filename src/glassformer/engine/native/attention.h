/* softmax(scale q k + bias) v.

   Keys and values stand in whole blocks of WIDTH positions, and behind them, while there are fewer, one by one. In a block
   first come the keys, column by column, so that a register holds the same column of WIDTH keys and a product with a query
   needs no sum across it; then the values, row by row; each head by head, so that a block is read from front to back. How a
   position stands depends on its number and on how many there are, and on nothing else, and so does the order in which
   products are added: a query finds the same bits, whoever looks beside it. */

#pragma once

#include "rows.h"

#define QUERIES 8                     /* that look at keys together, at most */
#define ABREAST (WIDTH == 16 ? 4 : 2) /* of them with the same registers */
#define SUMS 4                        /* under way for each query: a sum must wait for the one before it */

/* Floats of a block whose positions have `inner` columns in all heads together. */
INLINE ptrdiff_t block_size(int inner) { return (ptrdiff_t)2 * inner * WIDTH; }

/* What queries look at. */
typedef struct {
    int heads, size; /* of each */
    float scale;
    int n_blocks, n_single;     /* whole blocks; keys that stand one by one, each with its value behind it */
    const float *const *blocks; /* one query's behind another's, unless all look at the same */
    const float *const *single;
    int own;               /* whether each query has its own */
    const float *bias;     /* of the first key and head; or NULL */
    int bias_step;         /* from one query's to the next's */
    ptrdiff_t bias_stride; /* from one head's to the next's */
    float *scores;         /* room for QUERIES, for each head of them `stride` floats: a vector for each block and one more */
    int stride;
} keys;

/* A block of pairs that stand one by one. */
static void pack(int heads, int size, const float *const *pairs, float *block) {
    int inner = heads * size;
    for (int i = 0; i < inner; i++)
        for (int j = 0; j < WIDTH; j++) block[(ptrdiff_t)i * WIDTH + j] = pairs[j][i];
    for (int h = 0; h < heads; h++)
        for (int j = 0; j < WIDTH; j++)
            memcpy(block + ((ptrdiff_t)inner + h * size) * WIDTH + j * size, pairs[j] + inner + h * size, sizeof(float) * size);
}

/* q k of a block's keys, times the scale, for a few queries. Meanwhile the `next` ones are asked for: a block ends too soon for
   the processor to see where it is going. */
INLINE void compared(int queries, int size, float scale, const float *q, ptrdiff_t q_stride, const float *columns,
                     const float *next, float *scores, ptrdiff_t scores_stride) {
    floats total[ABREAST][SUMS];
    for (int r = 0; r < queries; r++)
        for (int s = 0; s < SUMS; s++) total[r][s] = all(0);
    int i = 0;
    for (; i + SUMS <= size; i += SUMS)
        _Pragma("GCC unroll 4") for (int s = 0; s < SUMS; s++) {
            __builtin_prefetch(next + (i + s) * WIDTH);
            floats column = load(columns + (i + s) * WIDTH);
            _Pragma("GCC unroll 4") for (int r = 0; r < queries; r++) total[r][s] += q[r * q_stride + i + s] * column;
        }
    for (int s = 0; i < size; i++, s++)
        for (int r = 0; r < queries; r++) total[r][s] += q[r * q_stride + i] * load(columns + i * WIDTH);
    for (int r = 0; r < queries; r++) {
        floats sum = (total[r][0] + total[r][1]) + (total[r][2] + total[r][3]);
        store(scores + r * scores_stride, sum * scale);
    }
}

/* The same of fewer keys that stand one by one, `from` floats behind `at`; -inf where there is none. */
INLINE floats compared_singly(int size, float scale, const float *q, int count, const float *const *at, int from) {
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

/* Add to what a few queries have found `vectors` vectors of each of `count` values, times their weights; the values stand
   `values_stride` apart, or at `at` if that is given. */
INLINE void weighted(int queries, int vectors, int count, const float *weights, ptrdiff_t weights_stride, const float *values,
                     const float *next, ptrdiff_t values_stride, const float *const *at, float *found, ptrdiff_t found_stride) {
    floats total[ABREAST][4];
    for (int r = 0; r < queries; r++)
        for (int v = 0; v < vectors; v++) total[r][v] = load(found + r * found_stride + v * WIDTH);
    for (int j = 0; j < count; j++) {
        const float *value = at ? at[j] + values_stride : values + j * values_stride;
        _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++) {
            if (next) __builtin_prefetch(next + j * values_stride + v * WIDTH);
            floats part = load(value + v * WIDTH);
            _Pragma("GCC unroll 4") for (int r = 0; r < queries; r++) total[r][v] += weights[r * weights_stride + j] * part;
        }
    }
    for (int r = 0; r < queries; r++)
        for (int v = 0; v < vectors; v++) store(found + r * found_stride + v * WIDTH, total[r][v]);
}

/* The same of whole values of a head: of a block, */
INLINE void take(int queries, int size, const float *weights, ptrdiff_t weights_stride, const float *values, const float *next,
                 float *found, ptrdiff_t found_stride) {
    int i = 0;
    for (; i + 4 * WIDTH <= size; i += 4 * WIDTH)
        weighted(queries, 4, WIDTH, weights, weights_stride, values + i, next + i, size, NULL, found + i, found_stride);
    for (; i + 2 * WIDTH <= size; i += 2 * WIDTH)
        weighted(queries, 2, WIDTH, weights, weights_stride, values + i, next + i, size, NULL, found + i, found_stride);
    for (; i + WIDTH <= size; i += WIDTH)
        weighted(queries, 1, WIDTH, weights, weights_stride, values + i, next + i, size, NULL, found + i, found_stride);
    for (; i < size; i++)
        for (int r = 0; r < queries; r++)
            for (int j = 0; j < WIDTH; j++)
                found[r * found_stride + i] += weights[r * weights_stride + j] * values[(ptrdiff_t)j * size + i];
}

/* and of those that stand one by one, `from` floats behind `at`. */
INLINE void take_singly(int size, const float *weights, int count, const float *const *at, int from, float *found) {
    int i = 0;
    for (; i + 4 * WIDTH <= size; i += 4 * WIDTH) weighted(1, 4, count, weights, 0, NULL, NULL, from + i, at, found + i, 0);
    for (; i + 2 * WIDTH <= size; i += 2 * WIDTH) weighted(1, 2, count, weights, 0, NULL, NULL, from + i, at, found + i, 0);
    for (; i + WIDTH <= size; i += WIDTH) weighted(1, 1, count, weights, 0, NULL, NULL, from + i, at, found + i, 0);
    for (; i < size; i++)
        for (int j = 0; j < count; j++) found[i] += weights[j] * at[j][from + i];
}

#if WIDTH == 16
#define FOR_SO_MANY(queries, what, ...)                                                                                         \
    switch (queries) {                                                                                                          \
    case 1: what(1, __VA_ARGS__); break;                                                                                        \
    case 2: what(2, __VA_ARGS__); break;                                                                                        \
    case 3: what(3, __VA_ARGS__); break;                                                                                        \
    default: what(4, __VA_ARGS__);                                                                                              \
    }
#else
#define FOR_SO_MANY(queries, what, ...)                                                                                         \
    if (queries == 1)                                                                                                           \
        what(1, __VA_ARGS__);                                                                                                   \
    else                                                                                                                        \
        what(2, __VA_ARGS__);
#endif

/* A query's b-th block. */
INLINE const float *block_at(const keys *k, int r, int b) { return k->blocks[(k->own ? r * k->n_blocks : 0) + b]; }

/* The one that it looks at next; the last one stays. */
INLINE const float *block_after(const keys *k, int r, int b) { return block_at(k, r, b + 1 < k->n_blocks ? b + 1 : b); }

/* How many queries from r on look at the same one. */
static int abreast(const keys *k, int r, int queries, int b) {
    int count = 1;
    while (count < ABREAST && r + count < queries && block_at(k, r + count, b) == block_at(k, r, b)) count++;
    return count;
}

/* For every head of up to QUERIES queries. Block by block: keys may be many, and only so much stays near the processor. */
static void attend(const keys *k, int queries, const float *q, ptrdiff_t q_stride, float *context, ptrdiff_t context_stride) {
    int heads = k->heads, size = k->size, inner = heads * size, single = k->n_blocks * WIDTH, count = single + k->n_single;
    ptrdiff_t stride = (ptrdiff_t)heads * k->stride; /* from one query's scores to the next's */
    for (int b = 0; b < k->n_blocks; b++)
        for (int r = 0, few; r < queries; r += few) {
            const float *columns = block_at(k, r, b), *after = block_after(k, r, b);
            few = abreast(k, r, queries, b);
            for (int h = 0; h < heads; h++, columns += (ptrdiff_t)size * WIDTH)
                FOR_SO_MANY(few, compared, size, k->scale, q + r * q_stride + h * size, q_stride, columns,
                            h + 1 < heads ? columns + (ptrdiff_t)size * WIDTH : after,
                            k->scores + r * stride + (ptrdiff_t)h * k->stride + b * WIDTH, stride)
        }
    for (int r = 0; r < queries && k->n_single; r++) {
        const float *const *at = k->single + (k->own ? r * k->n_single : 0), *own = q + r * q_stride;
        float *scores = k->scores + r * stride + single;
        for (int h = 0; h < heads; h++, own += size, scores += k->stride)
            switch (size) { /* usual ones, known to the compiler */
            case 32: store(scores, compared_singly(32, k->scale, own, k->n_single, at, h * 32)); break;
            case 64: store(scores, compared_singly(64, k->scale, own, k->n_single, at, h * 64)); break;
            default: store(scores, compared_singly(size, k->scale, own, k->n_single, at, h * size));
            }
    }
    for (int r = 0; r < queries; r++) {
        for (int h = 0; h < heads; h++) {
            float *own = k->scores + r * stride + (ptrdiff_t)h * k->stride;
            const float *bias = k->bias ? k->bias + r * k->bias_step + h * k->bias_stride : NULL;
            for (int j = 0; bias && j < count; j += WIDTH) store(own + j, load(own + j) + part_of(bias, j, count, 0));
            softmax(count, own);
        }
        memset(context + r * context_stride, 0, sizeof(float) * inner);
    }
    for (int b = 0; b < k->n_blocks; b++)
        for (int r = 0, few; r < queries; r += few) {
            const float *values = block_at(k, r, b) + (ptrdiff_t)inner * WIDTH;
            const float *after = block_after(k, r, b) + (ptrdiff_t)inner * WIDTH;
            few = abreast(k, r, queries, b);
            for (int h = 0; h < heads; h++, values += (ptrdiff_t)size * WIDTH)
                FOR_SO_MANY(few, take, size, k->scores + r * stride + (ptrdiff_t)h * k->stride + b * WIDTH, stride, values,
                            h + 1 < heads ? values + (ptrdiff_t)size * WIDTH : after,
                            context + r * context_stride + h * size, context_stride)
        }
    for (int r = 0; r < queries; r++)
        for (int h = 0; h < heads; h++)
            take_singly(size, k->scores + r * stride + (ptrdiff_t)h * k->stride + single, k->n_single,
                        k->single + (k->own ? r * k->n_single : 0), inner + h * size, context + r * context_stride + h * size);
}
