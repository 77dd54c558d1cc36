/* Attention: softmax(scale q k + bias) v.

   Keys and values are stored in blocks of WIDTH positions, followed by the remaining positions one by one. A block has
   first the keys, column by column, so that a register holds the same column of WIDTH keys and a product with a query
   needs no sum across it; then the values, row by row; each head by head, so that a block is read sequentially. The
   layout of a position depends only on its index and the number of positions, and so does the order of summation: the
   result of a query is bitwise independent of the other queries. */

#pragma once

#include "rows.h"

#define QUERIES 8                          /* queries per call of attend, at most */
#define IN_REGISTERS (WIDTH == 16 ? 4 : 2) /* of them in registers at the same time */
#define SUMS 4                             /* partial sums per query: an addition must wait for the one before it */

/* Floats per block; `inner`: columns of a position in all heads together. */
INLINE ptrdiff_t block_size(int inner) { return (ptrdiff_t)2 * inner * WIDTH; }

/* The keys and values that queries attend to. */
typedef struct {
    int heads, size; /* size: columns per head */
    float scale;
    int n_blocks, n_single;     /* whole blocks; single keys, each followed by its value */
    int single_step;            /* single keys that each query has more than the one before it; they share the others */
    const float *const *blocks; /* those of one query after another, unless all queries share them */
    const float *const *single;
    int per_query;         /* whether each query has its own keys */
    const float *bias;     /* of the first key and head, or NULL */
    int bias_step;         /* from one query to the next */
    ptrdiff_t bias_stride; /* from one head to the next */
    float *scores;         /* buffer for QUERIES x heads x `stride` floats: one vector per block and one more */
    int stride;
} keys;

/* Packs WIDTH single key/value pairs into a block. */
static void pack(int heads, int size, const float *const *pairs, float *block) {
    int inner = heads * size;
    for (int i = 0; i < inner; i++)
        for (int j = 0; j < WIDTH; j++) block[(ptrdiff_t)i * WIDTH + j] = pairs[j][i];
    for (int h = 0; h < heads; h++)
        for (int j = 0; j < WIDTH; j++)
            memcpy(block + ((ptrdiff_t)inner + h * size) * WIDTH + j * size, pairs[j] + inner + h * size, sizeof(float) * size);
}

/* Scores: q k times the scale, for a few queries and a block's keys. The `next` keys are prefetched meanwhile: a block is
   too short for the hardware prefetcher. */
INLINE void block_scores(int queries, int size, float scale, const float *q, ptrdiff_t q_stride, const float *columns,
                         const float *next, float *scores, ptrdiff_t scores_stride) {
    floats total[IN_REGISTERS][SUMS];
    for (int r = 0; r < queries; r++)
        for (int s = 0; s < SUMS; s++) total[r][s] = all(0);
    int i = 0;
    for (; i + SUMS <= size; i += SUMS)
        _Pragma("GCC unroll 4") for (int s = 0; s < SUMS; s++) {
            __builtin_prefetch(next + (i + s) * WIDTH);
            floats column = load(columns + (ptrdiff_t)(i + s) * WIDTH);
            _Pragma("GCC unroll 4") for (int r = 0; r < queries; r++) total[r][s] += q[r * q_stride + i + s] * column;
        }
    for (int s = 0; i < size; i++, s++)
        for (int r = 0; r < queries; r++) total[r][s] += q[r * q_stride + i] * load(columns + i * WIDTH);
    for (int r = 0; r < queries; r++) {
        floats sum = (total[r][0] + total[r][1]) + (total[r][2] + total[r][3]);
        store(scores + r * scores_stride, sum * scale);
    }
}

/* The same for fewer than WIDTH single keys at offset `from` of each `at`; -inf where there is no key. */
INLINE floats single_scores(int size, float scale, const float *q, int count, const float *const *at, int from) {
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

/* context += weights x values, for a few queries, `count` values and `vectors` vectors of their columns. The values are
   `values_stride` apart, or at offset `values_stride` of each `at` if that is given. */
INLINE void add_weighted(int queries, int vectors, int count, const float *weights, ptrdiff_t weights_stride,
                         const float *values, const float *next, ptrdiff_t values_stride, const float *const *at,
                         float *context, ptrdiff_t context_stride) {
    floats total[IN_REGISTERS][4];
    for (int r = 0; r < queries; r++)
        for (int v = 0; v < vectors; v++) total[r][v] = load(context + r * context_stride + v * WIDTH);
    for (int j = 0; j < count; j++) {
        const float *value = at ? at[j] + values_stride : values + j * values_stride;
        _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++) {
            if (next) __builtin_prefetch(next + j * values_stride + v * WIDTH);
            floats part = load(value + v * WIDTH);
            _Pragma("GCC unroll 4") for (int r = 0; r < queries; r++) total[r][v] += weights[r * weights_stride + j] * part;
        }
    }
    for (int r = 0; r < queries; r++)
        for (int v = 0; v < vectors; v++) store(context + r * context_stride + v * WIDTH, total[r][v]);
}

/* The same for all columns of a head: values in a block, */
INLINE void add_block_values(int queries, int size, const float *weights, ptrdiff_t weights_stride, const float *values,
                             const float *next, float *context, ptrdiff_t context_stride) {
    int i = 0;
    for (; i + 4 * WIDTH <= size; i += 4 * WIDTH)
        add_weighted(queries, 4, WIDTH, weights, weights_stride, values + i, next + i, size, NULL, context + i, context_stride);
    for (; i + 2 * WIDTH <= size; i += 2 * WIDTH)
        add_weighted(queries, 2, WIDTH, weights, weights_stride, values + i, next + i, size, NULL, context + i, context_stride);
    for (; i + WIDTH <= size; i += WIDTH)
        add_weighted(queries, 1, WIDTH, weights, weights_stride, values + i, next + i, size, NULL, context + i, context_stride);
    for (int r = 0; r < queries && i < size; r++) /* columns innermost: their sums do not wait for each other */
        for (int j = 0; j < WIDTH; j++)
            for (int c = i; c < size; c++)
                context[r * context_stride + c] += weights[r * weights_stride + j] * values[(ptrdiff_t)j * size + c];
}

/* and single values, at offset `from` of each `at`. */
INLINE void add_single_values(int size, const float *weights, int count, const float *const *at, int from, float *context) {
    int i = 0;
    for (; i + 4 * WIDTH <= size; i += 4 * WIDTH)
        add_weighted(1, 4, count, weights, 0, NULL, NULL, from + i, at, context + i, 0);
    for (; i + 2 * WIDTH <= size; i += 2 * WIDTH)
        add_weighted(1, 2, count, weights, 0, NULL, NULL, from + i, at, context + i, 0);
    for (; i + WIDTH <= size; i += WIDTH) add_weighted(1, 1, count, weights, 0, NULL, NULL, from + i, at, context + i, 0);
    for (int j = 0; j < count && i < size; j++)
        for (int c = i; c < size; c++) context[c] += weights[j] * at[j][from + c];
}

#if WIDTH == 16
#define FOR_QUERIES(queries, what, ...)                                                                                         \
    switch (queries) {                                                                                                          \
    case 1: what(1, __VA_ARGS__); break;                                                                                        \
    case 2: what(2, __VA_ARGS__); break;                                                                                        \
    case 3: what(3, __VA_ARGS__); break;                                                                                        \
    default: what(4, __VA_ARGS__);                                                                                              \
    }
#else
#define FOR_QUERIES(queries, what, ...)                                                                                         \
    if (queries == 1)                                                                                                           \
        what(1, __VA_ARGS__);                                                                                                   \
    else                                                                                                                        \
        what(2, __VA_ARGS__);
#endif

/* The b-th block of query r. */
INLINE const float *block_at(const keys *k, int r, int b) { return k->blocks[(k->per_query ? (ptrdiff_t)r * k->n_blocks : 0) + b]; }

/* The block after it, for prefetching; after the last, the last itself. */
INLINE const float *block_after(const keys *k, int r, int b) { return block_at(k, r, b + 1 < k->n_blocks ? b + 1 : b); }

/* How many queries from r on share the b-th block, at most IN_REGISTERS. */
static int sharing_block(const keys *k, int r, int queries, int b) {
    int count = 1;
    while (count < IN_REGISTERS && r + count < queries && block_at(k, r + count, b) == block_at(k, r, b)) count++;
    return count;
}

/* Attention of up to QUERIES queries, all heads. Block by block, since many keys do not fit into the cache. */
static void attend(const keys *k, int queries, const float *q, ptrdiff_t q_stride, float *context, ptrdiff_t context_stride) {
    int heads = k->heads, size = k->size, inner = heads * size, single = k->n_blocks * WIDTH;
    ptrdiff_t stride = (ptrdiff_t)heads * k->stride; /* from one query's scores to the next */
    for (int b = 0; b < k->n_blocks; b++)
        for (int r = 0, few; r < queries; r += few) {
            const float *columns = block_at(k, r, b), *after = block_after(k, r, b);
            few = sharing_block(k, r, queries, b);
            for (int h = 0; h < heads; h++, columns += (ptrdiff_t)size * WIDTH)
                FOR_QUERIES(few, block_scores, size, k->scale, q + r * q_stride + h * size, q_stride, columns,
                            h + 1 < heads ? columns + (ptrdiff_t)size * WIDTH : after,
                            k->scores + r * stride + (ptrdiff_t)h * k->stride + b * WIDTH, stride)
        }
    for (int r = 0; r < queries && k->n_single; r++) {
        const float *const *at = k->single + (k->per_query ? (ptrdiff_t)r * k->n_single : 0), *query = q + r * q_stride;
        float *scores = k->scores + r * stride + single;
        int n_single = k->n_single + r * k->single_step;
        for (int h = 0; h < heads; h++, query += size, scores += k->stride)
            switch (size) { /* the usual sizes as constants for the compiler */
            case 32: store(scores, single_scores(32, k->scale, query, n_single, at, h * 32)); break;
            case 64: store(scores, single_scores(64, k->scale, query, n_single, at, h * 64)); break;
            default: store(scores, single_scores(size, k->scale, query, n_single, at, h * size));
            }
    }
    for (int r = 0; r < queries; r++) {
        int count = single + k->n_single + r * k->single_step;
        for (int h = 0; h < heads; h++) {
            float *scores = k->scores + r * stride + (ptrdiff_t)h * k->stride;
            const float *bias = k->bias ? k->bias + (ptrdiff_t)r * k->bias_step + h * k->bias_stride : NULL;
            for (int j = 0; bias && j < count; j += WIDTH)
                store(scores + j, load(scores + j) + part_of(bias, j, count, 0));
            softmax(count, scores);
        }
        memset(context + r * context_stride, 0, sizeof(float) * inner);
    }
    for (int b = 0; b < k->n_blocks; b++)
        for (int r = 0, few; r < queries; r += few) {
            const float *values = block_at(k, r, b) + (ptrdiff_t)inner * WIDTH;
            const float *after = block_after(k, r, b) + (ptrdiff_t)inner * WIDTH;
            few = sharing_block(k, r, queries, b);
            for (int h = 0; h < heads; h++, values += (ptrdiff_t)size * WIDTH)
                FOR_QUERIES(few, add_block_values, size, k->scores + r * stride + (ptrdiff_t)h * k->stride + b * WIDTH,
                            stride, values, h + 1 < heads ? values + (ptrdiff_t)size * WIDTH : after,
                            context + r * context_stride + h * size, context_stride)
        }
    for (int r = 0; r < queries; r++)
        for (int h = 0; h < heads; h++)
            add_single_values(size, k->scores + r * stride + (ptrdiff_t)h * k->stride + single,
                              k->n_single + r * k->single_step, k->single + (k->per_query ? (ptrdiff_t)r * k->n_single : 0), inner + h * size,
                              context + r * context_stride + h * size);
}
